"""The API stays as earlier releases answered it: clients of each may still call it."""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tqstudio import __version__
from tqstudio.protocol.roles import ROLE_OF

from .api_changes import METHODS, breaking, inlined

ROOT = Path(__file__).parents[2]
KEPT = sorted(Path(__file__).parent.glob("api-*.json"))
sys.path.insert(0, str(ROOT / "tools"))

import api_schema  # noqa: E402

Node = dict[str, Any]
CURRENT = api_schema.schema()
INLINED = inlined(CURRENT)


def test_the_schema_in_the_repository_is_that_of_the_code() -> None:
    assert (ROOT / "docs" / "openapi.json").read_text() == api_schema.text(), "run make docs"
    assert CURRENT["info"]["version"] == __version__


def test_every_call_of_clients_is_in_it() -> None:
    calls = {f"{method.upper()} {path}" for path, of in CURRENT["paths"].items() for method in of}
    assert calls == set(ROLE_OF)


@pytest.mark.parametrize("kept", KEPT, ids=lambda path: path.stem)
def test_what_a_release_answered_is_kept(kept: Path) -> None:
    """A change that clients must follow goes to a new prefix, beside `/v1`."""
    assert breaking(json.loads(kept.read_text()), CURRENT) == []


# The rules themselves


class Site(NamedTuple):
    """A schema within a request or an answer, and the keys that lead to it."""

    keys: tuple[str | int, ...]
    node: Node
    is_answer: bool


def _sites() -> Iterator[Site]:
    for path, methods in INLINED["paths"].items():
        for method in methods.keys() & METHODS:
            call = methods[method]
            at: tuple[str | int, ...] = ("paths", path, method)
            for number, each in enumerate(call.get("parameters", ())):
                yield from _below((*at, "parameters", number, "schema"), each["schema"], False)
            for media, content in call.get("requestBody", {}).get("content", {}).items():
                yield from _below((*at, "requestBody", "content", media, "schema"), content["schema"], False)
            for status, answer in call["responses"].items():
                for media, content in answer.get("content", {}).items():
                    keys = (*at, "responses", status, "content", media, "schema")
                    yield from _below(keys, content.get("schema", {}), True)


def _below(keys: tuple[str | int, ...], node: Node, is_answer: bool) -> Iterator[Site]:
    yield Site(keys, node, is_answer)
    for name, each in node.get("properties", {}).items():
        yield from _below((*keys, "properties", name), each, is_answer)
    for number, each in enumerate(node.get("anyOf", ())):
        yield from _below((*keys, "anyOf", number), each, is_answer)
    for key in ("items", "additionalProperties"):
        if isinstance(each := node.get(key), dict):
            yield from _below((*keys, key), each, is_answer)


SITES = list(_sites())
Change = Callable[[Node], None]


def _loses_a_field(node: Node) -> None:
    name = sorted(node["properties"])[0]
    del node["properties"][name]
    node["required"] = [each for each in node.get("required", ()) if each != name]


def _needs_one_more(node: Node) -> None:
    node["properties"] = {**node.get("properties", {}), "new": {"type": "string"}}
    node["required"] = [*node.get("required", ()), "new"]


def _may_have_one_more(node: Node) -> None:
    node["properties"] = {**node.get("properties", {}), "new": {"type": "string"}}


def _makes_optional(node: Node) -> None:
    node["required"] = node["required"][1:]


def _requires(node: Node) -> None:
    optional = sorted(node["properties"].keys() - set(node.get("required", ())))
    node["required"] = [*node.get("required", ()), optional[0]]


def _has_another_type(node: Node) -> None:
    node["type"] = "boolean" if node["type"] != "boolean" else "string"


def _bounds(by: int) -> Change:
    def changes(node: Node) -> None:
        key = next(key for key in ("maximum", "maxLength", "maxItems") if key in node)
        node[key] += by

    return changes


def _loses_a_value(node: Node) -> None:
    node["enum"] = node["enum"][1:]


def _gets_a_value(node: Node) -> None:
    node["enum"] = [*node["enum"], "new"]


def _may_be_none(node: Node) -> None:
    node["anyOf"] = [*node["anyOf"], {"type": "a type that no part has yet"}]


def _is_no_longer_none(node: Node) -> None:
    node["anyOf"] = [each for each in node["anyOf"] if each.get("type") != "null"]


def _has_a_pattern(node: Node) -> None:
    node["pattern"] = "^only this$"


def _has_another_default(node: Node) -> None:
    node["default"] = "another" if node["default"] != "another" else "one"


def _is_object(site: Site) -> bool:
    return bool(site.node.get("properties"))


def _is_bounded(site: Site) -> bool:
    return bool(site.node.keys() & {"maximum", "maxLength", "maxItems"})


def _is_nullable(site: Site) -> bool:
    return any(each.get("type") == "null" for each in site.node.get("anyOf", ()))


def _is_typed(site: Site) -> bool:
    # A part of a union may become what another part is already.
    return "type" in site.node and "anyOf" not in site.keys


def _has_optional(site: Site) -> bool:
    return _is_object(site) and bool(site.node["properties"].keys() - set(site.node.get("required", ())))


BREAKING: dict[str, tuple[Callable[[Site], bool], Change]] = {
    "a field of an answer is removed": (lambda site: site.is_answer and _is_object(site), _loses_a_field),
    "a field of an answer may be missing": (
        lambda site: site.is_answer and bool(site.node.get("required")),
        _makes_optional,
    ),
    "an answer has another type": (lambda site: site.is_answer and _is_typed(site), _has_another_type),
    "an answer may be something else": (lambda site: site.is_answer and "anyOf" in site.node, _may_be_none),
    "a field of a request is refused": (lambda site: not site.is_answer and _is_object(site), _loses_a_field),
    "a request has a new required field": (
        lambda site: not site.is_answer and _is_object(site),
        _needs_one_more,
    ),
    "a field of a request becomes required": (
        lambda site: not site.is_answer and _has_optional(site),
        _requires,
    ),
    "a request has another type": (lambda site: not site.is_answer and _is_typed(site), _has_another_type),
    "a request may not be null": (
        lambda site: not site.is_answer and _is_nullable(site),
        _is_no_longer_none,
    ),
    "a request takes fewer values": (
        lambda site: not site.is_answer and "enum" in site.node,
        _loses_a_value,
    ),
    "a request takes less": (lambda site: not site.is_answer and _is_bounded(site), _bounds(-1)),
    "a request must fit a pattern": (
        lambda site: not site.is_answer and site.node.get("type") == "string" and "pattern" not in site.node,
        _has_a_pattern,
    ),
    "another default": (lambda site: not site.is_answer and "default" in site.node, _has_another_default),
}
COMPATIBLE: dict[str, tuple[Callable[[Site], bool], Change]] = {
    "an answer has a new field": (lambda site: site.is_answer and _is_object(site), _needs_one_more),
    "a field of an answer is always there": (lambda site: site.is_answer and _has_optional(site), _requires),
    "an answer has a new value": (lambda site: site.is_answer and "enum" in site.node, _gets_a_value),
    "an answer is never null": (lambda site: site.is_answer and _is_nullable(site), _is_no_longer_none),
    "a request may have a new field": (
        lambda site: not site.is_answer and _is_object(site),
        _may_have_one_more,
    ),
    "a field of a request becomes optional": (
        lambda site: not site.is_answer and bool(site.node.get("required")),
        _makes_optional,
    ),
    "a request takes more values": (lambda site: not site.is_answer and "enum" in site.node, _gets_a_value),
    "a request takes more": (lambda site: not site.is_answer and _is_bounded(site), _bounds(1)),
    "a request may be something else": (
        lambda site: not site.is_answer and "anyOf" in site.node,
        _may_be_none,
    ),
}


def _of_path(path: str) -> Node:
    """The schema of that path alone."""
    return copy.deepcopy({"paths": {path: INLINED["paths"][path]}})


def _found(site: Site, change: Change) -> list[str]:
    """What breaks by a change at one place."""
    before, after = (_of_path(str(site.keys[1])) for _ in range(2))
    node: Any = after
    for key in site.keys:
        node = node[key]
    change(node)
    return breaking(before, after)


@pytest.mark.parametrize("what", BREAKING)
@settings(max_examples=25)
@given(data=st.data())
def test_a_breaking_change_is_found(what: str, data: st.DataObject) -> None:
    may, change = BREAKING[what]
    site = data.draw(st.sampled_from([site for site in SITES if may(site)]))
    assert _found(site, change), site.keys


@pytest.mark.parametrize("what", COMPATIBLE)
@settings(max_examples=25)
@given(data=st.data())
def test_a_compatible_change_is_allowed(what: str, data: st.DataObject) -> None:
    may, change = COMPATIBLE[what]
    site = data.draw(st.sampled_from([site for site in SITES if may(site)]))
    assert _found(site, change) == [], site.keys


@settings(max_examples=25)
@given(data=st.data())
def test_a_removed_call_or_parameter_is_found(data: st.DataObject) -> None:
    path = data.draw(st.sampled_from(sorted(INLINED["paths"])))
    before, document = _of_path(path), _of_path(path)
    of = document["paths"][path]
    method = data.draw(st.sampled_from(sorted(of.keys() & METHODS)))
    call = of[method]
    what = data.draw(
        st.sampled_from(["path", "call", "parameter", "new parameter", "status", "media", "body"])
    )
    if what == "path":
        del document["paths"][path]
    elif what == "parameter" and call.get("parameters"):
        call["parameters"].pop()
    elif what == "new parameter":
        new = {"in": "query", "name": "new", "required": True, "schema": {"type": "string"}}
        call["parameters"] = [*call.get("parameters", ()), new]
    elif what == "status":
        del call["responses"][min(call["responses"])]
    elif what == "media" and (
        answers := [each for each in call["responses"].values() if each.get("content")]
    ):
        answers[0]["content"] = {"text/html": {}}
    elif what == "body":
        if "requestBody" in call:
            del call["requestBody"]
        else:
            call["requestBody"] = {"required": True, "content": {"application/json": {"schema": {}}}}
    else:
        del of[method]
    assert breaking(before, document)


def test_an_added_call_is_allowed() -> None:
    document = copy.deepcopy(INLINED)
    document["paths"]["/v1/new"] = {"get": {"responses": {"200": {}}}}
    assert breaking(INLINED, document) == []
    assert breaking(INLINED, INLINED) == []


def test_a_schema_that_no_rule_is_about_is_reported() -> None:
    site = next(site for site in SITES if site.is_answer and _is_object(site))
    found = _found(site, lambda node: node.update(patternProperties={}))
    assert any("which no rule is about" in each for each in found)
