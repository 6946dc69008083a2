"""The HTTP API: each call with what it takes, and real calls. Types, bounds and shapes are in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from controller.app import create_app
from controller.settings import Settings
from tools.reference.examples import examples
from tools.reference.text import code, page


def http() -> str:
    """Each route with who may call it, its parameters, and examples."""
    document = create_app(Settings()).openapi()
    shown = examples()
    sections: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            call = f"{method.upper()} {path}"
            parts = _route(call, operation, document["components"]["schemas"])
            sections.setdefault(operation["tags"][0], []).extend([*parts, *shown.get(call, ())])
    introduction = (
        "Requests and answers are JSON. Every answer has the controller's clock in the header `Strandline-Time`; "
        "times are whole milliseconds, a position is an offset by segment. On PostgreSQL, answers about marks and "
        "windows have `Strandline-Version`: who sends the newest one back as `Strandline-Seen` is shown nothing older "
        "of that stream, by any controller; our clients do. Unknown fields are refused. An error is "
        "answered as a problem, see [errors.md](errors.md). Types, bounds and the shapes of answers are in "
        "[openapi.json](openapi.json), "
        "which the controller serves at `/openapi.json`, and as a page at `/docs`; defaults of settings are in "
        "[options.md](options.md), what callers may take at most in [limits.py](../../controller/limits.py). "
        "Clients can be made from it: with openapi-python-client 0.29, and for Go "
        "with OpenAPI Generator 7.14 and its `enumClassPrefix=true`, it was tried. "
        "The examples are real; only their clock is made up. Roles apply "
        "once there are [tokens](../how-to/tokens-and-tls.md). "
        "A newer controller may add fields, and words where a field has one of several: ignore those that you do not "
        "know. Nothing else of this contract changes before its version 2."
    )
    return page(
        "The HTTP API",
        introduction,
        [f"## {name.capitalize()}\n\n" + "\n\n".join(parts) for name, parts in sections.items()],
    )


def _route(call: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{call}`"
    yield f"{operation['summary']}. {operation.get('description') or 'Open to everybody.'}"
    asked = {
        each["name"]: each.get("required", False) for each in operation.get("parameters", ()) if each["in"] == "query"
    }
    if asked:
        yield _taken("In the query", list(asked), [name for name, required in asked.items() if required])
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for number, shape in enumerate(_shapes(body, schemas)):
        yield _taken("Or in the body" if number else "In the body", shape["properties"], shape.get("required", ()))


def _taken(where: str, names: Sequence[str], required: Sequence[str]) -> str:
    needed = ", ".join(map(code, required))
    free = ", ".join(code(name) for name in names if name not in required)
    return f"{where}: {needed}{'; ' if needed and free else ''}{free and f'if you like {free}'}."


def _shapes(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The objects that a body may consist of."""
    if "$ref" in schema:
        yield from _shapes(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    for one in schema.get("oneOf") or schema.get("anyOf") or ():
        yield from _shapes(one, schemas)
    if "properties" in schema:
        yield schema
