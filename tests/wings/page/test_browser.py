"""The page in Chromium: library, player with its menus, what runs, and the page that `embed` writes."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from e2e.conftest import MakeClip
from players.server import serving
from tqstudio.protocol import calls
from tqstudio.wings.page import embedding
from waiting import until

from .conftest import LENGTH_S, Film, printed_address

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

LATER_SEGMENTS = re.compile("seg_0000[2-9]")

pytestmark = [pytest.mark.players, pytest.mark.xdist_group("page")]


@pytest.fixture
def tab(chromium: Browser) -> Iterator[Page]:
    """A tab in which nothing may go wrong."""
    page = chromium.new_page()
    troubles: list[str] = []
    page.on("pageerror", lambda error: troubles.append(f"{error}"))
    page.on("console", lambda said: "Content Security" in said.text and troubles.append(said.text))
    yield page
    page.close()
    assert troubles == []


def video(tab: Page, what: str) -> Any:
    return tab.evaluate(f"document.querySelector('video').{what}")


def open_film(film: Film, tab: Page) -> None:
    tab.goto(printed_address(film.studio, str(film.job)))
    until_playing(tab)


def until_playing(tab: Page) -> None:
    """Wait until pictures are decoded and the clock advances."""
    tab.locator("video").wait_for(state="attached")
    at = video(tab, "currentTime")
    until(lambda: video(tab, "currentTime") > at + 0.3, "it plays")
    assert video(tab, "getVideoPlaybackQuality().totalVideoFrames") > 0


def choose(tab: Page, menu: str, label: str) -> None:
    tab.get_by_label(menu, exact=True).select_option(label=label)


def test_from_the_library_to_a_film_with_its_menus(film: Film, tab: Page) -> None:
    tab.goto(printed_address(film.studio))
    card = tab.locator(f"a.card[href='#/video/{film.video}']")
    assert "360p 180p" in card.inner_text()
    until(lambda: card.locator("img").evaluate("image => image.naturalWidth") > 0, "its poster is shown")
    card.click()
    until_playing(tab)
    assert round(video(tab, "duration")) == LENGTH_S

    choose(tab, "Quality", "90p")
    until(lambda: video(tab, "videoHeight") == 90, "the smallest quality is shown")
    choose(tab, "Quality", "360p")
    until(lambda: video(tab, "videoHeight") == 360, "the largest quality is shown")

    sound = tab.get_by_label("Sound", exact=True)
    assert sound.locator("option").all_inner_texts() == ["English", "German"]
    with tab.expect_request(lambda request: "/audio-de" in request.url):
        choose(tab, "Sound", "German")
    until_playing(tab)

    choose(tab, "Subtitles", "German")
    cues = "textTracks.length && [...%s.textTracks].flatMap(t => [...(t.activeCues ?? [])]).map(c => c.text)"
    until(
        lambda: "Guten Tag" in (video(tab, cues % "document.querySelector('video')") or []),
        "its subtitle is shown",
    )


def test_chapters_and_the_storyboard(film: Film, tab: Page) -> None:
    open_film(film, tab)
    chapters = tab.locator(".chapters button")
    titles = [text.split("\n")[-1] for text in chapters.all_inner_texts()]
    assert titles == [
        "Opening",
        "<b>The walk</b>",
        "End",
    ]
    assert tab.locator(".marks i").count() == 2
    chapters.nth(2).click()
    until(lambda: video(tab, "currentTime") >= 8, "it jumps there")
    seek = tab.get_by_label("Position")
    box = seek.bounding_box()
    assert box is not None
    seek.hover(position={"x": box["width"] / 2, "y": box["height"] / 2})
    preview = tab.locator(".preview")
    assert "<b>The walk</b>" in preview.inner_text()
    style = preview.locator(".picture").get_attribute("style") or ""
    assert "storyboard-000.jpg" in style


def test_the_keyboard_alone(film: Film, tab: Page) -> None:
    open_film(film, tab)
    tab.keyboard.press("k")
    until(lambda: video(tab, "paused"), "it pauses")
    before = video(tab, "currentTime")
    tab.keyboard.press("ArrowRight")
    assert video(tab, "currentTime") > before + 4
    tab.keyboard.press("m")
    assert video(tab, "muted")
    for _ in range(12):
        tab.keyboard.press("Tab")
        focused = tab.evaluate(
            "[document.activeElement.tagName, getComputedStyle(document.activeElement).outlineStyle]"
        )
        assert focused[0] == "BODY" or focused[1] == "solid", focused


def test_what_runs_is_shown_live(film: Film, tab: Page, clip: MakeClip) -> None:
    tab.goto(printed_address(film.studio))
    assert tab.locator(".running").is_hidden()
    with film.studio.paced(2):
        job = film.studio.add(clip(seconds=10))
        bar = tab.locator(f"#job-{job} > progress")
        until(lambda: bar.count() and float(bar.get_attribute("value") or 0) > 5, "its bar moves")
    film.studio.done(job)
    until(lambda: tab.locator(".running").is_hidden(), "it is done")
    number = film.studio.job(job)["video_view"]["id"]
    until(lambda: tab.locator(f"a[href='#/video/{number}'] .length").count(), "it is in the library")
    tab.get_by_label("Search the library").fill("nothing like it")
    until(lambda: not tab.locator(".card").count(), "nothing is found")


def test_the_reason_of_a_failed_film_is_shown_whole(film: Film, tab: Page) -> None:
    source = film.source.with_name("letter.mp4")
    source.write_text("a letter")
    number = film.studio.wait(film.studio.add(source), "failed")["video_view"]["id"]
    tab.goto(printed_address(film.studio))
    tab.locator(f"a.card[href='#/video/{number}']").click()
    message = tab.locator("main > .message")
    message.wait_for()
    assert message.inner_text().startswith("It has no ladder: letter.mp4 is neither video nor sound")


def test_sound_alone_has_neither_pictures_nor_a_size(film: Film, tab: Page, ffmpeg: str) -> None:
    source = film.source.with_name("song.m4a")
    command = [ffmpeg, "-v", "error", "-f", "lavfi", "-i", "sine=330:d=6", "-c:a", "aac", str(source)]
    subprocess.run(command, check=True, timeout=60)
    job = film.studio.done(film.studio.add(source))
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(printed_address(film.studio, str(job["id"])))
    tab.locator("video").wait_for(state="attached")
    until(lambda: video(tab, "currentTime") > 0.3, "it plays")
    assert not [url for url in asked if "poster" in url or "storyboard" in url]
    cells = tab.locator("table td").all_text_contents()
    assert (cells[1], "und" in cells) == ("", False)


def test_a_ladder_that_is_deleted_while_it_plays_says_so(film: Film, tab: Page) -> None:
    open_film(film, tab)
    film.studio.client.send(calls.delete_video(film.video))
    try:
        choose(tab, "Quality", "90p")
        message = tab.locator(".stage .message")
        until(lambda: "was deleted" in message.inner_text(), "the page says so")
        message.get_by_role("button", name="Reload").click()
        until(lambda: "was deleted" in tab.locator("main > .message").inner_text(), "it is not there")
    finally:
        film.studio.client.send(calls.undelete_video(film.video))
    until(lambda: (film.folder / "master.m3u8").exists(), "it is back")


def test_it_plays_on_when_the_supervisor_is_back(film: Film, tab: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    tab.route(LATER_SEGMENTS, hold)
    open_film(film, tab)
    until(lambda: video(tab, "currentTime") > 3 and held, "what is there plays")
    film.studio.terminate()
    try:
        for each in held:
            each.continue_()
        tab.unroute(LATER_SEGMENTS)
        message = tab.locator(".stage .message")
        until(lambda: "no supervisor answers" in message.inner_text(), "it says why it stands still")
        tab.wait_for_timeout(25_000)  # by then hls.js has given up
        assert "no supervisor answers" in message.inner_text()
    finally:
        film.studio.up()
    until(lambda: video(tab, "ended"), "it plays to its end")
    assert message.is_hidden()


def test_a_view_of_a_video_is_shown_when_the_supervisor_is_back(film: Film, tab: Page) -> None:
    tab.goto(printed_address(film.studio))
    tab.locator(f"a.card[href='#/video/{film.video}']").wait_for()
    film.studio.terminate()
    try:
        tab.evaluate(f"location.hash = '#/video/{film.video}'")
        until(lambda: "no supervisor answers" in tab.locator("main > .message").inner_text(), "it says why")
    finally:
        film.studio.up()
    until_playing(tab)


def test_more_pages_stay_shown_and_are_of_now(film: Film, tab: Page) -> None:
    found = {"": (90, 61), "/61": (60, 31), "/31": (30, None)}

    def answer(route: Route) -> None:
        first, before = found[route.request.url.partition("api/videos")[2]]
        videos = [
            {"id": number, "name": f"film {number}", "title": "", "status": "failed", "ladder": None}
            for number in range(first, first - 30, -1)
        ]
        route.fulfill(json={"videos": videos, "before": before})

    tab.route("**/api/videos*", answer)
    tab.route("**/api/videos/*", answer)
    tab.goto(printed_address(film.studio))
    cards, more = tab.locator(".card"), tab.get_by_role("button", name="Show more")
    for count in (30, 60, 90):
        until(lambda count=count: cards.count() == count, f"{count} are shown")
        if count < 90:
            more.click()
    until(more.is_hidden, "there are no more")
    found["/31"] = (29, None)
    tab.evaluate("events.dispatchEvent(new Event('changed'))")
    until(lambda: not tab.get_by_text("film 30", exact=True).count(), "a video of the last page is gone")
    assert (cards.count(), more.is_hidden()) == (90, True)


def test_without_hls_js_the_page_says_what_is_missing(film: Film, tab: Page) -> None:
    tab.route("**/hls.js", lambda route: route.fulfill(body="", content_type="text/javascript"))
    tab.goto(printed_address(film.studio, str(film.job)))
    until(lambda: "hls.js" in tab.locator(".stage .message").inner_text(), "it says what is missing")


def test_the_embedded_page_on_any_web_server(film: Film, planted: Path, tab: Page) -> None:
    assert embedding.has_hls_js(), "make fetches it where npm is"
    embedding.write(planted)
    with serving(film.studio.out) as address:
        tab.goto(f"{address}/out/{planted.name}/index.html")
        until_playing(tab)
        choose(tab, "Quality", "90p")
        until(lambda: video(tab, "videoHeight") == 90, "the smallest quality is shown")
        assert tab.locator(".chapters button").count() == 3


def test_the_embedded_page_names_nothing_of_ours_where_it_cannot_play(
    film: Film, planted: Path, tab: Page
) -> None:
    embedding.write(planted)
    (planted / "master.m3u8").unlink()
    with serving(film.studio.out) as address:
        tab.goto(f"{address}/out/{planted.name}/index.html")
        message = tab.locator(".stage .message")
        until(message.is_visible, "it says that it does not play")
        assert message.inner_text() == "The video cannot be loaded.Reload"
