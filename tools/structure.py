"""Prints packages with their files and lines; fails on an import cycle, a crowded package or a long file.

It is part of `make check`.

A package is a folder of modules. Modules that lie beside sub-packages (`engine/supervisor`) wire those
together, so each of them counts as a package of its own.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp

_ROOT = "tqstudio"
_SOURCE = Path(__file__).resolve().parents[1] / "src"
MAX_FILES = 14
MAX_LINES = 400
TABLES = {
    f"{_ROOT}.{module}"
    for module in ("engine.store.db.tables", "lifecycle", "protocol.answers", "protocol.requests")
}
"""Files of rows and schemas, which may be longer."""


def main() -> int:
    """Print one line per package, bottom first; exit status 1 if a limit is exceeded."""
    graph = grimp.build_graph(_ROOT)
    holders = {
        module for module in graph.modules if any(graph.find_children(c) for c in graph.find_children(module))
    }
    imports: dict[str, set[str]] = defaultdict(set)
    members: dict[str, list[str]] = defaultdict(list)

    def package_of(module: str) -> str:
        parent = module.rpartition(".")[0]
        return module if parent in holders or graph.find_children(module) or not parent else parent

    for module in sorted(graph.modules):
        package = package_of(module)
        members[package].append(module)
        imports[package] |= {package_of(used) for used in graph.find_modules_directly_imported_by(module)} - {
            package
        }
    try:
        order = list(TopologicalSorter(imports).static_order())
    except CycleError as error:
        print("cycle:", " -> ".join(reversed(error.args[1])))
        return 1
    folders: dict[str, list[str]] = defaultdict(list)
    for package in order:
        folder = (
            package if members[package] != [package] or package in holders else package.rpartition(".")[0]
        )
        folders[folder or _ROOT] += [m for m in members[package] if not m.endswith("__")]
    for folder, modules in folders.items():
        print(f"{folder:<40} {len(modules):>3} files {sum(map(_lines, modules)):>6} lines")
    total = sum(_lines(module) for module in graph.modules)
    print(f"{len(folders)} packages, {total} lines, no cycle between packages")
    crowded = [folder for folder, modules in folders.items() if len(modules) > MAX_FILES + 1]
    for folder in crowded:
        print(f"{folder} has more than {MAX_FILES} files")
    long = [module for module in sorted(graph.modules - TABLES) if _lines(module) > MAX_LINES]
    for module in long:
        print(f"{module} has more than {MAX_LINES} lines")
    return 1 if crowded or long else 0


def _lines(module: str) -> int:
    path = _SOURCE / module.replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return len(file.read_text().splitlines()) if file.exists() else 0


if __name__ == "__main__":
    sys.exit(main())
