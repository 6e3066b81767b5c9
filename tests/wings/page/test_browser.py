"""The page in Chromium: library, player with its menus, what runs, and the page that `embed` writes."""

from __future__ import annotations

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
    from playwright.sync_api import Browser, Page

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
    until(lambda: tab.locator(f"a[href='#/video/{number}']").count(), "it is in the library")
    tab.get_by_label("Search the library").fill("nothing like it")
    until(lambda: not tab.locator(".card").count(), "nothing is found")


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
