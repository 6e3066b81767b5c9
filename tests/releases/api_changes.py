"""Lists what would break clients of an earlier version of the API, by comparing the schemas of both.

A client sends what the earlier schema allows, so the present one must accept that: nothing removed or
narrowed, nothing more required. What is answered must be as the earlier schema says; fields and values may be
added, which clients ignore.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

Schema = Mapping[str, Any]
METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
UPPER = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
LOWER = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_ABOUT = ("title", "description", "summary", "operationId", "tags", "default", "examples")
KNOWN = {*UPPER, *LOWER, *_ABOUT, "type", "format", "enum", "const", "pattern", "anyOf", "items"}
KNOWN |= {"prefixItems", "properties", "required", "additionalProperties", "propertyNames"}


def breaking(before: Schema, after: Schema) -> list[str]:
    """Returns each incompatible change between two schemas of the API, in words."""
    before, after = inlined(before), inlined(after)
    return list(_of_calls(before["paths"], after["paths"]))


def inlined(document: Schema) -> dict[str, Any]:
    """Puts the shared schemas of a document where they are referred to."""

    def put_in(node: Any) -> Any:
        if isinstance(node, list):
            return [put_in(each) for each in node]
        if not isinstance(node, dict):
            return node
        if "$ref" in node:
            return put_in(document["components"]["schemas"][node["$ref"].rpartition("/")[2]])
        return {key: put_in(each) for key, each in node.items()}

    found: dict[str, Any] = put_in({"paths": document["paths"]})
    return found


def _of_calls(before: Schema, after: Schema) -> Iterator[str]:
    for path, methods in before.items():
        for method in methods.keys() & METHODS:
            at = f"{method.upper()} {path}"
            if method not in after.get(path, {}):
                yield f"{at} is removed"
                continue
            yield from _of_call(at, methods[method], after[path][method])


def _of_call(at: str, before: Schema, after: Schema) -> Iterator[str]:
    parameters = [
        {(each["in"], each["name"]): each for each in of.get("parameters", ())} for of in (before, after)
    ]
    for key, old in parameters[0].items():
        new, where = parameters[1].get(key), f"{at}, {' '.join(key)}"
        if new is None:
            yield f"{where} is removed"
            continue
        if new.get("required") and not old.get("required"):
            yield f"{where} is required"
        yield from _of_request(where, old["schema"], new["schema"])
    for key in parameters[1].keys() - parameters[0].keys():
        if parameters[1][key].get("required"):
            yield f"{at}, {' '.join(key)} is new and required"
    yield from _of_body(at, before.get("requestBody"), after.get("requestBody"))
    for status, old in before["responses"].items():
        if status not in after["responses"]:
            yield f"{at}, {status} is removed"
            continue
        new = after["responses"][status].get("content", {})
        for media, content in old.get("content", {}).items():
            if media not in new:
                yield f"{at}, {status} is no {media}"
            else:
                yield from _of_answer(
                    f"{at}, {status}", content.get("schema", {}), new[media].get("schema", {})
                )


def _of_body(at: str, before: Schema | None, after: Schema | None) -> Iterator[str]:
    if before is None:
        if after is not None and after.get("required"):
            yield f"{at} needs a body"
        return
    if after is None:
        yield f"{at} takes no body"
        return
    if after.get("required") and not before.get("required"):
        yield f"{at} needs a body"
    for media, content in before["content"].items():
        if media not in after["content"]:
            yield f"{at} takes no {media}"
        else:
            yield from _of_request(f"{at}, body", content["schema"], after["content"][media]["schema"])


def _of_request(at: str, before: Schema, after: Schema) -> Iterator[str]:
    yield from _wider(at, after, before, is_answer=False)


def _of_answer(at: str, before: Schema, after: Schema) -> Iterator[str]:
    yield from _wider(at, before, after, is_answer=True)


def _wider(at: str, wide: Schema, narrow: Schema, *, is_answer: bool) -> Iterator[str]:
    """Says why not everything of the narrow schema fits the wide one: the earlier one for an answer."""
    for each in (wide, narrow):
        if unknown := each.keys() - KNOWN:
            yield f"{at} has {', '.join(sorted(unknown))}, which no rule is about"
            return
    if not is_answer and "default" in narrow and narrow["default"] != wide.get("default", ...):
        yield f"{at} has another default"
    for one in narrow.get("anyOf", [narrow]):
        others = [each for each in wide.get("anyOf", [wide]) if _has_type(each, one)]
        if not others:
            yield f"{at} may be {one.get('type', 'anything')}"
            continue
        found = [list(_fits(at, other, one, is_answer=is_answer)) for other in others]
        yield from min(found, key=len)


def _has_type(wide: Schema, narrow: Schema) -> bool:
    types = wide.get("type"), narrow.get("type")
    return types[0] is None or types[0] == types[1] or types == ("number", "integer")


def _fits(at: str, wide: Schema, narrow: Schema, *, is_answer: bool) -> Iterator[str]:
    if "anyOf" in wide or "anyOf" in narrow:
        yield from _wider(at, wide, narrow, is_answer=is_answer)
        return
    yield from _of_values(at, wide, narrow, is_answer=is_answer)
    if "items" in wide:
        yield from _wider(f"{at}[]", wide["items"], narrow.get("items", {}), is_answer=is_answer)
    firsts, others = wide.get("prefixItems", ()), narrow.get("prefixItems", ())
    if len(firsts) != len(others):
        yield f"{at} has another number of items"
    for number, (one, other) in enumerate(zip(firsts, others, strict=False)):
        yield from _wider(f"{at}[{number}]", one, other, is_answer=is_answer)
    yield from _of_fields(at, wide, narrow, is_answer=is_answer)


def _of_values(at: str, wide: Schema, narrow: Schema, *, is_answer: bool) -> Iterator[str]:
    allowed, given = _values(wide), _values(narrow)
    if not is_answer and allowed is not None and (given is None or not given <= allowed):
        lost = "all values" if given is None else ", ".join(sorted(given - allowed))
        yield f"{at} takes no longer {lost}"
    if is_answer and allowed is not None and given is None:
        yield f"{at} has any value"
    for key in ("format", "pattern"):
        if key in wide and wide[key] != narrow.get(key):
            yield f"{at} has another {key}"
    for keys, is_further in (
        (UPPER, lambda bound, own: own > bound),
        (LOWER, lambda bound, own: own < bound),
    ):
        for key in keys:
            if key in wide and (key not in narrow or is_further(wide[key], narrow[key])):
                yield f"{at} has another {key}"


def _values(schema: Schema) -> set[str] | None:
    if "const" in schema:
        return {repr(schema["const"])}
    return set(map(repr, schema["enum"])) if "enum" in schema else None


def _of_fields(at: str, wide: Schema, narrow: Schema, *, is_answer: bool) -> Iterator[str]:
    fields, others = wide.get("properties", {}), narrow.get("properties", {})
    for name in (fields if is_answer else others).keys() - (others if is_answer else fields).keys():
        yield f"{at}.{name} is removed"
    for name in fields.keys() & others.keys():
        yield from _wider(f"{at}.{name}", fields[name], others[name], is_answer=is_answer)
    for name in set(wide.get("required", ())) - set(narrow.get("required", ())):
        if name in others:
            yield f"{at}.{name} is {'not always there' if is_answer else 'required'}"
        elif not is_answer:
            yield f"{at}.{name} is new and required"
    for key in ("additionalProperties", "propertyNames"):
        rest, given = wide.get(key, True), narrow.get(key, True)
        if isinstance(rest, dict):
            yield from _wider(f"{at}.*", rest, given if isinstance(given, dict) else {}, is_answer=is_answer)
        elif rest is False and given is not False:
            yield f"{at} takes no other fields"
