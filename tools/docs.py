"""Writes the generated parts of the documentation and counts the words of the rest: `make docs`.

With `--check` it writes nothing and fails when a part is stale or the hand-written text is too long.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

from typer.completion import get_completion_script

import api_schema
import commands_page
import fault_matrix
import man_page
import reference_tables
from tqstudio.config import Settings
from tqstudio.engine.monitoring.settings import allowed
from tqstudio.protocol.filters import WORDS
from tqstudio.ui.actions.registry import ACTIONS, LISTS, SCROLLED
from tqstudio.ui.data.keys import key_sign
from tqstudio.wings.alerts.kinds import KINDS

ROOT = Path(__file__).resolve().parents[1]
_VIEWS = {SCROLLED: "everywhere", LISTS: "lists"}


def _settings() -> str:
    """Every setting with its default and what it allows."""
    rows = ["| key | default | allowed | meaning |", "|---|---|---|---|"]
    for key, field in Settings.model_fields.items():
        default = field.default if field.default != "" else "–"
        if isinstance(default, bool):
            default = str(default).lower()
        rows.append(f"| `{key}` | {default} | {allowed(field)} | {field.description} |")
    return "\n".join(rows)


def _keys() -> str:
    """The keys of the terminal UI, by what they concern."""
    rows = ["| key | what it does | where |", "|---|---|---|"]
    for group in dict.fromkeys(action.group for action in ACTIONS):
        for action in (each for each in ACTIONS if each.group == group):
            keys = " ".join(f"`{key_sign(key)}`" for key in action.keys)
            views = _VIEWS.get(action.views, ", ".join(action.views))
            rows.append(f"| {keys} | {action.help} | {views} |")
    return "\n".join(rows)


def _filters() -> str:
    """The words of filters."""
    rows = ["| word | what follows it |", "|---|---|"]
    rows += [f"| `{word}:` | {follows} |" for word, follows in WORDS.items()]
    rows += [
        "| `a,b` | either of them; states, kinds and codes may be shortened |",
        "| `!` | in front: none of them |",
        '| `"…"` | spaces, commas and `word:` as they stand; `""` is the sign itself |',
    ]
    return "\n".join(rows)


def _alerts() -> str:
    """The kinds of alerts."""
    rows = ["| kind | when | default |", "|---|---|---|"]
    rows += [
        f"| `{name}` | {kind.when} | {'on' if kind.default else 'off'} |" for name, kind in KINDS.items()
    ]
    return "\n".join(rows)


PARTS: dict[str, tuple[str, Callable[[], str]]] = {
    "settings": ("docs/settings.md", _settings),
    "commands": ("docs/commands.md", commands_page.commands),
    "keys": ("docs/ui.md", _keys),
    "filters": ("docs/ui.md", _filters),
    "errors": ("docs/api.md", commands_page.errors),
    "roles": ("docs/api.md", reference_tables.roles),
    "alerts": ("docs/operating.md", _alerts),
    "warnings": ("docs/api.md", commands_page.warnings),
    "keys-of-profiles": ("docs/profiles.md", reference_tables.profile_keys),
    "packages": ("docs/architecture.md", reference_tables.packages),
    "measured": ("docs/benchmarks.md", reference_tables.benchmarks),
    "targets": ("docs/development/testing.md", reference_tables.make_targets),
    "extensions": ("docs/folders.md", reference_tables.extensions),
    "metrics": ("docs/monitoring.md", reference_tables.metrics),
    "faults": ("docs/internals/fault-matrix.md", fault_matrix.faults),
    "invariants": ("docs/internals/fault-matrix.md", fault_matrix.invariants),
}
"""Name of a part → its page and text. On the page it is between `<!-- NAME: … -->` and `<!-- /NAME -->`."""


def _completion(shell: str) -> str:
    """What a shell loads at the first tab from a folder of the system."""
    script = get_completion_script(
        prog_name="tqstudio", complete_var="_TQSTUDIO_COMPLETE", shell=shell
    ).strip()
    # The body of a function that zsh loads is all that the first tab runs.
    return script + ('\n_tqstudio_completion "$@"\n' if shell == "zsh" else "\n")


FILES: dict[str, Callable[[], str]] = {
    "docs/openapi.json": api_schema.text,
    "man/tqstudio.1": man_page.manual,
    "completions/tqstudio.bash": lambda: _completion("bash"),
    "completions/_tqstudio": lambda: _completion("zsh"),
    "completions/tqstudio.fish": lambda: _completion("fish"),
}
"""Generated as a whole; the wheel carries them."""
MAX_WORDS = 19_000
"""Of README, CHANGELOG and docs, without generated parts."""
_WORD = re.compile(r"\S*\w\S*")


def main() -> int:
    """Write or check every part; returns the exit status."""
    check = "--check" in sys.argv[1:]
    stale = [name for name, (page, render) in PARTS.items() if not _update(name, ROOT / page, render, check)]
    stale += [name for name, render in FILES.items() if not _update_file(ROOT / name, render(), check)]
    counts = {page: _words(page.read_text()) for page in pages()}
    for page, count in counts.items():
        print(f"{count:>6} {page.relative_to(ROOT)}")
    print(f"{sum(counts.values()):>6} words are written by hand, of at most {MAX_WORDS}")
    if check and stale:
        print(f"stale: {', '.join(stale)}; run make docs")
    return int(bool(check and stale) or sum(counts.values()) > MAX_WORDS)


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def _update(name: str, page: Path, render: Callable[[], str], check: bool) -> bool:
    """Write one part into its page; returns whether it was up to date."""
    text = page.read_text()
    pattern = re.compile(rf"(<!-- {name}: [^\n]*-->\n).*?(<!-- /{name} -->)", re.DOTALL)
    new = pattern.sub(lambda found: f"{found[1]}{_inner(name, render())}\n{found[2]}", text)
    if f"<!-- /{name} -->" not in text:
        raise SystemExit(f"{page} has no place for the part {name}")
    if new != text and not check:
        page.write_text(new)
    return new == text


def _update_file(path: Path, text: str, check: bool) -> bool:
    """Write a file; returns whether it was up to date."""
    if path.exists() and path.read_text() == text:
        return True
    if not check:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return False


def _inner(name: str, text: str) -> str:
    """The part without markers of its own."""
    return re.sub(rf"<!-- /?{name}\b[^\n]*-->\n?", "", text).strip("\n")


def _words(text: str) -> int:
    return len(_WORD.findall(re.sub(r"<!-- ([\w-]+): generated.*?<!-- /\1 -->", "", text, flags=re.DOTALL)))


if __name__ == "__main__":
    sys.exit(main())
