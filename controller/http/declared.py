"""Routes, each declared at its handler: who may call it, the shapes of its bodies and answers, and a sentence about it.

`auth.py` checks who may call; OpenAPI and docs/reference/http.md are made from the rest.

    stream   the stream in the path has to fit the token's pattern
    group    all streams of the group in the path have to fit it
    each     the handler checks each stream of the body, or shows only those that fit
    every    the pattern has to fit every name
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final, NamedTuple, TypeVar
from urllib.parse import parse_qsl

from fastapi import APIRouter, Request, Response
from fastapi.middleware.asyncexitstack import AsyncExitStackMiddleware
from fastapi.routing import APIRoute
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from controller.http.bodies import Strict
from controller.http.request_headers import sent_headers
from strandline.access import Role
from strandline.errors import InvalidParameter

Handler = TypeVar("Handler", bound=Callable[..., Any])
JSON: Final = "application/json"
SHOWN_CHARACTERS: Final = 100  # of what a call does not take, in the error


class RuleScope(Enum):
    """Which streams a call is about."""

    STREAM = auto()
    GROUP = auto()
    EACH = auto()
    EVERY = auto()


class Rule(NamedTuple):
    role: Role
    over: RuleScope


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRoute:
    """One route. `rule` is None if it is open to everybody.

    `takes` has the possible shapes of the body, by name if OpenAPI's schema is written by hand; if it is empty, there
    is no body. `gives` has the shapes of the answer with `status`, in `media_type`. `also` says what other statuses
    mean; those below 204 have the same body. The answers of a `versioned` one have the version of the stream that they
    show.
    """

    method: str
    path: str
    summary: str
    rule: Rule | None
    takes: Sequence[type[Strict] | str] = ()
    needs_body: bool = True
    gives: Sequence[type[Any]] = ()
    status: int = 200
    also: Mapping[int, str] = field(default_factory=dict)
    media_type: str = JSON
    says: str = "Done"
    versioned: bool = False

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"


class StackedRoute(APIRoute):
    """A route as FastAPI has it, with the stack that it closes after the request; FastAPI puts it around all routes,
    and hot ones need none."""

    declared: DeclaredRoute | None = None

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.declared is not None and scope["method"] == self.declared.method != "GET":
            known = [each.alias for each in self.dependant.query_params]
            check_parameters(scope, known)
            if not self.declared.takes:
                _check_no_body(scope, known)
        await AsyncExitStackMiddleware(super().handle)(scope, receive, send)


class HotRoute(APIRoute):
    """A route without parameters, whose handler takes the request alone, and gives the answer: FastAPI's search for
    parameters and for routers within routers, and its stacks for what handlers open, take longer than a note."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return Route.matches(self, scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        check_parameters(scope, ())
        response: Response = await self.endpoint(Request(scope, receive, send))
        await response(scope, receive, send)


class Routes(APIRouter):
    """A router whose routes are declared."""

    def __init__(self, tag: str, *, prefix: str = "") -> None:
        super().__init__(prefix=prefix, tags=[tag], route_class=StackedRoute)
        self.declared: list[DeclaredRoute] = []

    def declare(
        self,
        route: str,
        summary: str,
        role: Role | None,
        over: RuleScope = RuleScope.STREAM,
        *,
        hot: bool = False,
        **more: Any,
    ) -> Callable[[Handler], Handler]:
        """Declares a handler: `route` is its method and, behind the router's prefix, its path; `more` is as in
        `DeclaredRoute`. A `hot` one is a HotRoute: it finds names of the path in `path_params`."""
        method, _, path = route.partition(" ")
        rule = None if role is None else Rule(role, over)
        made = DeclaredRoute(method=method, path=self.prefix + path, summary=summary, rule=rule, **more)

        def declared(handler: Handler) -> Handler:
            self.declared.append(made)
            kind = HotRoute if hot else None
            self.add_api_route(
                path, handler, methods=[method], summary=summary, status_code=made.status, route_class_override=kind
            )
            if isinstance(route := self.routes[-1], StackedRoute):
                route.declared = made
            return handler

        return declared


def check_parameters(scope: Scope, known: Collection[str]) -> None:
    """Raises InvalidParameter for one that a call does not take, or gets twice: with a misspelt `epoch` it would fence
    nobody."""
    if not scope["query_string"]:
        return
    given = set()
    for name, value in parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True):
        if name not in known:
            wanted = f"left out: this call takes {' and '.join(known) or 'none'}"
            raise InvalidParameter(name=name, value=value[:SHOWN_CHARACTERS], wanted=wanted)
        if name in given:
            raise InvalidParameter(name=name, value=value[:SHOWN_CHARACTERS], wanted="given once")
        given.add(name)


def _check_no_body(scope: Scope, known: Collection[str]) -> None:
    """Raises InvalidParameter if a call that takes no body announces one. Nobody waits for that body: by its end, what
    was checked when the head came may no longer hold."""
    headers = sent_headers(scope)
    length, encoding = headers.get(b"content-length", b"0"), headers.get(b"transfer-encoding")
    if encoding is None and not length.strip(b"0"):
        return
    wanted = "left out: this call takes none"
    if "epoch" in known:
        wanted += ", and an epoch stands in the URL, as ?epoch=3"
    shown = encoding if encoding is not None else length + b" bytes"
    raise InvalidParameter(name="body", value=shown[:SHOWN_CHARACTERS].decode("latin-1"), wanted=wanted)
