"""Probes: whether the process answers, and whether it can serve. And the metrics."""

from __future__ import annotations

from fastapi import Request, Response

from controller.http.declared import Routes, RuleScope
from controller.http.dependencies import Served
from controller.http.metrics_text import CONTENT_TYPE, MetricsText
from controller.http.responses import answer
from strandline.access import Role
from strandline.wire.operations import ClockReply, Health, ReadyReply

router = Routes("operations")


@router.declare("GET /healthz", "Whether the process answers", None, gives=[Health])
async def health() -> Response:
    return answer(Health())


@router.declare(
    "GET /readyz", "Whether the store is reachable and its schema current; how the clock is", None, gives=[ReadyReply]
)
async def ready(controller: Served) -> Response:
    await controller.check_ready()
    clock = controller.clock
    return answer(ReadyReply(clock=ClockReply(state=clock.state, host_ahead_ms=clock.host_ahead_ms)))


@router.declare(
    "GET /metrics",
    "The metrics, for Prometheus",
    Role.READER,
    RuleScope.EVERY,
    media_type=CONTENT_TYPE,
    says="Prometheus' text format",
)
async def metrics(request: Request) -> Response:
    exposition: MetricsText = request.app.state.exposition
    return Response(await exposition.text(), headers={"Content-Type": CONTENT_TYPE})
