"""What /openapi.json says beyond what FastAPI finds out by itself: bodies, problems, and the hot path."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from controller.http import bodies
from controller.http.auth import RULES, RuleScope
from strandline.limits import KEYS_PER_STREAM, NAME_CHARACTERS, NOTES_PER_REQUEST, SEGMENTS_PER_STREAM, TIME_BOUND_MS
from strandline.wire.problems import MEDIA_TYPE
from strandline.wire.status import StatusPage

JsonSchema = dict[str, Any]

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
    """A note, with one time or with times by key; `stream`: it names its stream."""
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
    described = "judged in their order; sent again because the answer was lost, those that are stored are done"
    items = {"type": "array", "maxItems": NOTES_PER_REQUEST, "items": _ref(each), "description": described}
    return {"type": "object", "properties": {"notes": items}, "required": ["notes"], "additionalProperties": False}


def _ref(name: str) -> JsonSchema:
    return {"$ref": f"#/components/schemas/{name}"}


_PROBLEM: Final[JsonSchema] = {
    "type": "object",
    "description": "RFC 9457; beside these there are the fields of the error",
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
    "description": "asked for once a token was made; see `strandline token --help`",
}
_OVER: Final = {
    RuleScope.STREAM: ", and a pattern that fits the stream's name",
    RuleScope.GROUP: ", and a pattern that fits the names of all the group's streams",
    RuleScope.EACH: ", and a pattern: of streams that it does not fit nothing is taken or shown",
    RuleScope.EVERY: ", and a pattern that fits every name",
}
_SCHEMAS: Final[dict[str, JsonSchema]] = {
    "Problem": _PROBLEM,
    "Note": _note(stream=False),
    "Notes": _notes("Note"),
    "StreamNote": _note(stream=True),
    "StreamNotes": _notes("StreamNote"),
}
_BODIES: Final = [
    kind
    for kind in vars(bodies).values()
    if isinstance(kind, type)
    and issubclass(kind, bodies.Strict)
    and kind not in (bodies.Strict, bodies.NoteBody, bodies.RawNotesBody)
]


def takes(kind: type[bodies.Strict], *, required: bool = True) -> JsonSchema:
    """What a route says of the body that it reads by itself."""
    content = {"application/json": {"schema": _ref(kind.__name__)}}
    return {"requestBody": {"required": required, "content": content}}


def answers(kind: type[msgspec.Struct]) -> dict[int | str, JsonSchema]:
    """What a route says of its answer."""
    content = {"application/json": {"schema": _ref(kind.__name__)}}
    return {200: {"description": (kind.__doc__ or "").strip(), "content": content}}


def _hot(summary: str, schema: JsonSchema, parameters: list[JsonSchema]) -> JsonSchema:
    return {
        "post": {
            "tags": ["notes"],
            "summary": summary,
            "operationId": summary.lower().replace(" ", "_"),
            "parameters": parameters,
            "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
            "responses": {"200": {"description": "An answer, or one result for each of many"}},
        }
    }


def describe(app: FastAPI) -> JsonSchema:
    """The OpenAPI document."""
    document = get_openapi(title=app.title, version=app.version, summary=app.summary, routes=app.routes)
    stream = {"name": "stream", "in": "path", "required": True, "schema": _NAME}
    one_or_many = {"oneOf": [_ref("Note"), _ref("Notes")]}
    document["paths"]["/v1/streams/{stream}/notes"] = _hot("Note a time", one_or_many, [stream])
    document["paths"]["/v1/notes"] = _hot("Note times in several streams", _ref("StreamNotes"), [])
    described = [*_BODIES, StatusPage]
    _, found = msgspec.json.schema_components(described, ref_template="#/components/schemas/{name}")
    document["components"] = {"schemas": {**found, **_SCHEMAS}, "securitySchemes": {"token": _TOKEN}}
    problem = {"description": "A problem", "content": {MEDIA_TYPE: {"schema": _ref("Problem")}}}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            rule = RULES.get(f"{method.upper()} {path}")
            operation["security"] = [] if rule is None else [{"token": []}]
            if rule is not None:
                operation["description"] = f"Takes a token with the role `{rule.role}`{_OVER[rule.over]}."
            operation["responses"].pop("422", None)  # as FastAPI would tell it
            operation["responses"]["default"] = problem
            for parameter in operation.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["schema"] = _NAME
    return document
