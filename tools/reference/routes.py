"""The HTTP API, from its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from controller.app import create_app
from controller.settings import Settings
from strandline.core.config import StreamConfig
from tools.reference.text import code, number, page, table

NEW_STREAM = ("put", "/v1/streams/{stream}")
FIRST_SECTIONS = ("streams", "writers")  # the others follow in the router's order


def http() -> str:
    """Each route with its role, parameters and body, and with its answer where the document describes that."""
    document = create_app(Settings()).openapi()
    schemas: dict[str, Any] = document["components"]["schemas"]
    sections: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            section = operation.get("tags", ["operations"])[0]
            sections.setdefault(section, []).append(_route(method, path, operation, schemas))
    introduction = (
        "Requests and answers are JSON. Every answer has the controller's clock in the header `Strandline-Time`; times "
        "are whole milliseconds, a position is an offset by segment. Unknown fields are refused. An error is answered "
        "as a problem, see [errors.md](errors.md). The controller serves the same for machines at `/openapi.json`, and "
        "as a page at `/docs`. Roles apply once there are tokens: [tokens-and-tls.md](../how-to/tokens-and-tls.md)."
    )
    return page(
        "The HTTP API",
        introduction,
        (
            f"## {name.capitalize()}\n\n" + "\n\n".join(routes)
            for name, routes in sorted(sections.items(), key=lambda each: each[0] not in FIRST_SECTIONS)
        ),
    )


def _route(method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    who = operation.get("description", "Open to everybody.")
    parts = [f"### `{method.upper()} {path}`", f"{operation['summary']}. {who}"]
    rows = [
        (
            code(one["name"]),
            _kind(one["schema"], schemas),
            "yes" if one.get("required") else "",
            _default(one["schema"]),
        )
        for one in operation.get("parameters", ())
        if one["in"] == "query"
    ]
    if rows:
        parts.append(table(("parameter", "type", "required", "default"), rows))
    # The defaults of a new stream are in StreamConfig; the schema of the body does not have them.
    defaults = {field.name: field.default for field in fields(StreamConfig)} if (method, path) == NEW_STREAM else {}
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    parts += [
        table(("field", "type", "required", "default"), rows)
        for rows in (_fields(shape, schemas, defaults) for shape in _shapes(body or {}, schemas))
        if rows
    ]
    answer = operation["responses"].get("200", {}).get("content", {}).get("application/json", {}).get("schema", {})
    return "\n\n".join([*parts, *_answer("It answers with", answer, schemas)])


def _answer(head: str, schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    """A table for an answer, and one for each object in it."""
    for shape in _shapes(schema, schemas):
        told = shape["properties"].items()
        rows = [(code(name), _kind(one, schemas), one.get("description", "")) for name, one in told]
        yield f"{head}:\n\n{table(('field', 'type', 'what it says'), rows)}"
        for name, one in told:
            each = one.get("items") or one.get("additionalProperties") or one
            yield from _answer(f"{'Each of' if each is not one else 'In'} `{name}`", each, schemas)


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
            "yes" if name in required else "",
            _default({"default": defaults[name]} if name in defaults else schema),
        )
        for name, schema in shape["properties"].items()
    ]


def _kind(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """The type and bounds of a value, in a few words."""
    if "$ref" in schema:
        return _kind(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_kind(one, schemas) for one in schema[several]))
    if "enum" in schema:
        return " or ".join(f'"{value}"' if isinstance(value, str) else str(value).lower() for value in schema["enum"])
    if "const" in schema:
        return f'"{schema["const"]}"'
    if "properties" in schema:
        return "{" + ", ".join(schema["properties"]) + "}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_kind(schema['additionalProperties'], schemas)}"
    kind = schema.get("type", "any")
    kinds = list(kind) if isinstance(kind, list) else [kind]
    if "array" in kinds:
        kinds[kinds.index("array")] = f"list of {_kind(schema.get('items', {}), schemas)}"
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
    return "null" if value is None else code(str(value).lower() if isinstance(value, bool) else str(value)) or '""'
