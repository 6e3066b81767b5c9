"""What the screens look like, compared with golden pictures.

Pictures are made on Python 3.11 with the locked Textual; update them there only, and look at each one:
`pytest tests/ui/test_snapshots.py --snapshot-update`.
"""

from __future__ import annotations

import sys
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Label

from tqstudio.cli.commands.studio.demo import TIPS
from tqstudio.ui.app import StudioApp
from tqstudio.ui.data.model import Link
from tqstudio.ui.screens.dialogs.ask_path import AskPath
from tqstudio.ui.screens.dialogs.change import ChangeJobs
from tqstudio.ui.screens.dialogs.folder_preview import FolderContent
from tqstudio.ui.screens.folders import FoldersScreen
from tqstudio.ui.screens.frame.text import TextScreen
from tqstudio.ui.screens.job.screen import JobScreen
from tqstudio.wings.statistics.screen import StatisticsScreen
from tqstudio.words.symbols import ASCII

from .conftest import MakeApp, loaded, screen_text, until
from .fake_supervisor import FakeSupervisor
from .samples import NOW, divide, missing_folder, worker
from .test_keys import found

pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="golden pictures are of Python 3.11")


def _pressing(*keys: str) -> Any:
    async def before(pilot: Pilot[None]) -> None:
        app = await loaded(pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await until(pilot, lambda: not _reading(app), "everything asked for has been answered")
        for field in app.screen.query(Input):
            field.cursor_blink = False
        for screen in app.screen_stack:
            if hasattr(screen, "paint"):
                screen.paint()
        await pilot.pause()

    return before


def _reading(app: StudioApp) -> bool:
    screen = app.screen
    if isinstance(screen, TextScreen):
        return screen._text.text == "reading…"
    if isinstance(screen, AskPath):
        return any("default" in field.placeholder for field in screen.query(Input))
    if isinstance(screen, ChangeJobs):
        return "calculating" in str(screen.query_one("#cost", Label).render())
    if isinstance(screen, JobScreen):
        return screen.detail is None
    if isinstance(screen, StatisticsScreen):
        return not screen.views
    return isinstance(screen, FoldersScreen) and app.context.model.folders is None


QUEUE = [
    ("80x24-dark", (80, 24), {}, ()),
    ("80x24-light-failed", (80, 24), {"theme": "paper"}, ("G", "k", "k", "k")),
    ("120x40-dark", (120, 40), {}, ()),
    ("160x50-light", (160, 50), {"theme": "paper"}, ("j", "space", "space")),
    ("60x15-dark", (60, 15), {}, ()),
    ("80x24-ascii", (80, 24), {"glyphs": ASCII}, ()),
    ("50x12-too-small", (50, 12), {}, ()),
    ("80x24-restart", (80, 24), {}, ("R",)),
    ("80x24-delete", (80, 24), {}, ("G", "k", "k", "D")),
    ("80x24-help", (80, 24), {}, ("question_mark",)),
    ("80x24-add", (80, 24), {}, ("n",)),
    ("80x24-change", (80, 24), {"theme": "paper"}, ("G", "e")),
    ("160x50-change", (160, 50), {}, ("G", "space", "g", "j", "j", "j", "space", "e")),
    ("80x24-facts", (80, 24), {}, ("i",)),
    ("80x24-light-tips", (80, 24), {"theme": "paper", "tips": TIPS}, ()),
]


@pytest.mark.parametrize(
    ("size", "options", "keys"), [case[1:] for case in QUEUE], ids=[case[0] for case in QUEUE]
)
def test_queue(
    size: tuple[int, int],
    options: dict[str, Any],
    keys: tuple[str, ...],
    make_app: MakeApp,
    snap_compare: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A dialog begins with the working directory, and shows the default output.
    monkeypatch.chdir("/")
    monkeypatch.setenv("TQSTUDIO_OUTPUT", "/srv/streams")
    assert snap_compare(make_app(**options), terminal_size=size, run_before=_pressing(*keys))


def test_an_empty_queue(make_app: MakeApp, fake: FakeSupervisor, snap_compare: Any) -> None:
    fake.jobs.clear()

    async def before(pilot: Pilot[None]) -> None:
        app = await loaded(pilot)
        await until(pilot, lambda: app.context.model.folders)
        app.painter.now()
        await pilot.pause()

    assert snap_compare(make_app(), terminal_size=(80, 24), run_before=before)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=["80x24", "120x40"])
def test_job(size: tuple[int, int], make_app: MakeApp, snap_compare: Any) -> None:
    assert snap_compare(make_app(), terminal_size=size, run_before=_pressing("enter"))


@pytest.mark.parametrize("theme", ["ink", "paper"])
def test_a_job_that_is_done(theme: str, make_app: MakeApp, snap_compare: Any) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await _pressing("G", "k", "enter")(pilot)
        known = pilot.app.context.feed.ladder_answers._known  # type: ignore[attr-defined]

        def of_page() -> list[Any]:
            """What is known of the job's ladder, besides the picture in the pane of the queue."""
            return [key for key, answer in known.items() if answer and "/317/" in key[0] and 53 not in key]

        await until(pilot, lambda: len(of_page()) == 3, "all is read")
        pilot.app.painter.now()  # type: ignore[attr-defined]
        await pilot.pause()

    assert snap_compare(make_app(theme=theme), terminal_size=(160, 50), run_before=before)


DIVIDED = [
    ("80x24-dark", (80, 24), {}),
    ("80x24-ascii", (80, 24), {"glyphs": ASCII}),
    ("160x50-light", (160, 50), {"theme": "paper"}),
]


@pytest.mark.parametrize(
    ("size", "options"), [case[1:] for case in DIVIDED], ids=[case[0] for case in DIVIDED]
)
def test_divided_job(
    size: tuple[int, int], options: dict[str, Any], make_app: MakeApp, fake: FakeSupervisor, snap_compare: Any
) -> None:
    divide(fake.jobs[0])
    assert snap_compare(make_app(**options), terminal_size=size, run_before=_pressing("enter"))


@pytest.mark.parametrize(("view", "theme"), [("workers", "ink"), ("folders", "paper"), ("history", "ink")])
def test_views(view: str, theme: str, make_app: MakeApp, fake: FakeSupervisor, snap_compare: Any) -> None:
    if view == "folders":
        fake.folders.append(missing_folder())
    if view == "workers":
        fake.workers.append(worker("box-2", "busy", step="seg 1198–1200", speed=None))
    app = make_app(view=view, theme=theme)
    assert snap_compare(app, terminal_size=(120, 40), run_before=_pressing())


RULES = [
    ("80x24-dark", (80, 24), {}),
    ("160x50-light", (160, 50), {"theme": "paper"}),
]


@pytest.mark.parametrize(("size", "options"), [case[1:] for case in RULES], ids=[case[0] for case in RULES])
def test_rules_of_a_folder(
    size: tuple[int, int], options: dict[str, Any], make_app: MakeApp, fake: FakeSupervisor, snap_compare: Any
) -> None:
    fake.folders[0] |= {"path_b64": "Lw=="}

    async def before(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, StudioApp)
        await until(pilot, lambda: app.context.model.folders is not None)
        await _pressing("r")(pilot)
        await until(pilot, lambda: "29 videos" in str(app.screen.query_one(FolderContent).content))
        await pilot.pause()

    assert snap_compare(make_app(view="folders", **options), terminal_size=size, run_before=before)


STATISTICS = [
    ("80x24-dark", (80, 24), {}),
    ("80x24-ascii", (80, 24), {"glyphs": ASCII}),
    ("160x50-light", (160, 50), {"theme": "paper"}),
]


@pytest.mark.parametrize(
    ("size", "options"), [case[1:] for case in STATISTICS], ids=[case[0] for case in STATISTICS]
)
def test_statistics(
    size: tuple[int, int], options: dict[str, Any], make_app: MakeApp, snap_compare: Any
) -> None:
    assert snap_compare(make_app(**options), terminal_size=size, run_before=_pressing("5"))


WIDE = [
    ("wall-80x24", "wall", (80, 24), {}),
    ("wall-160x50-light", "wall", (160, 50), {"theme": "paper"}),
    ("wall-160x50-ascii", "wall", (160, 50), {"glyphs": ASCII}),
    ("wall-240x70", "wall", (240, 70), {}),
    ("workers-160x50", "workers", (160, 50), {}),
]


@pytest.mark.parametrize(
    ("view", "size", "options"), [case[1:] for case in WIDE], ids=[case[0] for case in WIDE]
)
def test_what_runs(
    view: str, size: tuple[int, int], options: dict[str, Any], make_app: MakeApp, snap_compare: Any
) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await loaded(pilot)
        shows = "speed" if view == "wall" else "of video"
        await until(pilot, lambda: shows in "".join(screen_text(pilot.app)), "it is read")

    app = make_app(view=view, **options)
    assert snap_compare(app, terminal_size=size, run_before=before)


SIZES = [
    ("queue-240x70", "queue", ("G",), "▀", (240, 70)),
    ("job-240x70", "queue", ("G", "k", "enter"), "l shows all", (240, 70)),
    ("log-80x24", "queue", ("l",), "frame=199", (80, 24)),
    ("log-160x50", "queue", ("l",), "frame=199", (160, 50)),
    ("workers-80x24", "workers", (), "cpu-0", (80, 24)),
    ("folders-80x24", "folders", (), "watched", (80, 24)),
    ("folders-160x50", "folders", (), "watched", (160, 50)),
    ("history-80x24", "history", (), "claimed", (80, 24)),
    ("history-160x50", "history", (), "claimed", (160, 50)),
]


@pytest.mark.parametrize(
    ("view", "keys", "shows", "size"), [case[1:] for case in SIZES], ids=[case[0] for case in SIZES]
)
def test_sizes(
    view: str,
    keys: tuple[str, ...],
    shows: str,
    size: tuple[int, int],
    make_app: MakeApp,
    snap_compare: Any,
) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await _pressing(*keys)(pilot)
        app = pilot.app
        assert isinstance(app, StudioApp)
        await until(pilot, lambda: shows in "".join(screen_text(app)), f"it shows {shows}")
        known = app.context.feed.ladder_answers._known
        await until(pilot, lambda: all(known.values()), "pictures and curves are read")
        app.painter.now()
        await pilot.pause()

    assert snap_compare(make_app(view=view), terminal_size=size, run_before=before)


def test_the_bin(make_app: MakeApp, fake: FakeSupervisor, snap_compare: Any) -> None:
    fake.deleted = [fake.jobs.pop() | {"deleted_at": NOW.isoformat()} for _ in range(3)]
    before = _pressing("slash", *"state:deleted", "enter")
    assert snap_compare(make_app(), terminal_size=(80, 24), run_before=before)


def test_a_setting(make_app: MakeApp, snap_compare: Any) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await loaded(pilot)
        await found(pilot, "disk_res", "setting")
        await _pressing("enter")(pilot)

    assert snap_compare(make_app(theme="paper"), terminal_size=(120, 40), run_before=before)


def test_no_supervisor(make_app: MakeApp, fake: FakeSupervisor, snap_compare: Any) -> None:
    fake.down = True
    assert snap_compare(make_app(), terminal_size=(80, 24), run_before=_once_lost)


@pytest.mark.parametrize("theme", ["ink", "paper"])
def test_a_supervisor_that_went_away(
    theme: str, make_app: MakeApp, fake: FakeSupervisor, snap_compare: Any
) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await loaded(pilot)
        fake.down = True
        fake.drop()
        await _once_lost(pilot)

    assert snap_compare(make_app(theme=theme), terminal_size=(80, 24), run_before=before)


async def _once_lost(pilot: Pilot[None]) -> None:
    app = pilot.app
    assert isinstance(app, StudioApp)
    await until(pilot, lambda: app.context.model.connection.link is Link.LOST)
    app.painter.now()
    await pilot.pause()
