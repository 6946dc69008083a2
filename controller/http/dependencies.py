"""What handlers share: the controller, and the parameters of many calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec
from fastapi import Depends, Header, Query, Request
from pydantic import AfterValidator, WithJsonSchema

from controller.http.callers import controller_of
from controller.http.versions import SEEN, SEEN_HEADER
from controller.lifecycle import Controller
from strandline.access import Grant
from strandline.errors import InvalidParameter
from strandline.limits import PAGE_DEFAULT_ENTRIES, PAGE_ENTRIES, TIME_BOUND_MS
from strandline.names import is_name
from strandline.wire import shapes


async def get_controller(request: Request) -> Controller:
    return controller_of(request)


def _check_after(after: str) -> str:
    """Checks the name after which a page begins, so that the store is asked only about valid names."""
    if after and not is_name(after):
        raise InvalidParameter(name="after", value=after, wanted="a name, such as the `next` of the page before")
    return after


QueryName: TypeAlias = Annotated[str, WithJsonSchema(msgspec.json.schema(shapes.Name))]  # for OpenAPI: calls check it
Served: TypeAlias = Annotated[Controller, Depends(get_controller)]
Key: TypeAlias = Annotated[
    str, WithJsonSchema(msgspec.json.schema(shapes.Key)), Query(description='a time key; "" is the default one')
]
Epoch: TypeAlias = Annotated[int | None, Query(ge=1, description="the epoch of the writer's registration")]
Seq: TypeAlias = Annotated[int, Query(ge=0, lt=TIME_BOUND_MS, description="the page begins after this seq")]
Limit: TypeAlias = Annotated[int, Query(ge=1, le=PAGE_ENTRIES)]
After: TypeAlias = Annotated[
    str,
    AfterValidator(_check_after),
    WithJsonSchema(msgspec.json.schema(shapes.Key)),
    Query(description="the page begins after this name"),
]
Seen: TypeAlias = Annotated[
    Annotated[str, WithJsonSchema(SEEN_HEADER["schema"])] | None,
    Header(alias=SEEN, description=SEEN_HEADER["description"]),
]
THERE_ALREADY: Final[dict[int | str, dict[str, Any]]] = {200: {"description": "It was there already"}}
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
