"""Probes: whether the process answers, and whether it can serve. And the metrics."""

from __future__ import annotations

from fastapi import Request, Response

from controller.http.callers import Over, permit
from controller.http.dependencies import Served
from controller.http.metrics_text import CONTENT_TYPE, MetricsText
from controller.http.shapes import shaped_router
from strandline.access import Role
from strandline.wire.operations import ClockReply, Health, ReadyReply

router = shaped_router("operations")


@router.get("/healthz", summary="Whether the process answers")
async def health() -> Health:
    return Health()


@router.get("/readyz", summary="Whether the store is reachable and its schema current; how the clock is")
async def ready(controller: Served) -> ReadyReply:
    await controller.check_ready()
    clock = controller.clock
    return ReadyReply(clock=ClockReply(state=clock.state, host_ahead_ms=clock.host_ahead_ms))


@router.get(
    "/metrics",
    summary="The metrics, for Prometheus",
    dependencies=permit(Role.READER, Over.EVERY),
    response_description="Prometheus' text format",
    responses={200: {"content": {CONTENT_TYPE: {"schema": {"type": "string"}}}}},
    response_class=Response,
)
async def metrics(request: Request) -> Response:
    exposition: MetricsText = request.app.state.exposition
    return Response(await exposition.text(), headers={"Content-Type": CONTENT_TYPE})
