"""Whether the controller lives, and whether it can serve."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from controller.http.dependencies import Served
from controller.http.metrics_text import CONTENT_TYPE, MetricsText
from controller.http.responses import answer

router = APIRouter(tags=["operations"])

METRICS: dict[int | str, dict[str, Any]] = {
    200: {"description": "Prometheus' text format", "content": {CONTENT_TYPE: {}}},
}


@router.get("/healthz", summary="Whether the process answers")
async def health() -> Response:
    return answer({"status": "ok"})


@router.get("/readyz", summary="Whether the store is reachable and its schema current; how the clock is")
async def ready(controller: Served) -> Response:
    await controller.check_ready()
    clock = controller.clock
    shown = {"state": clock.state, "host_ahead_ms": clock.host_ahead_ms}
    return answer({"status": "ready", "clock": shown})


@router.get("/metrics", summary="What there is to measure, for Prometheus", responses=METRICS)
async def metrics(request: Request) -> Response:
    exposition: MetricsText = request.app.state.exposition
    return Response(await exposition.text(), headers={"Content-Type": CONTENT_TYPE})
