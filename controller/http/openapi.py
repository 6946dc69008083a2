"""What /openapi.json has beyond FastAPI's own part: bodies, answers, and problems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import is_dataclass
from typing import Any, Final, get_args, get_type_hints

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts
from msgspec import NODEFAULT, UNSET

from controller.http import bodies
from controller.http.shapes import JsonSchema, ShapedRoute
from strandline.limits import KEYS_PER_STREAM, NOTES_PER_REQUEST
from strandline.wire.shapes import Epoch, Key, Name, Offsets, Time

CONTRACT_VERSION: Final = "1.0.0"  # of the HTTP API; see docs/decisions/0108 for when it is raised

_TEMPLATE: Final = "#/components/schemas/{name}"

_NAME: Final = msgspec.json.schema(Name)
_TIME: Final = msgspec.json.schema(Time)
_TIMES: Final = {**msgspec.json.schema(dict[Key, Time]), "maxProperties": KEYS_PER_STREAM}
_EPOCH: Final = {**msgspec.json.schema(Epoch), "type": ["integer", "null"]}


def _notes(name: str, *, stream: bool) -> dict[str, JsonSchema]:
    """The schemas of a note, with one time or with times by key, and of many notes. Each has a name, by which generated
    clients call it. With `stream`, a note names its stream."""
    common: JsonSchema = {"writer": _NAME, "position": _ref("Position"), "epoch": _EPOCH}
    named = ["stream"] if stream else []
    if stream:
        common["stream"] = _NAME
    kinds = {
        f"{name}With{time.title()}": {
            "type": "object",
            "properties": {**common, time: kind, "newest": {**kind, "type": [kind["type"], "null"]}},
            "required": ["writer", time, "position", *named],
            "additionalProperties": False,
        }
        for time, kind in (("time", _TIME), ("times", _TIMES))
    }
    described = "checked in their order; in a request that is repeated after a lost answer, stored notes count as done"
    items = {"type": "array", "maxItems": NOTES_PER_REQUEST, "items": _ref(name), "description": described}
    many = {"type": "object", "properties": {"notes": items}, "required": ["notes"], "additionalProperties": False}
    return {name: {"oneOf": [_ref(kind) for kind in kinds]}, **kinds, f"{name}s": many}


def _ref(name: str) -> JsonSchema:
    return {"$ref": f"#/components/schemas/{name}"}


_PROBLEM: Final[JsonSchema] = {
    "type": "object",
    "description": "RFC 9457; the error's own fields come in addition",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "code": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "code"],
}
_TOKEN: Final[JsonSchema] = {
    "type": "http",
    "scheme": "bearer",
    "description": "required once the store has a token; see `strandline token --help`",
}
_SCHEMAS: Final[dict[str, JsonSchema]] = {
    "Problem": _PROBLEM,
    "Position": msgspec.json.schema(Offsets),
    **_notes("Note", stream=False),
    **_notes("StreamNote", stream=True),
}
# The schemas that hand-written schemas refer to.
_PARTS: Final = (bodies.SegmentBody, bodies.StartBody, bodies.WindowBody)


def describe(app: FastAPI) -> JsonSchema:
    """The OpenAPI document of an application: FastAPI's, with the schemas that msgspec makes."""
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    routes = [each.original_route for each in iter_route_contexts(app.routes)]
    shaped = [each for each in routes if isinstance(each, ShapedRoute)]
    taken = [each.body.shape for each in shaped if each.body is not None]
    _, found = msgspec.json.schema_components([*taken, *_PARTS], ref_template=_TEMPLATE)
    answers = _schemas_of_answers([kind for each in shaped for kind in each.answers])
    for schema in (found | answers).values():
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
    components = document.setdefault("components", {})
    components["schemas"] = {**components.get("schemas", {}), **found, **answers, **_SCHEMAS}
    components["securitySchemes"] = {**components.get("securitySchemes", {}), "token": _TOKEN}
    for route in shaped:
        operation = document["paths"][route.path][route.method.lower()]
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                parameter["schema"] = _NAME
        operation["responses"] = dict(sorted(operation["responses"].items()))
    _name_sizes(document)
    return document


def _name_sizes(schema: Any) -> None:
    """Adds the size of each number: for one without, generated clients take 32 bits, which no time fits into."""
    if isinstance(schema, list):
        for each in schema:
            _name_sizes(each)
    elif isinstance(schema, dict):
        kinds = schema.get("type")
        for kind, size in (("integer", "int64"), ("number", "double")):
            if kind == kinds or (isinstance(kinds, list) and kind in kinds):
                schema["format"] = size
        for each in list(schema.values()):
            _name_sizes(each)


def _schemas_of_answers(kinds: Sequence[type[Any]]) -> dict[str, JsonSchema]:
    """The schemas of answers. Every field is required, except those that a shape may leave out. Defaults are omitted:
    they are what a client assumes if an older controller leaves a field out."""
    _, found = msgspec.json.schema_components(kinds, ref_template=_TEMPLATE)
    for shape in shapes_within(kinds):
        schema = found[shape.__name__]
        left_out = fields_left_out(shape)
        schema["required"] = [name for name in schema["properties"] if name not in left_out]
        for field in schema["properties"].values():
            field.pop("default", None)
    return found


def shapes_within(kinds: Iterable[Any]) -> set[type[Any]]:
    """The Structs and dataclasses that these types consist of."""
    found: set[type[Any]] = set()
    todo = list(kinds)
    while todo:
        kind = todo.pop()
        todo += get_args(kind)
        if isinstance(kind, type) and (issubclass(kind, msgspec.Struct) or is_dataclass(kind)) and kind not in found:
            found.add(kind)
            todo += get_type_hints(kind, include_extras=True).values()
    return found


def fields_left_out(shape: type[Any]) -> set[str]:
    """The fields that are left out if they have no value."""
    if not issubclass(shape, msgspec.Struct):
        return set()
    omits = shape.__struct_config__.omit_defaults
    return {
        field.encode_name
        for field in msgspec.structs.fields(shape)
        if field.default is UNSET or (omits and field.default is not NODEFAULT)
    }
