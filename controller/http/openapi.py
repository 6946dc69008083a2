"""What /openapi.json has beyond FastAPI's own part: bodies, answers, examples of both, and problems."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from msgspec import NODEFAULT, UNSET

from controller.http import bodies
from controller.http.declared import JSON, DeclaredRoute, RuleScope
from strandline.limits import KEYS_PER_STREAM, NAME_CHARACTERS, NOTES_PER_REQUEST, SEGMENTS_PER_STREAM, TIME_BOUND_MS
from strandline.wire.problems import MEDIA_TYPE

CONTRACT_VERSION: Final = "1.0.0"  # of the HTTP API; docs/decisions/0108 says when it is raised

JsonSchema = dict[str, Any]
_TEMPLATE: Final = "#/components/schemas/{name}"

_NAME: Final[JsonSchema] = {"type": "string", "pattern": rf"^[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_CHARACTERS - 1}}}$"}
_TIME: Final[JsonSchema] = {
    "type": "integer",
    "exclusiveMinimum": -TIME_BOUND_MS,
    "exclusiveMaximum": TIME_BOUND_MS,
    "description": "whole milliseconds",
}
_TIMES: Final[JsonSchema] = {"type": "object", "maxProperties": KEYS_PER_STREAM, "additionalProperties": _TIME}
_POSITION: Final[JsonSchema] = {
    "type": "object",
    "maxProperties": SEGMENTS_PER_STREAM,
    "additionalProperties": {"type": "integer", "minimum": 0, "exclusiveMaximum": TIME_BOUND_MS},
    "description": "by segment, the next free offset",
}
_EPOCH: Final[JsonSchema] = {"type": ["integer", "null"], "minimum": 1}


def _note(*, stream: bool) -> JsonSchema:
    """A note, with one time or with times by key; with `stream`, it names its stream."""
    common: JsonSchema = {"writer": _NAME, "position": _POSITION, "epoch": _EPOCH}
    named = ["stream"] if stream else []
    if stream:
        common["stream"] = _NAME
    return {
        "oneOf": [
            {
                "type": "object",
                "properties": {**common, each: kind, "newest": {**kind, "type": [kind["type"], "null"]}},
                "required": ["writer", each, "position", *named],
                "additionalProperties": False,
            }
            for each, kind in (("time", _TIME), ("times", _TIMES))
        ]
    }


def _notes(each: str) -> JsonSchema:
    described = "checked in their order; in a request that is repeated after a lost answer, stored notes count as done"
    items = {"type": "array", "maxItems": NOTES_PER_REQUEST, "items": _ref(each), "description": described}
    return {"type": "object", "properties": {"notes": items}, "required": ["notes"], "additionalProperties": False}


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
_VERSION: Final[JsonSchema] = {
    "Strandline-Version": {
        "schema": {"type": "string"},
        "description": "of the stream that the answer shows; only on stores that several controllers may serve",
    }
}
_SEEN: Final[JsonSchema] = {
    "name": "Strandline-Seen",
    "in": "header",
    "required": False,
    "schema": {"type": "string"},
    "description": "the newest `Strandline-Version` that the caller got: no controller shows it an older state",
}
_OVER: Final = {
    RuleScope.STREAM: ", and a pattern that fits the stream's name",
    RuleScope.GROUP: ", and a pattern that fits the names of all the group's streams",
    RuleScope.EACH: ", and a pattern; streams that it does not fit are neither accepted nor shown",
    RuleScope.EVERY: ", and a pattern that fits every name",
}
_SCHEMAS: Final[dict[str, JsonSchema]] = {
    "Problem": _PROBLEM,
    "Note": _note(stream=False),
    "Notes": _notes("Note"),
    "StreamNote": _note(stream=True),
    "StreamNotes": _notes("StreamNote"),
}
# The schemas that hand-written schemas refer to.
_PARTS: Final = (bodies.SegmentBody, bodies.StartBody)
_EXAMPLES: Final = Path(__file__).with_name("examples.json")


def describe(app: FastAPI, routes: Sequence[DeclaredRoute]) -> JsonSchema:
    """The OpenAPI document of an application and its declared routes."""
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    taken = [kind for route in routes for kind in route.takes if isinstance(kind, type)]
    _, found = msgspec.json.schema_components([*taken, *_PARTS], ref_template=_TEMPLATE)
    answers = _schemas_of_answers([kind for route in routes for kind in route.gives])
    for schema in (found | answers).values():
        if "description" in schema:
            schema["description"] = " ".join(schema["description"].split())
    document["components"] = {"schemas": {**found, **answers, **_SCHEMAS}, "securitySchemes": {"token": _TOKEN}}
    examples = examples_by_route()
    for route in routes:
        operation = document["paths"][route.path][route.method.lower()]
        _complete(operation, route, examples.get(route.name, []))
    return document


@cache
def examples_by_route() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Real calls by the route that they took, as `make reference` writes them: `name`, `body`, `status`, `answer`."""
    found: Mapping[str, Sequence[Mapping[str, Any]]] = json.loads(_EXAMPLES.read_bytes())
    return found


def _complete(operation: JsonSchema, route: DeclaredRoute, examples: Sequence[Mapping[str, Any]]) -> None:
    """Adds the declaration of its route to an operation."""
    rule = route.rule
    operation["security"] = [] if rule is None else [{"token": []}]
    if rule is not None:
        operation["description"] = f"Needs a token with the role `{rule.role}`{_OVER[rule.over]}."
    given: list[JsonSchema] = operation.get("parameters", [])
    known = {each["name"] for each in given}
    missing = [name for name in re.findall(r"{(\w+)}", route.path) if name not in known]
    if missing:  # a hot route's handler has no parameters
        operation["parameters"] = given = [
            *({"name": each, "in": "path", "required": True} for each in missing),
            *given,
        ]
    for parameter in given:
        if parameter["in"] == "path":
            parameter["schema"] = _NAME
    if route.versioned:
        operation["parameters"] = [*given, _SEEN]
    if route.takes:
        names = [kind if isinstance(kind, str) else kind.__name__ for kind in route.takes]
        asked = {each["name"]: {"value": each["body"]} for each in examples if "body" in each}
        content = {JSON: _content(names, asked)}
        operation["requestBody"] = {"required": route.needs_body, "content": content}
    responses: JsonSchema = {str(route.status): {"description": route.says}}
    responses |= {str(status): {"description": says} for status, says in route.also.items()}
    for status, response in responses.items():
        answered = {each["name"]: {"value": each["answer"]} for each in examples if str(each["status"]) == status}
        if route.gives:
            response["content"] = {JSON: _content([kind.__name__ for kind in route.gives], answered)}
        elif route.media_type != JSON and int(status) != 204:
            response["content"] = {route.media_type: {"schema": {"type": "string"}, **_examples(answered)}}
    if route.versioned:
        responses[str(route.status)]["headers"] = _VERSION
    responses["default"] = {"description": "A problem", "content": {MEDIA_TYPE: {"schema": _ref("Problem")}}}
    operation["responses"] = dict(sorted(responses.items()))


def _content(names: Sequence[str], examples: JsonSchema) -> JsonSchema:
    """The schema of a body that has one of some shapes."""
    refs = [_ref(name) for name in names]
    return {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}, **_examples(examples)}


def _examples(found: JsonSchema) -> JsonSchema:
    return {"examples": found} if found else {}


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


def shapes_within(kinds: Sequence[type[Any]]) -> set[type[Any]]:
    """The Structs and dataclasses that these types consist of."""
    found: set[type[Any]] = set()

    def visit(value: object) -> None:
        if isinstance(value, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
            if value.cls in found:
                return
            found.add(value.cls)
        if isinstance(value, msgspec.inspect.Type | msgspec.inspect.Field):
            for name in value.__struct_fields__:
                visit(getattr(value, name))
        elif isinstance(value, tuple | list):
            for each in value:
                visit(each)

    visit(msgspec.inspect.multi_type_info(kinds))
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
