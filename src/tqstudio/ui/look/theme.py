"""Loads themes from TOML files and derives the styles of drawn lines.

A file has `name`, `dark`, and the tables `[colors]` (Textual's own colours), `[states]` and `[parts]`.
Missing values are derived from its colours. An invalid file is reported and skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.style import Style
from textual.color import Color, ColorParseError
from textual.theme import BUILTIN_THEMES, Theme

from tqstudio import toml_files

COLORS = (
    *("primary", "secondary", "accent", "foreground", "background"),
    *("surface", "panel", "success", "warning", "error"),
)
REQUIRED = ("primary", "foreground", "background")
STATES = {
    "pending": "foreground",
    "running": "primary",
    "paused": "warning",
    "done": "success",
    "failed": "error",
    "cancelled": "foreground",
    "retry": "warning",
    "warning": "warning",
    "viewable": "success",
    "held": "secondary",
    "changing": "secondary",
    "skipped": "foreground",
}
PARTS = {
    "strong": "foreground",
    "dim": "foreground",
    "faint": "foreground",
    "rule": "panel",
    "track": "panel",
    "area": "primary",
    "cursor": "panel",
    "cursor-blur": "surface",
    "mark": "accent",
    "key": "accent",
    "bar": "surface",
    "notice": "panel",
}
_SIXTEEN = {True: "dark", False: "light"}


class ThemeError(ValueError):
    """An invalid theme; the message names the file, the key and the problem."""


@dataclass(frozen=True, slots=True)
class Themes:
    """The loaded themes by name, in the order they are cycled, and the errors."""

    by_name: dict[str, Theme]
    problems: tuple[str, ...]


def shipped_folder() -> Path:
    """`ui/themes` in an installed package, `themes` beside `src` in a checkout."""
    packaged = Path(__file__).parent / "themes"
    return packaged if packaged.is_dir() else Path(__file__).parents[4] / "themes"


def load_themes(folders: Iterable[Path]) -> Themes:
    """Load all themes of the folders; a later folder overrides an earlier one."""
    found: dict[str, Theme] = {}
    problems: list[str] = []
    for folder in folders:
        try:
            files = sorted(
                (path for path in folder.iterdir() if path.suffix == ".toml"), key=lambda path: path.stem
            )
        except OSError:
            continue
        for file in files:
            try:
                theme = read_theme(file)
            except ThemeError as error:
                problems.append(str(error))
            else:
                found[theme.name] = theme
    if not found:
        found["plain"] = _fallback()
    return Themes(found, tuple(problems))


def in_sixteen_colours(themes: Mapping[str, Theme]) -> dict[str, Theme]:
    """The themes for a terminal with 16 colours, where only dark or light differs.

    The nearest of the 16 to a muted colour is a grey, so a theme's own colours could not be distinguished.
    """
    sets = {
        dark: read_theme(shipped_folder() / "sixteen" / f"{word}.toml") for dark, word in _SIXTEEN.items()
    }
    return {name: replace(sets[theme.dark], name=name) for name, theme in themes.items()}


def read_theme(file: Path) -> Theme:
    """Read the theme of one file; raise ThemeError if a key is unknown or missing, or no colour."""
    try:
        data = toml_files.read(file)
    except (OSError, toml_files.UnusableToml) as error:
        raise ThemeError(f"theme {file.name} cannot be read: {error}") from None
    name, dark = data.pop("name", file.stem), data.pop("dark", True)
    if not isinstance(name, str) or not name or not isinstance(dark, bool):
        raise ThemeError(f"theme {file.name}: name must be a string, and dark must be true or false")
    colors = _table(file, data, "colors", COLORS)
    states = _table(file, data, "states", STATES)
    parts = _table(file, data, "parts", PARTS)
    if data:
        raise ThemeError(f"theme {file.name}: unknown key {next(iter(data))!r}")
    for key in REQUIRED:
        if key not in colors:
            raise ThemeError(f"theme {file.name}: [colors] has no {key!r}")
    variables = {f"state-{key}": value for key, value in states.items()}
    variables |= {f"part-{key}": value for key, value in parts.items()}
    return _theme(name, dark, colors, variables)


def _table(file: Path, data: dict[str, Any], name: str, known: Iterable[str]) -> dict[str, str]:
    table = data.pop(name, {})
    if not isinstance(table, dict):
        raise ThemeError(f"theme {file.name}: {name} must be a table")
    for key, value in table.items():
        if key not in known:
            raise ThemeError(f"theme {file.name}: unknown key {key!r} in [{name}]")
        try:
            Color.parse(value)
        except (ColorParseError, TypeError, AttributeError):
            raise ThemeError(f"theme {file.name}: {value!r} of {key!r} in [{name}] is not a colour") from None
    return dict(table)


def _theme(name: str, dark: bool, colors: dict[str, Any], variables: dict[str, str]) -> Theme:
    foreground, background = colors["foreground"], colors["background"]
    colors.setdefault("surface", _mix(background, foreground, 0.06))
    colors.setdefault("panel", _mix(background, foreground, 0.12))
    for key in ("secondary", "accent", "success", "warning", "error"):
        colors.setdefault(key, colors["primary"])
    for key, source in STATES.items():
        variables.setdefault(f"state-{key}", colors[source])
    derived = {"dim": 0.2, "faint": 0.3, "area": 0.55}
    for key, source in PARTS.items():
        default = _mix(colors[source], background, derived.get(key, 0.0))
        variables.setdefault(f"part-{key}", default)
    cursor = variables["part-cursor"]
    variables |= {
        "block-cursor-background": cursor,
        "block-cursor-foreground": variables["part-strong"],
        "block-cursor-text-style": "none",
        "block-cursor-blurred-background": cursor,
        "input-selection-background": _mix(background, colors["primary"], 0.5),
        "input-selection-foreground": variables["part-strong"],
        # Textual blends it, with too little contrast, and with 16 colours equal to the background.
        "text-disabled": variables["part-dim"],
    }
    return Theme(name=name, dark=dark, variables=variables, **colors)


TEXTUAL = tuple(name for name in BUILTIN_THEMES if not name.startswith("ansi-"))
"""Names of the themes that come with Textual, apart from those without colours of their own."""
LEGIBLE = 4.5
"""Contrast that WCAG 2 asks of small text."""


def theme_of_textual(name: str) -> Theme:
    """Make a theme of one that comes with Textual; its colours are changed until text in them is legible."""
    given = BUILTIN_THEMES[name]
    made = given.to_color_system().generate()
    colors = {key: getattr(given, key) or made[key] for key in COLORS if key not in ("surface", "panel")}
    paper, pole = colors["background"], "#ffffff" if given.dark else "#000000"
    # The line of the cursor is the paper that is nearest to the text.
    cursor = _mix(paper, colors["foreground"], 0.12)

    def legible(color: str) -> str:
        mixed = (_mix(color, pole, step / 20) for step in range(21))
        return next((each for each in mixed if _contrast(each, cursor) >= LEGIBLE), pole)

    colors = {key: color if key == "background" else legible(color) for key, color in colors.items()}
    parts = {"dim": 0.2, "faint": 0.3}
    quiet = {f"part-{key}": legible(_mix(colors["foreground"], paper, by)) for key, by in parts.items()}
    return _theme(name, given.dark, colors | {"panel": cursor}, quiet)


def _contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG 2 defines it, 1 to 21."""

    def luminance(color: str) -> float:
        parts = (part / 255 for part in Color.parse(color).rgb)
        red, green, blue = (
            part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def _mix(one: str, other: str, factor: float) -> str:
    return Color.parse(one).blend(Color.parse(other), factor).hex


def _fallback() -> Theme:
    """The theme used when no theme file can be read."""
    colors = {"primary": "#5fafd7", "foreground": "#d0d0d0", "background": "#121212", "error": "#ff5f5f"}
    return _theme("plain", True, colors, {})


class Colours:
    """Rich styles by role, taken from a theme.

    Args:
        faded: for possibly outdated data, whose backgrounds stay.
        plain: for a terminal without colours, where the cursor's row is reversed.
    """

    def __init__(self, theme: Theme, *, faded: bool = False, plain: bool = False) -> None:
        def ink(color: str, *, bold: bool = False, fades: bool = True) -> Style:
            if faded and fades:
                color, bold = part("dim" if color in (theme.foreground, part("strong")) else "faint"), False
            return Style(color=Color.parse(color).rich_color, bold=bold)

        def paper(color: str, text: str | None = None) -> Style:
            text = part("dim") if faded else text or theme.foreground or "#d0d0d0"
            return Style(
                bgcolor=Color.parse(color).rich_color, color=Color.parse(text).rich_color, bold=False
            )

        def part(key: str) -> str:
            return theme.variables[f"part-{key}"]

        self.base = paper(theme.background or "#121212")
        self.bar = paper(part("bar"))
        self.cursor = paper(part("cursor"), part("strong")) + Style(reverse=plain or None)
        self.cursor_blur = paper(part("cursor-blur"))
        self.notice = paper(part("notice"))
        self.surface = paper(theme.surface or "#1c1c1c")
        self.text = ink(theme.foreground or "#d0d0d0")
        self.strong = ink(part("strong"), bold=True)
        self.dim = ink(part("dim"))
        self.faint = ink(part("faint"))
        self.rule = ink(part("rule"), fades=False)
        self.track = ink(part("track"), fades=False)
        self.area = ink(part("area"))
        self.accent = ink(theme.primary)
        self.mark = ink(part("mark"), bold=True)
        self.key = ink(part("key"))
        self.good = ink(theme.success or "#87af5f")
        self.warning = ink(theme.warning or "#d7af5f")
        self.error = ink(theme.error or "#ff5f5f")
        self.states = {key: ink(theme.variables[f"state-{key}"]) for key in STATES}
        self.states["stale"] = self.dim
