"""The controllers that serve the store."""

from __future__ import annotations

from fastapi import Request, Response

from controller.http.bodies import DrainBody
from controller.http.declared import Routes, RuleScope
from controller.http.dependencies import Caller, Served, read_as
from controller.http.drain import drain
from controller.http.forwarding.forwarding import was_passed_on
from controller.http.responses import answer
from strandline.access import Role
from strandline.wire.controllers import ControllersReply, DrainReply

router = Routes("controllers")


@router.declare(
    "GET /v1/controllers",
    "List the controllers that serve the store",
    Role.READER,
    RuleScope.EVERY,
    gives=[ControllersReply],
)
async def list_controllers(controller: Served) -> Response:
    return answer(controller.controllers())


@router.declare(
    "POST /v1/controllers/{controller}/drain",
    "Have a controller hand everything over to the others, and end",
    Role.ADMIN,
    RuleScope.EVERY,
    takes=[DrainBody],
    needs_body=False,
    gives=[DrainReply],
    status=202,
    says="It has begun, or had begun before",
)
async def drain_controller(controller: str, request: Request, served: Served, caller: Caller) -> Response:
    body = await read_as(request, DrainBody, empty=DrainBody())
    await drain(
        served,
        request.app.state.forwarding,
        controller,
        request.headers.get("authorization", "").encode("latin-1") or None,
        caller,
        force=body.force,
        passed_on=was_passed_on(request.scope),
    )
    return answer(DrainReply(controller=controller), 202)
