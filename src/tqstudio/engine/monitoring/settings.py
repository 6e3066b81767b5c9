"""Describes the settings: what each allows, and what it is."""

from __future__ import annotations

from typing import get_args

from pydantic.fields import FieldInfo

from tqstudio.config import SECRETS, Settings
from tqstudio.protocol.answers import SettingView
from tqstudio.toml_files import written

_BOUNDS = {"gt": ">", "ge": "≥", "le": "≤"}


def views(settings: Settings) -> list[SettingView]:
    """Returns every setting, in the order of the documentation; of a secret only whether it is set."""
    return [
        {
            "name": key,
            "value": "not shown" if key in SECRETS and value else _plain(value),
            "default": _plain(field.default),
            "allowed": allowed(field),
            "meaning": field.description or "",
        }
        for key, field in Settings.model_fields.items()
        for value in [getattr(settings, key)]
    ]


def _plain(value: object) -> str:
    return written(int(value) if isinstance(value, float) and value.is_integer() else value)


def allowed(field: FieldInfo) -> str:
    """Formats the allowed values of a setting: `> 0`, `> 0 … 60`, `1 … 100, whole`."""
    if field.annotation is bool:
        return "true, false"
    if field.annotation is str:
        return f"such as `{field.examples[0]}`" if field.examples else "text"
    if choices := get_args(field.annotation):
        return ", ".join(choices)
    bounds = {
        name: getattr(check, name) for check in field.metadata for name in _BOUNDS if hasattr(check, name)
    }
    text = " … ".join(f"{_BOUNDS[name]} {value}" for name, value in bounds.items())
    if "le" in bounds:
        text = text.replace("≥ ", "").replace("≤ ", "")
    return f"{text}, whole" if field.annotation is int else text
