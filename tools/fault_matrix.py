"""Collects the fault matrix from `@pytest.mark.fault` on tests, and the invariants of the simulator."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1] / "tests"
AREAS = (
    "resume",
    "publishing",
    "workers",
    "supervisor",
    "disks",
    "database",
    "power cuts",
    "security",
    "alerts",
)
"""Sections of the page, in their order."""
_INVARIANTS = ("of_a_job", "of_a_commit", "of_the_whole")


def faults() -> str:
    """A section with a table for each area: fault, reaction, tests."""
    found: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for path in sorted([*TESTS.glob("*/test_*.py"), *TESTS.glob("wings/*/test_*.py")]):
        for node in ast.walk(ast.parse(path.read_text())):
            for what, reaction, area in _markers(node, path):
                name = f"{path.parent.relative_to(TESTS)}/{path.stem}::{node.name}"  # type: ignore[attr-defined]
                found[area][what, reaction].append(f"`{name}`")
    if unknown := found.keys() - set(AREAS):
        raise SystemExit(f"unknown area of a fault: {', '.join(unknown)}; there are {', '.join(AREAS)}")
    parts = []
    for area in AREAS:
        rows = [f"| {w} | {r} | {'<br>'.join(tests)} |" for (w, r), tests in sorted(found[area].items())]
        head = [f"## {area.capitalize()}", "", "| fault | what tqstudio does | test |", "|---|---|---|"]
        parts.append("\n".join([*head, *rows]))
    return "\n\n".join(parts)


def _markers(node: ast.AST, path: Path) -> list[tuple[str, str, str]]:
    rows = []
    for each in getattr(node, "decorator_list", []):
        if isinstance(each, ast.Call) and ast.unparse(each.func) == "pytest.mark.fault":
            values = [ast.literal_eval(arg) for arg in each.args]
            area = [ast.literal_eval(key.value) for key in each.keywords if key.arg == "area"]
            if len(values) != 2 or len(area) != 1:
                raise SystemExit(f'{path}:{each.lineno}: write fault("what happens", "reaction", area="…")')
            rows.append((values[0], values[1], area[0]))
    return rows


def invariants() -> str:
    """A table of what the simulator checks: name and first sentence of each function."""
    folder = TESTS / "simulation"
    tree = ast.parse((folder / "invariants.py").read_text())
    checked = [
        ast.unparse(e).rpartition(".")[2] for t in ast.walk(tree) if isinstance(t, ast.Tuple) for e in t.elts
    ]
    rows = [
        f"| `{node.name}` | {_first_line(node)} |"
        for name in _INVARIANTS
        for node in ast.parse((folder / f"{name}.py").read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name in checked
    ]
    course = next(ast.literal_eval(n.value) for n in tree.body if _assigns(n, "OF_THE_COURSE"))  # type: ignore[attr-defined]
    rows += [f"| `{name}` | {text} |" for name, text in course.items()]
    return "\n".join(["| invariant | what must hold |", "|---|---|", *rows])


def _first_line(node: ast.FunctionDef) -> str:
    return " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())


def _assigns(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name
