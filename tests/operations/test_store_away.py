"""While the store is away, what is not known is not shown as known: nobody falls silent, and no state is of now."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from controller.streams.cadence import STILL_LEAST_MS
from tests.operations.scraping import read
from tests.served import OwnProcess, run_command

pytestmark = pytest.mark.full

SETTINGS = {"segments": 1, "mark_interval_ms": 0, "writer_timeout_ms": 3_600_000}

TABLES = ("service", "head", "stream")  # without which nothing is read or written


@pytest.fixture
def beside(both_stores: str) -> Callable[[str], None]:
    """Runs a statement in the store, behind the controller's back."""
    url = make_url(both_stores)
    engine = create_engine(url if url.get_backend_name() == "sqlite" else url.set(drivername="postgresql+psycopg"))

    def execute(statement: str) -> None:
        with engine.begin() as connection:
            connection.execute(text(statement))

    return execute


@pytest.fixture
def served(both_stores: str) -> Iterator[OwnProcess]:
    """A controller with a stream that moves, and one that it does not have in memory."""
    first = OwnProcess(both_stores)
    first.client.put("/v1/streams/cold", json=SETTINGS).raise_for_status()
    assert first.stop() == 0
    server = OwnProcess(both_stores)
    server.client.put("/v1/streams/warm", json=SETTINGS).raise_for_status()
    yield server
    server.kill()


def run(server: OwnProcess, *words: str) -> Any:
    done = run_command(*words, "--controller", server.url)
    assert isinstance(done, subprocess.CompletedProcess)
    return done


def note(server: OwnProcess, offset: int) -> None:
    note = {"writer": "w", "time": time.time_ns() // 1_000_000, "position": {"0": offset}}
    server.client.post("/v1/streams/warm/notes", json=note).raise_for_status()


def warm(server: OwnProcess) -> Any:
    """The controller's clock, and the status of the stream."""
    page = server.client.get("/v1/status?stream=warm").json()
    return page["at"], page["streams"][0]


def test_a_stream_stays_what_it_was_and_its_state_is_no_gauge(
    served: OwnProcess, beside: Callable[[str], None]
) -> None:
    for offset in range(1, 20):
        note(served, offset)
    assert run(served, "overview").returncode == 0  # it knows the names of all
    for each in TABLES:
        beside(f"ALTER TABLE {each} RENAME TO gone_{each}")
    at, status = warm(served)
    until = status["last_heard_at"] + STILL_LEAST_MS + 3_000  # by which it would be stalled
    while at < until:
        at, status = warm(served)
        assert status["state"] == "fine", (at, status)
    assert at - status["seen_at"] > STILL_LEAST_MS - 3_000

    found = run(served, "overview")
    header, *lines = found.stdout.splitlines()
    rows = {line.split()[0]: line for line in lines}
    assert found.returncode == 1 and "this is from before, and more may be in trouble: " in found.stderr
    assert "AS OF" in header and " s ago" in rows["warm"] and rows["cold"].endswith("not known: the store is away")
    once = run(served, "overview", "warm", "cold", "--json")
    assert once.returncode == 1
    frame = json.loads(once.stdout)
    assert frame["unread"] == {"cold": "store_unavailable"} and frame["partial"] and "from before" in frame["error"]
    metrics = read(served.client.get("/metrics").text)
    assert metrics.value("store_up") == 0 and metrics.value("stream_marks_total", stream="warm", key="") == 19
    assert metrics.of("stream_state_seconds") == metrics.of("stream_watermark_lag_seconds") == {}
    assert metrics.of("stream_writers") == metrics.of("controller_state_seconds") == {}

    for each in TABLES:
        beside(f"ALTER TABLE gone_{each} RENAME TO {each}")
    while run(served, "overview").returncode:
        pass
    note(served, 20)
    assert warm(served)[1]["state"] == "fine"
    while not read(served.client.get("/metrics").text).of("stream_state_seconds"):
        pass  # a scrape is shared for a while


@pytest.mark.parametrize("both_stores", ["postgresql"], indirect=True)
def test_a_controller_that_has_not_looked_for_long_does_not_take_that_for_silence(
    served: OwnProcess, beside: Callable[[str], None], both_stores: str
) -> None:
    #   served   w notes ─────────────────────────┤ away
    #   other      └─ has it as of here           ├─ is asked
    other = OwnProcess(both_stores)
    try:
        for offset in range(1, 20):
            note(served, offset)
        at, _ = warm(other)
        other.client.get("/v1/streams/warm").raise_for_status()
        now, offset = at, 20
        while now < at + STILL_LEAST_MS + 2_000:
            note(served, offset)
            now, offset = warm(served)[0], offset + 1
        for each in TABLES:
            beside(f"ALTER TABLE {each} RENAME TO gone_{each}")
        at, status = warm(other)
        assert status["state"] == "fine"
        assert at - status["seen_at"] > STILL_LEAST_MS
    finally:
        other.kill()
