"""Finds the modules that are named in strings, where neither the import graph nor mypy sees them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import CodeType

ROOT = Path(__file__).resolve().parents[1]
_NAME = re.compile(r"(?<![\w./-])tqstudio(?:\.[A-Za-z_]\w*)+(?::\w+)?")
_FROM = re.compile(r"\bfrom (tqstudio[\w.]*) import ([\w, ]+)")
_FILES = {"tqstudio.db", "tqstudio.service", "tqstudio.sh"}
"""Names of files that look like names of modules."""


def in_text(text: str) -> set[str]:
    """Find names such as `tqstudio.home` and `tqstudio.cli:run_and_exit`, also within code and prose."""
    imported = {
        f"{module}.{name.split()[0]}"
        for module, names in _FROM.findall(text)
        for name in names.split(",")
        if name.strip()
    }
    return (set(_NAME.findall(text)) | imported) - _FILES


@cache
def in_strings(folder: Path) -> dict[Path, set[str]]:
    """Find the names in the strings of each file; of an f-string, what precedes its values."""
    return {path: in_text("\n".join(_strings(_compiled(path)))) for path in sorted(folder.rglob("*.py"))}


def _compiled(path: Path) -> CodeType:
    return compile(path.read_text(), path, "exec", dont_inherit=True)


def _strings(constant: object) -> Iterator[str]:
    """Walk compiled code, which takes a third of the time of a walk through its syntax tree."""
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, CodeType):
        yield from _strings(constant.co_consts)
    elif isinstance(constant, tuple | frozenset):
        for each in constant:
            yield from _strings(each)


def programs(folder: Path) -> set[str]:
    """Find the modules that are run as programs: what follows `-m` in a command, or is passed to `spawn`."""
    texts = [path.read_text() for path in folder.rglob("*.py")]
    starting = [text for text in texts if '"-m"' in text or ".spawn(" in text]
    return {name for text in starting for name in _programs(ast.parse(text))}


def _programs(tree: ast.Module) -> Iterator[str]:
    values: dict[str, ast.expr] = {}
    """What a name stands for: a constant's value, or a parameter's default."""
    started: list[ast.expr] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            values[node.targets[0].id] = node.value
        elif isinstance(node, ast.arguments) and node.defaults:
            names = [each.arg for each in (*node.posonlyargs, *node.args)][-len(node.defaults) :]
            values |= zip(names, node.defaults, strict=True)
        elif isinstance(node, ast.List | ast.Tuple):
            words = [each.value if isinstance(each, ast.Constant) else None for each in node.elts]
            started += [node.elts[words.index("-m") + 1]] if "-m" in words[:-1] else []
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "spawn"
        ):
            started.append(node.args[0])
    for each in started:
        while isinstance(each, ast.Name) and each.id in values:
            each = values.pop(each.id)  # once: a default may have the parameter's own name
        if isinstance(each, ast.Constant):
            yield str(each.value)
