"""The metrics in Prometheus' text format: of streams and groups, of this controller, and of its process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest

from controller.lifecycle import Controller
from controller.operators import metric_families as metric
from controller.operators.metrics import METRICS_STORE_WAIT_MS, Samples
from controller.storage.diagnosis import Cause
from strandline.errors import StoreUnavailable

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4


class MetricsText:
    """Writes the metrics of one controller and of its process."""

    def __init__(self, controller: Controller) -> None:
        self._controller = controller
        self._process = CollectorRegistry()
        for usual in (ProcessCollector, PlatformCollector, GCCollector):
            usual(registry=self._process)

    async def text(self) -> bytes:
        """The text of one scrape."""
        taken, lasted = await asyncio.gather(self._controller.measures.take(), self._controllers())
        samples = Samples(taken)
        self._take_controller(samples)
        for labels, lasted_ms in lasted.items():
            samples.add_ms(metric.CONTROLLERS, lasted_ms, *labels)
        parts = [await asyncio.to_thread(generate_latest, each) for each in (self._process, samples)]
        return b"".join(parts)

    async def _controllers(self) -> Mapping[tuple[str, str], int]:
        """For how long each controller of the store is in its state; nothing if the store does not answer in time, or
        takes no commits of this one: then it may take none of the others either."""
        if not self._controller.health.up:
            return {}
        with suppress(TimeoutError, StoreUnavailable):
            async with asyncio.timeout(METRICS_STORE_WAIT_MS / 1000):
                found = await self._controller.controllers()
            return {
                (each.name, each.state): max(0, found.at - (each.seen_at if each.state == "away" else each.since))
                for each in found.controllers
                if each.state != "ended"
            }
        return {}

    def _take_controller(self, samples: Samples) -> None:
        controller, health = self._controller, self._controller.health
        samples.distribute(metric.FLUSH_SECONDS, health.flush_seconds)
        samples.distribute(metric.FLUSH_CALLS, health.flush_calls)
        samples.add(metric.QUEUE, controller.measures.waiting_calls)
        samples.add(metric.QUEUE_LIMIT, controller.measures.waiting_calls_limit)
        samples.add(metric.STORE_UP, health.up)
        samples.add(metric.STORE_AGE, health.write_age_s)
        samples.add(metric.STORE_DAMAGED, health.damage is not None)
        for operation in ("commit", "read", "write"):
            for cause in Cause:
                samples.add(metric.STORE_ERRORS, health.errors[operation, cause], operation, cause)
        samples.add(metric.WAITING_READERS, controller.reading.waiting)
        samples.add_ms(metric.HOST_AHEAD, controller.clock.host_ahead_ms)
        samples.add_ms(metric.UNSERVED, controller.clock.unserved_ms)
        samples.add(metric.EVENT_CONNECTIONS, controller.following.readers)
        samples.add(metric.EVENT_LIMIT, controller.following.limit)
        for status, count in sorted(controller.counts.responses.items()):
            samples.add(metric.RESPONSES, count, str(status))
        for code, count in sorted(controller.counts.problems.items()):
            samples.add(metric.PROBLEMS, count, code)
        samples.add(metric.BUILD, 1, controller.version)
