"""Streams with very many writers: while they are loaded, worked on or deleted, everybody else is served."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.storage.database import open_database
from controller.storage.rows import StreamOrigin
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from tests.served import AT_ONCE, NOON, InProcess, ManualClock
from tests.storage.loads import made
from tests.storage.writes import write

pytestmark = pytest.mark.full

WRITERS = 4_096
DEADLINE_S = 60


def fill(database: Path, writers: int = WRITERS) -> None:
    """A store with a large stream and a small one."""
    with open_database(str(database)) as store:
        for name, count in (("large", writers), ("small", 1)):
            stream = Stream(name, AT_ONCE, SegmentGraph.equal_shares(1, NOON), now=NOON)
            for number in range(count):
                stream.note(Note(writer=f"w{number}", times={"": NOON}, position={"0": number}), NOON)
            write(store, made(stream, StreamOrigin("1", NOON, None)))


@pytest.fixture
def filled(tmp_path: Path) -> Any:
    """A controller on such a store."""
    fill(tmp_path / "store.db")
    with InProcess(tmp_path / "store.db", ManualClock()) as controller:
        yield controller


def until_loaded(controller: InProcess, stream: str) -> httpx.Response:
    until = time.monotonic() + DEADLINE_S
    while (answer := controller.request("GET", f"/v1/streams/{stream}")).status_code == 503:
        assert time.monotonic() < until, answer.text
    return answer


def test_calls_on_a_loading_stream_are_refused_and_others_answered_and_a_stop_is_not_held_up(filled: InProcess) -> None:
    for _ in range(2):  # the first controller stops while it loads
        filled.restart()
        filled.app.state.controller.streams.cache.wait_ms = 0  # no call waits for a stream to be loaded
        assert filled.request("GET", "/v1/streams/large").status_code == 503
    early = filled.request("GET", "/v1/streams/large")
    assert early.status_code == 503 and "Retry-After" in early.headers, early.text
    assert early.json()["code"] == "stream_loading" and "is still being loaded" in early.json()["detail"]
    note = {"writer": "w0", "time": NOON + 1, "position": {"0": 9}}
    assert filled.request("POST", "/v1/streams/large/notes", json=note).json()["code"] == "stream_loading"
    assert filled.request("GET", "/healthz").status_code == 200
    small = until_loaded(filled, "small")
    assert small.json()["writers"] == {"active": 1}

    assert until_loaded(filled, "large").json()["writers"] == {"active": WRITERS}
    assert filled.call("POST", "/v1/streams/large/notes", note)["late"] is False
