"""The controllers that serve the store."""

from __future__ import annotations

from controller.http.callers import Over, permit
from controller.http.dependencies import Served
from controller.http.shapes import shaped_router
from strandline.access import Role
from strandline.wire.controllers import ControllersReply

router = shaped_router("controllers")


@router.get(
    "/v1/controllers", summary="List the controllers that serve the store", dependencies=permit(Role.READER, Over.EVERY)
)
async def list_controllers(controller: Served) -> ControllersReply:
    return await controller.controllers()
