"""A controller that has something to show for every metric."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.operations.scraping import STREAM, Scrape, scrape
from tests.served import NOON, InProcess, ManualClock


@pytest.fixture
def controller(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    with InProcess(tmp_path_factory.mktemp("store") / "store.db", ManualClock()) as started:
        yield started


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scrape]:
    """A scrape of a controller under a small load: two writers, one of which stalls, a reader, and a refusal."""
    with InProcess(tmp_path_factory.mktemp("store") / "store.db", ManualClock()) as controller:
        controller.call("PUT", "/v1/streams/orders", {**STREAM, "writer_timeout_ms": 60_000})
        controller.call("PUT", "/v1/reader-groups/readers", {"streams": ["orders"], "backlog_threshold_ms": 1_000})
        for writer in ("fast", "slow"):
            controller.call("PUT", f"/v1/streams/orders/writers/{writer}")
            controller.note(writer, NOON - 1_000, {"0": 5}, "orders")
        positions = {"positions": {"orders": {"0": 5}}}
        controller.call("PUT", "/v1/reader-groups/readers/readers/r", positions)
        controller.note("fast", NOON + 30_000, {"0": 9}, "orders")
        controller.call("POST", "/v1/streams/orders/notes", {"writer": "fast", "time": 1, "position": {}}, expect=409)
        controller.call("PUT", "/v1/streams/forecasts", STREAM)
        controller.note("far", NOON + 3_600_000, {}, "forecasts")
        controller.pass_time(20_000)
        yield scrape(controller)
