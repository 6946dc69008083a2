"""Who calls, and what its token allows: the role, the streams and the writers.

Each route of the API has a `Permission` among its dependencies, which is the check of the caller. A test goes through
all routes.

    Over.STREAM   the stream in the path has to fit the token's pattern
    Over.GROUP    all streams of the group in the path have to fit it
    Over.EACH     the handler checks each stream of the body, or shows only those that fit
    Over.EVERY    the pattern has to fit every name
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Annotated, Final, TypeAlias

from fastapi import Depends, Request, params

from controller.lifecycle import Controller
from controller.tokens import NONE_SHOWN, NOT_KNOWN
from strandline.access import EVERYTHING, Grant, Role
from strandline.errors import Forbidden, InvalidName, Unauthenticated, UnknownGroup

COOKIE: Final = "strandline_token"  # of visitors of the dashboard; scripts cannot read it
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class Caller:
    """Who makes a call. `grant` is what its token allows, None if the store has no tokens."""

    call: str  # its method and path
    grant: Grant | None = None

    @property
    def name(self) -> str | None:
        return None if self.grant is None else self.grant.name

    def may_see(self, stream: str) -> bool:
        return self.grant is None or self.grant.allows(stream)

    def check_role(self, role: Role) -> None:
        """Raises Forbidden unless the caller has the role."""
        if self.grant is not None and not self.grant.role.covers(role):
            raise self.refused(self.grant, role)

    def check_streams(self, role: Role, streams: Iterable[str]) -> None:
        """Raises Forbidden unless the caller's pattern allows all these streams."""
        if self.grant is not None:
            for stream in streams:
                if not self.grant.allows(stream):
                    raise self.refused(self.grant, role, stream)

    def check_writer(self, stream: str, writer: str) -> None:
        """Raises Forbidden unless the caller's token speaks for a writer of the stream."""
        if self.grant is not None and not self.grant.speaks_for(writer):
            raise self.not_speaking_for(self.grant, stream, writer)

    def refused(self, grant: Grant, needs: Role, stream: str | None = None) -> Forbidden:
        """The refusal of a call; `stream` is one that the pattern would have to allow."""
        return Forbidden(role=grant.role, call=self.call, pattern=grant.pattern, needs=needs, stream=stream)

    def not_speaking_for(self, grant: Grant, stream: str, writer: str) -> Forbidden:
        """The refusal of a call for a writer that the caller's token is not bound to."""
        return Forbidden(
            role=grant.role, call=self.call, needs=Role.WRITER, stream=stream, writer=writer, writers=grant.writers
        )


ANYBODY: Final = Caller("")  # of a store without tokens


class Over(Enum):
    """Which streams a call is about."""

    STREAM = auto()
    GROUP = auto()
    EACH = auto()
    EVERY = auto()


@dataclass(frozen=True, slots=True)
class Permission:
    """What a call takes. `check` is the dependency of its route."""

    role: Role
    over: Over = Over.STREAM

    async def check(self, request: Request) -> None:
        """Lets the caller in, whom `caller_of` returns from then on. Raises Unauthenticated or Forbidden."""
        controller, state = controller_of(request), request.scope["state"]
        if not controller.tokens.required:
            state["caller"] = ANYBODY
            return
        grant = controller.tokens.check(shown_token(request))
        caller = state["caller"] = Caller(f"{request.method} {request.scope['path']}", grant)
        caller.check_role(self.role)
        names = request.path_params
        if self.over is Over.STREAM:
            caller.check_streams(self.role, [names["stream"]])
            if self.role is Role.WRITER and "writer" in names:
                caller.check_writer(names["stream"], names["writer"])
        elif self.over is Over.GROUP:
            await check_group(caller, controller, names["group"])
        elif self.over is Over.EVERY and not grant.allows_every_stream:
            raise caller.refused(grant, self.role, EVERYTHING)


def permit(role: Role, over: Over = Over.STREAM) -> list[params.Depends]:
    """The dependencies of a route that takes a role."""
    return [Depends(Permission(role, over).check)]


def shown_token(request: Request) -> bytes:
    """The token of a request; raises Unauthenticated if it has none."""
    shown = request.headers.get("authorization")
    if shown is None:
        return _token_of_page(request)
    kind, _, token = shown.partition(" ")
    if kind.lower() != "bearer":
        raise Unauthenticated(reason=NONE_SHOWN)
    return token.strip().encode("latin-1")


def _token_of_page(request: Request) -> bytes:
    """The token in the cookie of a call that one of our pages makes.

    A call that changes something has its page's origin in Origin, and `BrowserGate` has refused those of others.
    Calls that change nothing need the header: no page of ours makes one.
    """
    token = request.cookies.get(COOKIE)
    if token and request.method not in _SAFE and "origin" in request.headers:
        return token.encode("latin-1")
    raise Unauthenticated(reason=NONE_SHOWN)


async def check_still_allowed(request: Request) -> None:
    """Raises Unauthenticated or Forbidden if the caller was let in before its body came, and would not be now. A group
    of the same name may have other streams by then."""
    caller, controller = caller_of(request), controller_of(request)
    if not controller.tokens.still_allows(caller.grant):
        raise Unauthenticated(reason=NOT_KNOWN)
    if "group" in request.path_params:
        await check_group(caller, controller, request.path_params["group"])


async def check_group(caller: Caller, controller: Controller, group: str) -> None:
    """Raises Forbidden unless all streams of the group are allowed. The handler refuses an unknown group."""
    if caller.grant is None or caller.grant.allows_every_stream:
        return
    try:
        found = await controller.groups.get(group)
    except (UnknownGroup, InvalidName):
        return
    caller.check_streams(Role.READER, found.membership.settings.streams)


def controller_of(request: Request) -> Controller:
    """The controller that takes a request."""
    controller: Controller = request.scope["state"]["controller"]
    return controller


def caller_of(request: Request) -> Caller:
    """Who was let in by the permission of the request's route."""
    caller: Caller = request.scope["state"]["caller"]
    return caller


async def get_caller(request: Request) -> Caller:
    return caller_of(request)


async def get_name(request: Request) -> str | None:
    """The name of the caller's token, for journals."""
    return caller_of(request).name


Calling: TypeAlias = Annotated[Caller, Depends(get_caller)]
CallerName: TypeAlias = Annotated[str | None, Depends(get_name)]
