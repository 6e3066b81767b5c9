"""What is drawn instead of written: pictures, curves and bars on the job page and in the statistics."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
from rich.color import Color
from textual.pilot import Pilot

from tqstudio.protocol.calls import Call
from tqstudio.ui.app import StudioApp
from tqstudio.ui.drawings.plots import axis, curve
from tqstudio.ui.screens.job.screen import JobScreen
from tqstudio.ui.widgets.document import Document
from tqstudio.ui.widgets.job_pane import JobPane
from tqstudio.words.symbols import ASCII

from .conftest import MakeApp, loaded, messages, until
from .fake_supervisor import FakeSupervisor
from .samples import rendition, sample_statistics, statistics_row
from .test_queue import current

DONE = ("G", "k", "enter")
"""Keys that open the page of a job that is done."""
WIDE = (160, 50)
PANE_PIXELS = 53
"""Width of a picture in the pane of the queue, at that size."""


def _text(app: StudioApp) -> str:
    [document] = app.screen.query(Document)
    return "\n".join(line.text.rstrip() for line in document._lines)


def _asked(fake: FakeSupervisor, what: str = "picture") -> list[Call[Any]]:
    return [call for call in fake.sent if call.path.endswith(what)]


async def _opened(pilot: Pilot[None], *keys: str) -> StudioApp:
    app = await loaded(pilot)
    await pilot.press(*keys)
    await until(pilot, lambda: isinstance(app.screen, JobScreen) and app.screen.detail, "the page is read")
    for _ in range(10):
        await pilot.pause()
    app.painter.now()
    return app


async def test_the_poster_has_its_colours(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=WIDE) as pilot:
        app = await _opened(pilot, *DONE)
        await until(pilot, lambda: "▀" in _text(app), "the picture is drawn")
        of_page = [call for call in _asked(fake) if call.params["width"] > PANE_PIXELS]
        poster, strip = (fake._answer(call) for call in of_page)
        document = app.screen.query_one(Document)
        first = next(line for line in document._lines if "▀" in line.text)
        cells = [(cell.text, cell.style) for cell in first if "▀" in cell.text]
        rgb = base64.b64decode(poster["rgb_b64"][0])
        assert len(cells) == poster["width"]
        for at, (_, style) in enumerate(cells):
            above, below = rgb[3 * at :][:3], rgb[3 * (at + poster["width"]) :][:3]
            assert style is not None
            assert style.color == Color.from_rgb(*(each & 0xF8 for each in above))
            assert style.bgcolor == Color.from_rgb(*(each & 0xF8 for each in below))
        rows = sum("▀" in line.text for line in document._lines)
        assert rows == -(-poster["height"] // 2) - (-strip["height"] // 2)
        assert "01:12" in _text(app), "when a picture of the strip is shown"


async def test_what_has_not_changed_is_neither_asked_for_nor_painted_again(
    make_app: MakeApp, fake: FakeSupervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with make_app().run_test(size=WIDE) as pilot:
        app = await _opened(pilot, *DONE)
        await until(pilot, lambda: "▀" in _text(app) and "mean 4.1" in _text(app), "all is drawn")
        document = app.screen.query_one(Document)
        await until(pilot, lambda: document.virtual_size == document.size, "it has its place")
        app.painter.now()
        await pilot.pause()
        asked, painted = len(fake.sent), list[Any]()
        monkeypatch.setattr(document, "refresh", lambda *of, **_: painted.append(of))
        for _ in range(5):
            app.painter.now()
            await pilot.pause()
        assert (len(fake.sent), painted) == (asked, [])
        monkeypatch.setattr(fake, "down", True)
        fake.drop()
        await until(pilot, lambda: app.context.model.stale, "the supervisor is lost")
        app.painter.now()
        assert "▀" in _text(app)
        assert "mean 4.1" in _text(app)


async def test_the_pane_shows_the_poster_of_what_runs(make_app: MakeApp, fake: FakeSupervisor) -> None:
    """The stored one, from when it is made, and once for a video."""
    row = fake.job(319)
    row |= {"step": "probe", "progress": 0.0}
    async with make_app().run_test(size=WIDE) as pilot:
        app = await loaded(pilot)
        assert current(app) == 319
        pane = app.screen.query_one(JobPane)

        def drawn() -> int:
            return sum("▀" in line.text for line in pane._lines)

        app.painter.now()
        await pilot.pause()
        assert (_asked(fake), drawn()) == ([], 0)
        app.context.model.jobs.row(319).update(step="transcode", progress=3.0)
        app.painter.now()
        await until(pilot, lambda: _asked(fake), "it is asked for, and not made yet")
        row |= {"step": "transcode", "progress": 3.0}
        await until(pilot, lambda: app.painter.now() or drawn() > 0, "the picture is drawn")
        asked = len(_asked(fake))
        assert "│" in pane._lines[8].text[:2]
        assert drawn() <= pane.size.height // 3
        app.painter.now()
        await pilot.pause()
        assert len(_asked(fake)) == asked
        text = " ".join(line.text for line in pane._lines)
        assert "✓ extras ▸ transcode · master playlist" in text


@pytest.mark.parametrize(
    ("size", "environment", "options"),
    [
        ((80, 24), {}, {}),
        ((160, 30), {}, {}),
        (WIDE, {"NO_COLOR": "1"}, {}),
        (WIDE, {"COLORTERM": "", "TERM": "xterm"}, {}),
        (WIDE, {"SSH_CONNECTION": "192.0.2.1 1 192.0.2.2 22"}, {}),
        (WIDE, {}, {"glyphs": ASCII}),
    ],
    ids=["narrow", "low", "no-color", "16-colours", "ssh", "ascii"],
)
async def test_where_pictures_are_left_out(
    size: tuple[int, int],
    environment: dict[str, str],
    options: dict[str, Any],
    make_app: MakeApp,
    fake: FakeSupervisor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with make_app(**options).run_test(size=size) as pilot:
        app = await _opened(pilot, *DONE)
        await until(pilot, lambda: "mean 4.1" in _text(app), "the curves are drawn all the same")
        assert not any("/317/" in call.path for call in _asked(fake))
        assert "▀" not in _text(app)
        await pilot.press("v")
        if "SSH_CONNECTION" in environment:
            await until(pilot, lambda: "▀" in _text(app), "they are shown when asked for")
        elif size != WIDE:
            await pilot.press("v")
            assert "no room" in messages(app)
        else:
            assert "too few colours" in messages(app)


async def test_pictures_are_switched_off_for_later_starts(make_app: MakeApp, fake: FakeSupervisor) -> None:
    async with make_app().run_test(size=WIDE) as pilot:
        app = await _opened(pilot, *DONE)
        await until(pilot, lambda: "▀" in _text(app), "the picture is drawn")
        await pilot.press("v")
        assert "▀" not in _text(app)
    fake.sent.clear()
    async with make_app().run_test(size=WIDE) as pilot:
        app = await _opened(pilot, *DONE)
        assert _asked(fake) == []
        await pilot.press("v")
        await until(pilot, lambda: "▀" in _text(app), "the picture is drawn")


async def test_bits_have_a_scale_a_unit_and_times_also_in_ascii(make_app: MakeApp) -> None:
    async with make_app(glyphs=ASCII).run_test(size=(80, 60)) as pilot:
        app = await _opened(pilot, *DONE)
        await until(pilot, lambda: "Bits along the video" in _text(app), "the curves are drawn")
        lines = _text(app).splitlines()
        at = next(at for at, line in enumerate(lines) if "Bits along" in line)
        assert lines[at].endswith("Mb/s")
        assert [lines[at + row].split()[:2] for row in (1, 4, 7)] == [
            ["1080p", "6"],
            ["720p", "3"],
            ["480p", "1.5"],
        ]
        assert lines[at + 3].split()[:3] == ["most", "5.2", "0"]
        assert lines[at + 10].split() == ["00:00", "06:00", "12:00"]
        assert "#" in lines[at + 3]
        assert all(line.isascii() for line in lines[at : at + 11])


async def test_vmaf_where_it_was_measured(make_app: MakeApp, fake: FakeSupervisor) -> None:
    [job] = [each for each in fake.jobs if each["id"] == 317]
    job["renditions"] = [
        rendition("1080p", 120, status="completed", reason="VMAF 93.4 (v0.6.1 at 1920×1080), CRF 24"),
        rendition("720p", 120, status="completed", reason="CRF 24"),
    ]
    async with make_app().run_test(size=(80, 60)) as pilot:
        app = await _opened(pilot, *DONE)
        lines = _text(app).splitlines()
        at = next(at for at, line in enumerate(lines) if line.startswith(" VMAF"))
        name, value, bar = lines[at + 1].split()
        assert (name, value, lines[at + 2]) == ("1080p", "93.4", "")
        assert bar.count("━") / len(bar) == pytest.approx(0.934, abs=0.03)


async def test_the_speed_of_a_running_job(make_app: MakeApp, fake: FakeSupervisor) -> None:
    fake.wall["jobs"][0]["speeds"] = [1.0 + at / 10 for at in range(30)]
    async with make_app().run_test(size=(80, 40)) as pilot:
        app = await _opened(pilot, "g", "enter")
        await until(pilot, lambda: " Speed " in _text(app), "the speed is read")
        lines = _text(app).splitlines()
        at = next(at for at, line in enumerate(lines) if line.startswith(" Speed"))
        assert lines[at].endswith("multiple of real time")
        assert lines[at + 1].split()[:2] == ["now", "4.0×"]
        assert lines[at + 2].split()[0] == "2.1×"
        blocks = lines[at + 3][19:].rstrip()
        assert len(blocks) == 60, "it spans the whole job"


@pytest.mark.parametrize(
    ("values", "rows"),
    [
        ([0.0, 1.0, 2.0, 4.0], ["4    █", "0  ▄██"]),
        ([None, None], ["1     ", "0     "]),
        ([], ["1     ", "0     "]),
        ([7.3, None], ["8 ▇▇  ", "0 ██  "]),
        ([0.0, 0.0, 1e-9, 1500.0], ["1500    █", "0   ▁█"]),
        ([1.0, 3.0, 4.0, 0.0, 0.0, None, 4.0, 4.0], ["4    █", "0 ██ █"]),
    ],
)
async def test_a_curve(values: list[float | None], rows: list[str], make_app: MakeApp) -> None:
    async with make_app().run_test(size=(80, 40)) as pilot:
        await _opened(pilot, *DONE)
        document = pilot.app.screen.query_one(Document)
        lines = curve(document, values, ("name",), 24, 2)
        assert [line.cell_length for line in lines] == [24, 24]
        assert [line.text for line in lines] == [
            f" {label:10}{row.split()[0]:>7}{row[len(row.split()[0]) :]} "
            for label, row in zip(("name", ""), rows, strict=True)
        ]
        assert axis(document, 24, "a", "z").text == " " * 19 + "a  z "


async def test_the_first_day_has_a_sentence_instead_of_a_tower(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    def first(by: str) -> Any:
        view = sample_statistics(by)
        idle = [statistics_row(row["key"], 0, queue=0) for row in view["rows"][:-1]]
        today = statistics_row(view["rows"][-1]["key"], 3, queue=2)
        return view | {"rows": [*idle, today], "total": statistics_row("", 3)}

    monkeypatch.setattr("ui.fake_supervisor.sample_statistics", first)
    async with make_app().run_test(size=(80, 45)) as pilot:
        app = await loaded(pilot)
        await pilot.press("5")
        await until(pilot, lambda: "By worker" in _text(app), "the statistics are shown")
        assert "3 jobs done, 1h03 of video, all in one day; curves begin with the next" in _text(app)
        assert "all in one hour" in _text(app)
        assert not set("▁▂▃▄▅▆▇█") & set(_text(app))


async def test_curves_of_hours_and_days_and_when_the_disk_is_full(make_app: MakeApp) -> None:
    async with make_app().run_test(size=(160, 50)) as pilot:
        app = await loaded(pilot)
        await pilot.press("5")
        await until(pilot, lambda: "By worker" in _text(app), "the statistics are shown")
        text = _text(app)
        for each in (
            "Last 48 hours",
            "Last 30 days",
            "jobs done",
            "in queue",
            "video",
            "written",
            "ETA error",
        ):
            assert each in text
        assert "full in 167d if 5.1 GB a day are written, as in the last 7 days" in text
        assert "11-21 12:00" in text


def test_remembered_pictures_are_of_the_home(tmp_path: Path) -> None:
    from tqstudio.home import Home
    from tqstudio.ui.data.remembered import Remembered

    Remembered(Home(tmp_path)).set("pictures", "off")
    assert Remembered(Home(tmp_path)).get("pictures") == "off"
