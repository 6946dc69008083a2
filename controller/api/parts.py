"""What handlers share: the controller, bodies by their kind, and the parameters that come back in many calls."""

from __future__ import annotations

from typing import Annotated, TypeAlias, TypeVar

import msgspec
from fastapi import Depends, Query, Request

from controller.api.bodies import Strict
from controller.api.misfits import misfit
from controller.api.receiving import check_json, decode, read_body
from controller.services.controller import Controller
from strandline.errors import BadJson, InvalidConfig, InvalidNote
from strandline.limits import PAGE_DEFAULT_ENTRIES, PAGE_ENTRIES

Body = TypeVar("Body", bound=Strict)


def get_controller(request: Request) -> Controller:
    controller: Controller = request.app.state.controller
    return controller


Served: TypeAlias = Annotated[Controller, Depends(get_controller)]
Key: TypeAlias = Annotated[str, Query(description='a time key; "" is the default one')]
Epoch: TypeAlias = Annotated[int | None, Query(ge=1, description="that of the writer's registration")]
Limit: TypeAlias = Annotated[int, Query(ge=1, le=PAGE_ENTRIES)]
After: TypeAlias = Annotated[str, Query(description="the name after which to go on")]
DEFAULT_LIMIT = PAGE_DEFAULT_ENTRIES


async def read_as(
    request: Request,
    kind: type[Body],
    wrong: type[InvalidNote] | type[InvalidConfig] | type[BadJson] = BadJson,
    *,
    empty: Body | None = None,
) -> Body:
    """The request's body; `empty` stands for one that was left out. JSON of another shape is a `wrong`."""
    body = await read_body(request.scope, request.receive)
    if not body and empty is not None:
        return empty
    try:
        value = decode(msgspec.json.Decoder(kind), body)
    except msgspec.ValidationError as error:
        raise misfit(wrong, error, body) from None
    check_json(body)
    return value
