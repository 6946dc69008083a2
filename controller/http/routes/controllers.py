"""The controllers that serve the store."""

from __future__ import annotations

from fastapi import Response

from controller.http.declared import Routes, RuleScope
from controller.http.dependencies import Served
from controller.http.responses import answer
from strandline.access import Role
from strandline.wire.controllers import ControllersReply

router = Routes("controllers")


@router.declare(
    "GET /v1/controllers",
    "List the controllers that serve the store",
    Role.READER,
    RuleScope.EVERY,
    gives=[ControllersReply],
)
async def list_controllers(controller: Served) -> Response:
    return answer(await controller.controllers())
