"""The HTTP API, from its OpenAPI document."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from controller.app import create_app
from controller.settings import Settings
from strandline.core.config import StreamConfig
from tools.reference.text import code, items, json_block, number, page, wrapped

# What a field is by default where the schema of the body does not say it.
DEFAULTS: Final[Mapping[tuple[str, str], Mapping[str, object]]] = {
    ("put", "/v1/streams/{stream}"): {field.name: field.default for field in fields(StreamConfig)},
    ("put", "/v1/reader-groups/{group}"): {"start": "head"},
}
LEFT_OUT = "may be left out"
FIRST_SECTIONS = ("streams", "writers")  # the others follow in the router's order
TIME = "whole milliseconds"  # which the page says once
SHORT: Final = 100  # characters of a body that stands in its sentence

# The introduction says what the pattern of a token has to fit; these are the exceptions.
NEEDS = re.compile(r"Needs a token with the role (`\w+`), and a pattern(.*)")
PATTERNS: Final = {
    " that fits the stream's name.": "",
    " that fits the names of all the group's streams.": "",
    " that fits every name.": ", and a pattern that fits every name",
    "; streams that it does not fit are neither accepted nor shown.": ", for the streams that the pattern fits",
}


def http(document: Mapping[str, Any] | None = None) -> str:
    """Each route with its role, parameters, body, answers and an example, and the shapes of answers."""
    document = create_app(Settings()).openapi() if document is None else document
    schemas: dict[str, Any] = document["components"]["schemas"]
    sections: dict[str, list[str]] = {}
    shown = _shown(document["paths"])
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            section = operation.get("tags", ["operations"])[0]
            sections.setdefault(section, []).append(
                _route(method, path, operation, schemas, shown=(method, path) in shown)
            )
    parts = [
        f"## {name.capitalize()}\n\n" + "\n\n".join(routes)
        for name, routes in sorted(sections.items(), key=lambda each: each[0] not in FIRST_SECTIONS)
    ]
    introduction = (
        "Requests and answers are JSON. Every answer has the controller's clock in the header `Strandline-Time`; "
        "times are whole milliseconds, a position is an offset by segment. On PostgreSQL, answers about marks and "
        "windows have `Strandline-Version`: who sends the newest one back as `Strandline-Seen` is shown nothing older "
        "of that stream, by any controller; our clients do. Unknown fields are refused. An error is "
        "answered as a problem, see [errors.md](errors.md). [openapi.json](openapi.json) has the same for machines, "
        "which the controller serves at `/openapi.json`, and as a page at `/docs`, both with examples of the calls; "
        "here each kind of answer has one. Clients can be made from it: with openapi-python-client 0.29, and for Go "
        "with OpenAPI Generator 7.14 and its `enumClassPrefix=true`, it was tried. "
        "The examples are real answers; only their clock is made up. Roles apply "
        "once there are [tokens](../how-to/tokens-and-tls.md): the pattern of a token has to fit the name of the "
        "stream, or of each stream that the group reads. Some calls are about all streams that the pattern fits; "
        "others are neither accepted nor shown there. An answer has all its fields except those that may be left out. "
        "A newer controller may add fields, and words where a field has one of several: ignore those that you do not "
        "know. Nothing else of this contract changes before its version 2."
    )
    return page("The HTTP API", introduction, [*parts, _answers(document["paths"], schemas)])


def _shown(paths: Mapping[str, Any]) -> set[tuple[str, str]]:
    """The calls whose answers are shown: of those that answer in the same shape, one that reads, or else the first."""
    found: dict[str, tuple[str, str]] = {}
    calls = [(method, path) for path, operations in paths.items() for method in operations]
    for method, path in sorted(calls, key=lambda call: call[0] != "get"):
        found.setdefault(_shape(paths[path][method]), (method, path))
    return set(found.values())


def _shape(operation: Mapping[str, Any]) -> str:
    """What a call answers with, as a text."""
    return " ".join(dict.fromkeys(_named(operation["responses"])))


def _who(operation: Mapping[str, Any]) -> str:
    """Who may make a call."""
    wording: str = operation.get("description", "Open to everybody.")
    needed = NEEDS.fullmatch(wording)
    return f"Role {needed[1]}{PATTERNS[needed[2]]}." if needed and needed[2] in PATTERNS else wording


def _route(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any], *, shown: bool) -> str:
    parts = [f"### `{method.upper()} {path}`", f"{operation['summary']}. {_who(operation)}"]
    rows = [
        (
            code(one["name"]),
            _kind(one["schema"], schemas),
            "required" if one.get("required") else "",
            _default(one["schema"]),
        )
        for one in operation.get("parameters", ())
        if one["in"] == "query"
    ]
    if rows:
        parts.append(f"In the query:\n\n{items(rows)}")
    defaults = DEFAULTS.get((method, path), {})
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    parts += [
        f"{'Or in' if number else 'In'} the body:\n\n{items(rows)}"
        for number, rows in enumerate(_fields(shape, schemas, defaults) for shape in _shapes(body or {}, schemas))
        if rows
    ]
    return "\n\n".join([*parts, *_answered(operation, shown=shown)])


def _answered(operation: Mapping[str, Any], *, shown: bool) -> Iterator[str]:
    """What a route answers, and real calls, with their answers if these are shown."""
    given = [(status, each) for status, each in operation["responses"].items() if status != "default"]
    given.sort(key=lambda each: {"201": 0, "200": 1}.get(each[0], 2))
    answers = []
    examples: dict[str, Any] = {}
    for status, response in given:
        content = response.get("content", {})
        for media_type, body in content.items():
            names = [_link(name) for name in _named(body["schema"])] or [code(media_type)]
            answers.append(f"{status} {' or '.join(names)}{_when(response)}")
            for name, example in body.get("examples", {}).items():
                if example not in examples.values():
                    examples[name] = example
        if not content:
            answers.append(f"{status}{_when(response)}")
    yield f"Answers {', '.join(answers)}."
    asked = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("examples", {})
    for name, example in examples.items():
        title = "For example" if len(examples) == 1 else f"For example, {name}"
        if name in asked:
            body = json.dumps(asked[name]["value"])
            yield f"{title}: `{body}`" if len(body) <= SHORT else f"{title}:\n\n{json_block(asked[name]['value'])}"
        if not shown:
            continue
        yield "is answered with" if name in asked else f"{title}:"
        value = example["value"]
        yield f"```text\n{value.rstrip()}\n```" if isinstance(value, str) else json_block(value)


def _when(response: Mapping[str, Any]) -> str:
    wording: str = response["description"]
    return "" if wording == "Successful Response" else f" ({wording[0].lower()}{wording[1:]})"


def _answers(paths: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """The shapes of all answers, and what these are made of."""
    found: dict[str, None] = {}

    def visit(value: object) -> None:
        for name in _named(value):
            if name not in found and "properties" in schemas[name]:
                found[name] = None
                visit(schemas[name])

    for operations in paths.values():
        for operation in operations.values():
            visit(operation["responses"])
    return "## Answers\n\n" + "\n\n".join(_answer(name, schemas[name], schemas) for name in sorted(found))


def _answer(name: str, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    rows = [
        (
            code(field),
            _kind(of, schemas, linked=True),
            "; ".join([*_about(of), *([] if field in schema["required"] else [LEFT_OUT])]),
        )
        for field, of in schema["properties"].items()
    ]
    return f"### {name}\n\n{wrapped(schema.get('description', ''))}\n\n{items(rows)}"


def _about(schema: Mapping[str, Any]) -> list[str]:
    """What a field's schema says of it, or of what else than null it may be."""
    found = [each["description"] for each in (schema, *schema.get("anyOf", ())) if "description" in each]
    return [each for each in found[:1] if each != TIME]


def _named(value: object) -> Iterator[str]:
    """The schemas that are referred to, wherever they stand."""
    if isinstance(value, Mapping):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for name, each in value.items():
            if name != "examples":
                yield from _named(each)
    elif isinstance(value, list):
        for each in value:
            yield from _named(each)


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _shapes(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The objects that a body may consist of."""
    if "$ref" in schema:
        yield from _shapes(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    elif "oneOf" in schema or "anyOf" in schema:
        for one in schema.get("oneOf") or schema["anyOf"]:
            yield from _shapes(one, schemas)
    elif "properties" in schema:
        yield schema


def _fields(
    shape: Mapping[str, Any], schemas: Mapping[str, Any], defaults: Mapping[str, object]
) -> list[tuple[str, str, str, str]]:
    required = shape.get("required", ())
    return [
        (
            code(name),
            _kind(schema, schemas),
            "required" if name in required else "",
            _default({"default": defaults[name]} if name in defaults else schema),
        )
        for name, schema in shape["properties"].items()
    ]


def _kind(schema: Mapping[str, Any], schemas: Mapping[str, Any], *, linked: bool = False) -> str:
    """The type and bounds of a value, in a few words; `linked`: shapes by name, as links to their fields."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return _link(name) if linked and "properties" in schemas[name] else _kind(schemas[name], schemas)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_kind(one, schemas, linked=linked) for one in schema[several]))
    if "enum" in schema:
        return " or ".join(f'"{value}"' if isinstance(value, str) else str(value).lower() for value in schema["enum"])
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "properties" in schema:
        return "{" + ", ".join(schema["properties"]) + "}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'], schemas, linked=linked)}"
    kind = schema.get("type", "any")
    kinds = list(kind) if isinstance(kind, list) else [kind]
    if "array" in kinds:
        kinds[kinds.index("array")] = f"list of {_kind(schema.get('items', {}), schemas, linked=linked)}"
    bounds = [
        f"{word} {number(schema[key])}"
        for key, word in (("minimum", "from"), ("maximum", "to"), ("maxItems", "at most"))
        if isinstance(schema.get(key), int) and abs(schema[key]) < 2**53 - 1
    ]
    return " or ".join(kinds) + (f", {' '.join(bounds)}" if bounds else "")


def _default(schema: Mapping[str, Any]) -> str:
    if "default" not in schema:
        return ""
    value = schema["default"]
    shown = "null" if value is None else code(str(value).lower() if isinstance(value, bool) else str(value)) or '""'
    return f"by default {shown}"
