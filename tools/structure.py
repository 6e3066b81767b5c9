"""Prints each folder with its files and lines; fails on circles of imports and on what is too large.

It is part of `make check`. Every folder is a package and a layer, never both above and below another one.
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

_ROOT = "tqstudio"
_SOURCE = Path(__file__).resolve().parents[1] / "src"
_WINGS = f"{_ROOT}.wings."
_PROGRAM = f"{_ROOT}.__main__"
"""Starts the command line, from beneath everything."""
MAX_FILES = 14
MAX_LINES = 400
MAX_FUNCTION_LINES = 75
TABLES = {
    f"{_ROOT}.{module}"
    for module in ("engine.store.db.tables", "lifecycle", "protocol.answers", "protocol.requests")
}
"""Files of rows and schemas, which may be longer."""


def main() -> int:
    """Print one line per folder, bottom first; exit status 1 if a limit is exceeded."""
    graph = grimp.build_graph(_ROOT)
    files = {module: graph.find_modules_directly_imported_by(module) for module in sorted(graph.modules)}

    def folder_of(module: str) -> str:
        return module if graph.find_children(module) else module.rpartition(".")[0]

    folders: dict[str, set[str]] = defaultdict(set)
    members: dict[str, list[str]] = defaultdict(list)
    for module, imported in files.items():
        folder = folder_of(module)
        members[folder].append(module)
        if module != _PROGRAM:
            folders[folder] |= {folder_of(each) for each in imported} - {folder}
    order = _ordered("folders", folders)
    if order is None or _ordered("files", files) is None:
        return 1
    for folder in order:
        lines = sum(map(_lines, members[folder]))
        print(f"{folder:<40} {len(_written(members[folder])):>3} files {lines:>6} lines")
    arrows = sum(map(len, folders.values()))
    print(f"{len(folders)} folders, {arrows} arrows between them, no circle")
    total, wings = (sum(_lines(file) for file in files if file.startswith(each)) for each in (_ROOT, _WINGS))
    print(f"{total - wings} lines in the core, {wings} in the wings, {total} together")
    crowded = [folder for folder in order if len(_written(members[folder])) > MAX_FILES]
    for folder in crowded:
        print(f"{folder} has more than {MAX_FILES} files")
    long = [module for module in sorted(graph.modules - TABLES) if _lines(module) > MAX_LINES]
    for module in long:
        print(f"{module} has more than {MAX_LINES} lines")
    functions = [*_long_functions(graph.modules)]
    for name in functions:
        print(f"{name} has more than {MAX_FUNCTION_LINES} lines")
    return 1 if crowded or long or functions else 0


def _ordered(what: str, imports: Mapping[str, set[str]]) -> list[str] | None:
    """Return them, imported ones first; None if they import one another in a circle, which is printed."""
    try:
        return list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        print(f"circle of {what}:", " -> ".join(reversed(error.args[1])))
        return None


def _written(modules: list[str]) -> list[str]:
    """The modules of a folder without its `__init__` and `__main__`."""
    return [m for m in modules if not (_SOURCE / m.replace(".", "/")).is_dir() and m != _PROGRAM]


def _long_functions(modules: Iterable[str]) -> Iterator[str]:
    for module in sorted(modules):
        for node in ast.walk(ast.parse(_text(module))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if (node.end_lineno or 0) - node.lineno >= MAX_FUNCTION_LINES:
                yield f"{module}.{node.name}"


def _lines(module: str) -> int:
    return len(_text(module).splitlines())


def _text(module: str) -> str:
    path = _SOURCE / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return file.read_text() if file.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
