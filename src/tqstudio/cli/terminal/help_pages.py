"""Writes help pages: commands by topic, options by subject, examples, in the width of the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}
"""Of the root command; the others inherit them."""
_TOPICS = {
    "Videos": ("add", "process", "plan", "open", "embed", "video", "verify", "quality"),
    "Queue": ("status", "queue", "job", "undo", "wall", "events", "stats"),
    "Studio": ("folder", "profile", "worker", "token", "alert", "keys"),
    "Supervisor": ("up", "down", "log-level", "service"),
    "Upkeep": ("doctor", "backup", "database", "drill", "demo"),
}
_SUBJECTS = {
    "Files": "input recursive ext limit order pattern no-pattern exclude no-exclude audio duplicates settle"
    " watch after-done done-dir verify-full",
    "Result": "output template profile set meta force",
    "Queue": "priority hold hours workers no-process resume enable",
    "Failures": "autorestart no-autorestart delay max-attempts max-crashes",
}
"""Of options. A page with few options has them in one list."""
_FEW = 12
EXAMPLES: Mapping[str, Sequence[str]] = {
    "": ("folder add ~/upload -o ~/ladders", "process -i clips/ -o ~/ladders", "help job list"),
    "add": ("add film.mkv -o ~/ladders --profile fast", "add -r ~/films --set video.crf=20"),
    "process": ("process -i clips/ -o ~/ladders", "process -r films/ --ext mov --limit 10"),
    "plan": ("plan film.mkv --set video.crf=20",),
    "folder add": ("folder add ~/upload -o ~/ladders --recursive", "folder add /mnt/nas/in --watch polling"),
    "folder edit": ("folder edit 1 --profile fast --priority 5",),
    "job list": ("job list --status failed", "job list --columns id,state,code,video"),
    "job priority": ("job priority 7 8 100", "job priority 7 +1", "job priority 7 =-5"),
    "job change": ("job change 7 --quality 720p,480p", "job change 7 --set video.crf=20 --dry-run"),
    "job retranscode": ("job retranscode 7 --quality 1080p,720p",),
    "queue pause": ("queue pause --until 07:00",),
    "events": ("events --follow --json", "events --since 2h --job 7"),
    "token create": ("token create box-2 --role worker",),
}
_END = (
    "tqstudio help COMMAND, or COMMAND -h, explains a command. Exit codes: 0 success, 1 some job failed,"
    " 2 wrong usage, 3 no supervisor, 4 refused, 5 unusable database."
)


def summary(command: Any) -> str:
    """The first sentence of a command's help, up to what only explains it."""
    return re.split(r"[.;:](?:\s|$)", " ".join((command.help or "").split()))[0]


def write(command: Any, ctx: Any, formatter: Any) -> None:
    """Write what follows the usage and the text of a page."""
    lists = list(_options(command, ctx))
    lists[:0] = _commands(command, ctx)
    for title, rows in lists:
        with formatter.section(title):
            formatter.write_dl(rows, col_max=formatter.width // 3)
    path = ctx.command_path.partition(" ")[2]
    if lines := EXAMPLES.get(path):
        with formatter.section("Examples"):
            formatter.write("".join(f"  tqstudio {line}\n" for line in lines))
    if not path:
        formatter.write_paragraph()
        formatter.write_text(_END)


def _commands(command: Any, ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The visible commands of a group, each list with its title."""
    known = {name: command.get_command(ctx, name) for name in getattr(command, "commands", ())}
    rows = {name: (name, summary(each)) for name, each in known.items() if not each.hidden}
    topics: Mapping[str, Iterable[str]] = _TOPICS if ctx.parent is None else {"Commands": tuple(rows)}
    for topic, names in topics.items():
        if found := [rows.pop(name) for name in names if name in rows]:
            yield topic, found
    if rows:
        yield "Other", list(rows.values())


def _options(command: Any, ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The arguments and options of a page, each list with its title."""
    lists: dict[str, list[tuple[str, str]]] = {"Arguments": [], **{title: [] for title in _SUBJECTS}}
    lists["Options"] = []
    subject_of = {name: title for title, names in _SUBJECTS.items() for name in names.split()}
    params = command.get_params(ctx)
    many = len(params) > _FEW
    for param in params:
        record = param.get_help_record(ctx)
        if record is None:
            continue
        names = [name.lstrip("-") for name in param.opts] if many else []
        title = next((subject_of[name] for name in names if name in subject_of), "Options")
        lists["Arguments" if param.param_type_name == "argument" else title].append(_in_words(*record))
    yield from ((title, rows) for title, rows in lists.items() if rows)


def _in_words(name: str, about: str) -> tuple[str, str]:
    """The row of an option, with its range as `1 to 100` instead of `1<=x<=100`."""
    about = re.sub(r"(-?[\d.]+)<=x<=(-?[\d.]+)", r"\1 to \2", about)
    return name, re.sub(r"x>=([\d.]+)", r"at least \1", about).replace("  [required]", "")
