"""Renders tables of reference from the source: profiles, packages, metrics, roles, benchmarks, targets."""

from __future__ import annotations

import ast
import inspect
import re
from itertools import pairwise
from pathlib import Path

from tqstudio.engine.media.plan import profiles
from tqstudio.engine.media.plan.profile_keys import KEYS
from tqstudio.protocol.roles import ROLE_OF, Role
from tqstudio.source_files import VIDEO_EXTENSIONS
from tqstudio.toml_files import written

ROOT = Path(__file__).resolve().parents[1]
SOURCE = Path(profiles.__file__).resolve().parents[3]
_FREE = "Not part of the settings hash."
"""Ends the description of a key whose change encodes nothing."""


def profile_keys() -> str:
    """Every key of a profile: what it allows, its value in `web`, what it is for."""
    web = profiles.load("web", SOURCE)
    described = _attributes(profiles.Profile)
    rows = ["| key | allowed | in `web` | meaning |", "|---|---|---|---|"]
    for key, (field, allowed, _) in KEYS.items():
        value = getattr(web, field)
        shown = f"{len(value)} rungs" if key == "video.rungs" else f"`{written(value)}`"
        if key == "description":
            shown = ""
        meaning = described[field].removesuffix(_FREE).strip().removesuffix(".")
        star = " \\*" if described[field].endswith(_FREE) else ""
        rows.append(f"| `{key}`{star} | {allowed} | {shown} | {meaning} |")
    return "\n".join(rows)


def packages() -> str:
    """Every package, with the first line of its docstring."""
    rows = ["| package | what it does |", "|---|---|"]
    for file in sorted(SOURCE.rglob("__init__.py")):
        name = file.parent.relative_to(SOURCE).as_posix()
        text = ast.get_docstring(ast.parse(file.read_text()))
        if name != "." and text:
            rows.append(f"| `{name}` | {text.splitlines()[0].removesuffix('.')} |")
    return "\n".join(rows)


def _attributes(described: type) -> dict[str, str]:
    """The strings below the fields of a class."""
    [body] = [
        each.body for each in ast.parse(inspect.getsource(described)).body if isinstance(each, ast.ClassDef)
    ]
    found = {}
    for field, text in pairwise(body):
        if isinstance(field, ast.AnnAssign | ast.Assign) and isinstance(text, ast.Expr):
            name = field.target if isinstance(field, ast.AnnAssign) else field.targets[0]
            found[ast.unparse(name)] = re.sub(r"\s+", " ", ast.literal_eval(text.value)).strip()
    return found


def metrics() -> str:
    """Every metric: name, label, help text."""
    tree = ast.parse((SOURCE / "engine" / "monitoring" / "exposition.py").read_text())
    rows = ["| metric, after `tqstudio_` | what |", "|---|---|"]
    about = ""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        for each in sorted(ast.walk(node), key=lambda part: getattr(part, "lineno", 0)):
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "about":
                about = ast.literal_eval(each.value)
            elif isinstance(each, ast.Yield) and isinstance(each.value, ast.Call):
                name, text, *more = each.value.args
                ends = "_total" if ast.unparse(each.value.func).startswith("_counter") else ""
                labels = [part.value for part in more if isinstance(part, ast.Constant)]
                label = f"{{{labels[0]}}}" if labels and isinstance(labels[0], str) else ""
                said = text.value if isinstance(text, ast.Constant) else about
                rows.append(f"| `{ast.literal_eval(name)}{ends}{label}` | {said} |")
    return "\n".join(rows)


def benchmarks() -> str:
    """Every benchmark, as `python -m benchmarks` lists it."""
    tree = ast.parse((ROOT / "benchmarks" / "__main__.py").read_text())
    [names] = [
        ast.literal_eval(each.value)
        for each in tree.body
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "NAMES"
    ]
    return "\n".join(
        ["| benchmark | what |", "|---|---|", *(f"| {name} | {what} |" for name, what in names.items())]
    )


def make_targets() -> str:
    """Every target of the Makefile that a comment explains."""
    rows = ["| command | what |", "|---|---|"]
    for comment, target in re.findall(
        r"((?:^# .*\n)+)([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE
    ):
        text = " ".join(line.removeprefix("# ") for line in comment.splitlines())
        rows.append(f"| `make {target}` | {text} |")
    return "\n".join(rows)


def roles() -> str:
    """The calls that each role adds, and what the role is for."""
    meant = _attributes(Role)
    rows = ["| role | what it may | calls |", "|---|---|---|"]
    for role in Role:
        calls = [f"`{call}`" for call, needed in ROLE_OF.items() if needed is role]
        rows.append(f"| {role} | {meant[role.name].removesuffix('.')} | {', '.join(calls)} |")
    return "\n".join(rows)


def extensions() -> str:
    """The extensions of videos that drop folders take."""
    return f"`{' '.join(sorted(each.decode().lstrip('.') for each in VIDEO_EXTENSIONS))}`"
