"""The dialog that changes waiting jobs and encodes done ones again, and says what that costs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid, Horizontal
from textual.timer import Timer
from textual.widgets import Input, Label, Select

from tqstudio.errors import TqError, in_one_line
from tqstudio.protocol import calls
from tqstudio.ui.data.context import Context
from tqstudio.ui.screens.dialogs.dialogs import Dialog, Problem, Remark, Tick, read_priority
from tqstudio.ui.widgets.line_view import PLAIN_SIGNS
from tqstudio.words import forecast
from tqstudio.words.format import plain
from tqstudio.words.symbols import ASCII

if TYPE_CHECKING:
    from tqstudio.protocol.answers import ForecastQuality, ForecastView, JobValues

SETTLE_S = 0.3
"""Without another key for so long, the cost is asked for."""
_CALCULATING = "calculating what it costs …"


class _Profiles(Select[str], inherit_bindings=False):
    """The profiles; enter applies the dialog instead of opening the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "show_overlay", "open", show=False, id="change.open")
    ]


class ChangeJobs(Dialog[None]):
    """Asks for settings of jobs; a field that is left alone stays as it is.

    Args:
        which: the jobs, as `ForecastRequest` names them.
        apply: carries it out; returns why nothing was changed, which keeps the dialog open, else "".
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss(None)", "back", id="change.back"),
        Binding("enter", "submit", "apply", id="change.go"),
        Binding("a", "all", "all or none", id="change.all"),
        Binding("up", "app.focus_previous", "previous", show=False, id="change.previous"),
        Binding("down", "app.focus_next", "next", show=False, id="change.next"),
    ]
    AUTO_FOCUS = "#profile"
    BOX = "dialog wide change"
    HINT = "tab next   space ticks   a all or none   enter applies   esc back"

    def __init__(
        self,
        context: Context,
        title: str,
        which: Mapping[str, Any],
        apply: Callable[[dict[str, Any]], Awaitable[str]],
    ) -> None:
        super().__init__(title)
        self.VERTICAL_BREAKPOINTS = [(0, "-low"), (28, "-high")]
        self.context = context
        self._which, self._apply = which, apply
        self._about: dict[str, str] = {}
        """Descriptions of the profiles."""
        self._profile = ""
        """The one that the jobs get; empty where they differ."""
        self._touched: set[str] = set()
        """The ticks that a person has set: `qualities`, `copy` and `hold`."""
        self._asked: dict[str, Any] | None = None
        self._waiting: Timer | None = None
        self._busy = False

    def body(self) -> ComposeResult:
        glyphs = self.context.glyphs
        with Horizontal(classes="field close"):
            yield Label("profile")
            yield _Profiles([], prompt="as it is", id="profile", compact=True)
        yield Remark(id="about", classes="about")
        yield Grid(classes="choices")
        with Horizontal(classes="field"):
            for name in ("crf", "quality", "priority"):
                yield Label(name)
                yield Input(id=name, compact=True, classes="last" if name == "priority" else None)
        with Horizontal(classes="field close"):
            yield Label("")
            yield Tick("copy what fits", glyphs, value=False, id="copy")
            yield Tick("on hold", glyphs, value=False, id="hold")
        yield Label(id="cost", classes="step")
        yield Problem()

    def on_mount(self) -> None:
        self._say(_CALCULATING)
        self.run_worker(self._begin())

    async def _begin(self) -> None:
        await asyncio.gather(self._name_profiles(), self._ask())

    async def _name_profiles(self) -> None:
        try:
            found = (await self.context.feed.send(calls.profiles()))["profiles"]
        except TqError as error:
            self.query_one(Problem).set_text(in_one_line(error.code, error.message, error.hint))
            return
        self._about = {each["name"]: each["description"] for each in found if not each["error"]}
        self.query_one(_Profiles).set_options((Text(plain(name)), name) for name in self._about)
        self._describe()

    # What is asked for

    @on(Input.Changed)
    @on(Tick.Toggled)
    @on(Select.Changed)
    def _changed(self, event: Input.Changed | Tick.Toggled | Select.Changed) -> None:
        """Forget what was said about the settings before, and ask again once they rest."""
        if isinstance(event, Tick.Toggled):
            self._touched.add(event.tick.id or "qualities")
        elif isinstance(event, Select.Changed):
            self._touched.discard("qualities")
        self.query_one(Problem).set_text("")
        self._say(_CALCULATING)
        if self._waiting is not None:
            self._waiting.stop()
        self._waiting = self.set_timer(SETTLE_S, lambda: self.run_worker(self._ask(), exclusive=True))

    def _settings(self) -> dict[str, Any]:
        """The fields of `JobSettings` that were changed.

        Raises:
            ValueError: with a sentence for people.
        """
        typed = {name: self.query_one(f"#{name}", Input).value.strip() for name in ("crf", "quality")}
        overrides = {f"video.{name}": text for name, text in typed.items() if text}
        if "copy" in self._touched:
            overrides["video.copy"] = "fitting" if self.query_one("#copy", Tick).value else "never"
        given: dict[str, Any] = {"overrides": overrides} if overrides else {}
        if (profile := self.query_one(_Profiles).value) is not Select.NULL:
            given["profile"] = profile
        if priority := self.query_one("#priority", Input).value.strip():
            given["priority"] = read_priority(priority)
        if "hold" in self._touched:
            given["hold"] = self.query_one("#hold", Tick).value
        if "qualities" in self._touched:
            ticks = self._ticks()
            chosen = [name for name, tick in ticks.items() if tick.value]
            if not chosen:
                raise ValueError("tick at least one quality")
            given["renditions"] = [] if len(chosen) == len(ticks) else chosen
        return given

    def _ticks(self) -> dict[str, Tick]:
        return {tick.name or "": tick for tick in self.query_one(Grid).query(Tick)}

    async def _ask(self) -> None:
        try:
            given = self._settings()
            view = await self.context.feed.send(calls.forecast(**self._which, **given))
        except ValueError as error:
            self._say(str(error))
        except TqError as error:
            self._say(in_one_line(error.code, error.message, error.hint))
        else:
            await self._show(view)

    # What is answered

    def _say(self, *lines: str) -> None:
        text = "\n".join(map(plain, lines))
        shown = text.translate(PLAIN_SIGNS) if self.context.glyphs is ASCII else text
        self.query_one("#cost", Label).update(Text(shown))

    async def _show(self, view: ForecastView) -> None:
        # The title says it of jobs that were marked one by one.
        is_known = "ids" in self._which and not forecast.is_sample(view)
        self._say(*(() if is_known else (forecast.effect_words(view),)), *forecast.cost_lines(view))
        if not view["reencoded"] + view["changed"]:
            return
        await self._show_qualities(view["qualities"])
        values = view["values"]
        for name, text in _placeholders(values).items():
            self.query_one(f"#{name}", Input).placeholder = text
        for name, value in (("copy", values["copy"] == "fitting"), ("hold", bool(values["hold"]))):
            if name not in self._touched:
                self.query_one(f"#{name}", Tick).show(value)
        self._profile = values["profile"] or ""
        self._describe()

    def _describe(self) -> None:
        """Name the profile that the jobs have, and describe it or the chosen one."""
        select = self.query_one(_Profiles)
        if select.value is Select.NULL and self._profile:
            select.prompt = f"{plain(self._profile)}, as it is"
        self.query_one("#about", Remark).set_text(self._about.get(self._profile, ""))

    async def _show_qualities(self, qualities: list[ForecastQuality]) -> None:
        made: dict[str, bool] = {}
        for each in qualities:
            if each["possible"]:
                made[each["name"]] = made.get(each["name"], False) or each["becomes"] != "left_out"
        grid, ticks = self.query_one(Grid), self._ticks()
        if [*ticks] != [*made]:
            self._touched.discard("qualities")
            await grid.remove_children()
            await grid.mount_all(
                Tick(name, self.context.glyphs, value=value, name=name) for name, value in made.items()
            )
        elif "qualities" not in self._touched:
            for name, value in made.items():
                ticks[name].show(value)

    # What is done

    def action_all(self) -> None:
        ticks = self._ticks().values()
        value = not all(tick.value for tick in ticks)
        for tick in ticks:
            tick.value = value

    @on(Input.Submitted)
    def action_submit(self) -> None:
        if not self._busy:
            self.run_worker(self._carry_out())

    async def _carry_out(self) -> None:
        problem = self.query_one(Problem)
        self._busy = True
        try:
            given = self._settings()
            self._say("changing …")
            why = await self._apply(given)
        except ValueError as error:
            why = f"{error}, or esc to go back"
        except TqError as error:
            why = in_one_line(error.code, error.message, error.hint)
        finally:
            self._busy = False
        if why:
            problem.set_text(why)
            await self._ask()
        else:
            self.dismiss()


def _placeholders(values: JobValues) -> dict[str, str]:
    """What the jobs have, for fields in which nothing is typed."""
    crf, quality, priority = values["crf"], values["quality"], values["priority"]
    return {
        "crf": "sought" if quality else _or_differ(crf),
        "quality": "no VMAF" if quality == 0 else f"VMAF {quality:g}" if quality else "differ",
        "priority": _or_differ(priority),
    }


def _or_differ(value: float | None) -> str:
    return "differ" if value is None else f"{value:g}"
