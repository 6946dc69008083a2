"""Whether the controller lives, and whether it can serve."""

from __future__ import annotations

from fastapi import APIRouter, Response

from controller.api.parts import Served
from controller.api.shapes import answer

router = APIRouter(tags=["operations"])


@router.get("/healthz", summary="Whether the process answers")
async def health() -> Response:
    return answer({"status": "ok"})


@router.get("/readyz", summary="Whether the store is reachable and its schema current")
async def ready(controller: Served) -> Response:
    await controller.check_ready()
    return answer({"status": "ready"})
