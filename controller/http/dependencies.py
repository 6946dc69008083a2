"""What handlers share: the controller, bodies by their kind, and the parameters of many calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, TypeAlias, TypeVar

import msgspec
from fastapi import Depends, Query, Request
from pydantic import AfterValidator
from starlette.types import Scope

from controller.controller import Controller
from controller.http.auth import get_grant
from controller.http.bodies import Strict
from controller.http.body_errors import body_error
from controller.http.request_bodies import SMALL_BODY_BYTES, BodiesRead, check_json, decode, read_body
from strandline.access import Grant
from strandline.errors import BadJson, InvalidConfig, InvalidNote, InvalidParameter
from strandline.limits import PAGE_DEFAULT_ENTRIES, PAGE_ENTRIES, TIME_BOUND_MS
from strandline.names import NAME, is_name
from strandline.wire.shapes import decoder_of

Body = TypeVar("Body", bound=Strict)


async def get_controller(request: Request) -> Controller:
    controller: Controller = request.app.state.controller
    return controller


def caller_of(scope: Scope) -> str | None:
    """The name of the caller's token, which the check of tokens leaves in the scope. None without tokens."""
    caller: str | None = scope.get("strandline.caller")
    return caller


async def get_caller(request: Request) -> str | None:
    return caller_of(request.scope)


def _check_after(after: str) -> str:
    """Checks the name after which a page begins, so that the store is asked only about valid names."""
    if after and not is_name(after):
        raise InvalidParameter(name="after", value=after, wanted="a name, such as the `next` of the page before")
    return after


Caller: TypeAlias = Annotated[str | None, Depends(get_caller)]
Granted: TypeAlias = Annotated[Grant | None, Depends(get_grant)]
Served: TypeAlias = Annotated[Controller, Depends(get_controller)]
Key: TypeAlias = Annotated[str, Query(description='a time key; "" is the default one')]
Epoch: TypeAlias = Annotated[int | None, Query(ge=1, description="the epoch of the writer's registration")]
Seq: TypeAlias = Annotated[int, Query(ge=0, lt=TIME_BOUND_MS, description="the page begins after this seq")]
Limit: TypeAlias = Annotated[int, Query(ge=1, le=PAGE_ENTRIES)]
After: TypeAlias = Annotated[
    str,
    AfterValidator(_check_after),
    Query(description="the page begins after this name", json_schema_extra={"pattern": f"^({NAME.pattern})?$"}),
]
Wrong: TypeAlias = type[InvalidNote] | type[InvalidConfig] | type[BadJson]  # what a body of another shape raises
THERE_ALREADY = {200: "It was there already"}
DEFAULT_LIMIT = PAGE_DEFAULT_ENTRIES


async def names_page(
    read: Callable[[str, int], Awaitable[Mapping[str, Iterable[str]]]], after: str, limit: int, grant: Grant | None
) -> tuple[list[str], str | None]:
    """A page of the names that follow `after`, and the name after which the next page begins. It has only names all of
    whose streams are allowed.

    `read` returns so many names in order, each with its streams.
    """
    found: list[str] = []
    count = limit + 1 if grant is None or grant.allows_every_stream else PAGE_ENTRIES
    while True:
        names = await read(after, count)
        found += [name for name, streams in names.items() if grant is None or all(map(grant.allows, streams))]
        if len(found) > limit:
            return found[:limit], found[limit - 1]
        if len(names) < count:
            return found, None
        after = list(names)[-1]


async def read_as(
    request: Request,
    kind: type[Body],
    wrong: Wrong = BadJson,
    *,
    empty: Body | None = None,
) -> Body:
    """The request's body; `empty` is used if there is none. JSON of another shape raises `wrong`."""
    body = await read_body(request.scope, request.receive, as_json=True)
    return empty if not body and empty is not None else await body_as(request, kind, body, wrong)


async def body_as(
    request: Request,
    kind: type[Body],
    body: bytes,
    wrong: Wrong = BadJson,
) -> Body:
    """The value of a body that was read. JSON of another shape raises `wrong`."""

    def value_of(body: bytes) -> Body:
        try:
            value = decode(decoder_of(kind), body)
        except msgspec.ValidationError as error:
            raise body_error(wrong, error, body) from None
        check_json(body)
        return value

    if len(body) <= SMALL_BODY_BYTES:
        return value_of(body)
    bodies: BodiesRead = request.app.state.bodies
    return await bodies.read_closely(value_of, body)
