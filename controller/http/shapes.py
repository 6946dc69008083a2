"""Connects FastAPI with the shapes of `strandline.wire`, which msgspec decodes and encodes.

    body: Annotated[StreamBody, sent(StreamBody, InvalidConfig)]     a body as a value of its shape
    async def get(stream: str) -> StreamReply                        the answer, encoded

A `ShapedRoute` finds both in the annotations of its handler, for the answer and for OpenAPI.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, Any, Final, Generic, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

import msgspec
from fastapi import APIRouter, Depends, Request, Response, params
from fastapi.routing import APIRoute
from starlette.routing import compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from controller.http.bodies import Strict
from controller.http.body_errors import body_error
from controller.http.browser_gate import path_within
from controller.http.callers import Over, Permission
from controller.http.request_bodies import decode, read_call
from controller.http.responses import JsonAnswer, to_json
from strandline.errors import BadJson, InvalidConfig, InvalidNote, InvalidParameter
from strandline.wire.problems import MEDIA_TYPE
from strandline.wire.shapes import decoder_of

Body = TypeVar("Body", bound=Strict)
Owner = TypeVar("Owner")
JsonSchema = dict[str, Any]

JSON: Final = "application/json"

SHOWN_CHARACTERS: Final = 100  # of what a call does not take, in the error
PROBLEM: Final[JsonSchema] = {
    "description": "A problem",
    "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}
STREAM: Final[JsonSchema] = {"name": "stream", "in": "path", "required": True}
_OVER: Final = {
    Over.STREAM: ", and a pattern that fits the stream's name",
    Over.GROUP: ", and a pattern that fits the names of all the group's streams",
    Over.EACH: ", and a pattern; streams that it does not fit are neither accepted nor shown",
    Over.EVERY: ", and a pattern that fits every name",
}


@dataclass(frozen=True, slots=True)
class JsonBody(Generic[Body]):
    """How the body of a call is read: JSON of another shape is refused as `wrong`; without a body it is `empty`."""

    shape: type[Body]
    wrong: type[InvalidNote] | type[InvalidConfig] | type[BadJson] = BadJson
    empty: Body | None = None

    async def read(self, request: Request) -> Body:
        body = await read_call(request)
        if not body and self.empty is not None:
            return self.empty
        try:
            return decode(decoder_of(self.shape).decode, body)
        except msgspec.ValidationError as error:
            raise body_error(self.wrong, error, body) from None


def sent(
    shape: type[Body],
    wrong: type[InvalidNote] | type[InvalidConfig] | type[BadJson] = BadJson,
    *,
    empty: Body | None = None,
) -> Any:
    """The dependency on a body: see `JsonBody`."""
    return Depends(JsonBody(shape, wrong, empty).read)


class ShapedRoute(APIRoute):
    """A route whose handler returns a shape, or a Response."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        status_code: int | None = None,
        responses: Mapping[int | str, JsonSchema] | None = None,
        dependencies: Sequence[params.Depends] | None = None,
        openapi_extra: JsonSchema | None = None,
        **more: Any,
    ) -> None:
        self.handler = endpoint
        dependencies = dependencies or []
        hints = get_type_hints(endpoint, include_extras=True)
        self.answers = _shapes_of(hints.pop("return", None))
        self.body = _owner(JsonBody, [each for hint in hints.values() for each in get_args(hint)])
        self.takes_body = self.body is not None or "requestBody" in (openapi_extra or {})
        self.permission = _owner(Permission, dependencies)
        more |= {"response_model": None, "description": self._says_who()}  # else a model of Pydantic, and the docstring
        (tag,) = more["tags"]
        more["operation_id"] = f"{tag}_{endpoint.__name__}".replace(" ", "_")  # as generated clients call it
        super().__init__(
            path,
            _answering(endpoint, status_code or 200) if self.answers else endpoint,
            status_code=status_code,
            responses={**(responses or {}), "default": PROBLEM},
            dependencies=[*dependencies, Depends(check_query)],
            openapi_extra={**self._described(status_code or 200, responses or {}), **(openapi_extra or {})},
            **more,
        )

    @property
    def method(self) -> str:
        return next(iter(self.methods or ()))

    @property
    def call(self) -> str:
        """Its method and path."""
        return f"{self.method} {self.path}"

    def _says_who(self) -> str:
        needed = self.permission
        return "" if needed is None else f"Needs a token with the role `{needed.role}`{_OVER[needed.over]}."

    def _described(self, status: int, also: Mapping[int | str, JsonSchema]) -> JsonSchema:
        found: JsonSchema = {"security": [] if self.permission is None else [{"token": []}]}
        if self.body is not None:
            content = content_of([self.body.shape.__name__])
            found["requestBody"] = {"required": self.body.empty is None, "content": content}
        if self.answers:
            content = content_of([each.__name__ for each in self.answers])
            statuses = [each for each in (status, *also) if str(each) < "204"]
            found["responses"] = {str(each): {"content": content} for each in statuses}
        return found


def content_of(names: Iterable[str]) -> JsonSchema:
    """The schema of JSON that has one of some shapes."""
    refs = [{"$ref": f"#/components/schemas/{name}"} for name in names]
    return {JSON: {"schema": refs[0] if len(refs) == 1 else {"anyOf": refs}}}


def taking(*bodies: str, parameters: Sequence[JsonSchema] = ()) -> JsonSchema:
    """What OpenAPI says of a call whose handler takes the request alone."""
    return {"requestBody": {"required": True, "content": content_of(bodies)}, "parameters": list(parameters)}


def shaped_router(tag: str, prefix: str = "") -> APIRouter:
    return APIRouter(prefix=prefix, tags=[tag], route_class=ShapedRoute)


def in_front(app: ASGIApp, routes: Sequence[ShapedRoute], around: Callable[[ASGIApp], ASGIApp]) -> ASGIApp:
    """Serves some routes in front of the application, each with something `around` it. Their handlers take the request
    alone."""
    alone = [(compile_path(each.path)[0], around(_Plain(each))) for each in routes]

    def routed(scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        if scope["type"] == "http" and scope["method"] == "POST":
            path = path_within(scope)
            for pattern, plain in alone:
                found = pattern.match(path)
                if found is not None:
                    scope["path_params"] = found.groupdict()
                    return plain(scope, receive, send)
        return app(scope, receive, send)

    return routed


class _Plain:
    """A route as an application of its own."""

    def __init__(self, route: ShapedRoute) -> None:
        assert route.permission is not None
        self._permission = route.permission
        self._handler: Callable[[Request], Awaitable[Response]] = route.handler

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        await self._permission.check(request)
        if scope["query_string"]:
            check_parameters(request, ())
        response = await self._handler(request)
        await response(scope, receive, send)


async def check_query(request: Request) -> None:
    """Raises InvalidParameter for a parameter, or a body, that a call which changes something does not take: with a
    misspelt `epoch` it would fence nobody."""
    if request.method == "GET":
        return
    route: ShapedRoute = request.scope["route"]
    known = [each.alias for each in route.dependant.query_params]
    check_parameters(request, known)
    if not route.takes_body:
        _check_no_body(request, known)


def check_parameters(request: Request, known: Collection[str]) -> None:
    """Raises InvalidParameter for one that a call does not take, or gets twice."""
    given = set()
    for name, value in parse_qsl(request.url.query, keep_blank_values=True):
        if name not in known:
            wanted = f"left out: this call takes {' and '.join(known) or 'none'}"
            raise InvalidParameter(name=name, value=value[:SHOWN_CHARACTERS], wanted=wanted)
        if name in given:
            raise InvalidParameter(name=name, value=value[:SHOWN_CHARACTERS], wanted="given once")
        given.add(name)


def _check_no_body(request: Request, known: Collection[str]) -> None:
    """Raises InvalidParameter if a call that takes no body announces one. Nobody waits for that body: by its end, what
    was checked when the head came may no longer hold."""
    length, encoding = request.headers.get("content-length", "0"), request.headers.get("transfer-encoding")
    if encoding is None and not length.strip("0"):
        return
    wanted = "left out: this call takes none"
    if "epoch" in known:
        wanted += ", and an epoch stands in the URL, as ?epoch=3"
    shown = encoding if encoding is not None else f"{length} bytes"
    raise InvalidParameter(name="body", value=shown[:SHOWN_CHARACTERS], wanted=wanted)


def _answering(handler: Callable[..., Any], status: int) -> Callable[..., Any]:
    """The handler with an encoded answer. What it sets of a parameter `response`, as FastAPI has it, is kept."""

    @wraps(handler)
    async def answered(**given: Any) -> Response:
        value = await handler(**given)
        if isinstance(value, Response):
            return value
        told: Response | None = given.get("response")
        answer = JsonAnswer(to_json(value), status if told is None else told.status_code or status)
        if told is not None:
            answer.raw_headers += [each for each in told.raw_headers if each[0] != b"content-length"]
        return answer

    return answered


def _shapes_of(returned: Any) -> tuple[type[msgspec.Struct], ...]:
    """The shapes that a handler returns, or, as `Annotated[Response, Shape]`, that are encoded in what it returns."""
    if get_origin(returned) is Annotated:
        _, returned = get_args(returned)
    kinds = get_args(returned) or (returned,)
    return tuple(each for each in kinds if isinstance(each, type) and issubclass(each, msgspec.Struct))


def _owner(kind: type[Owner], dependencies: Iterable[object]) -> Owner | None:
    """What of this kind one of the dependencies is a method of."""
    owners = (getattr(getattr(each, "dependency", None), "__self__", None) for each in dependencies)
    return next((each for each in owners if isinstance(each, kind)), None)
