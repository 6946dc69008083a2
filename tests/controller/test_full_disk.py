"""A disk that takes no more: real SQLite, whose COMMIT fails where the file may not grow any further."""

from __future__ import annotations

import resource
import sqlite3
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controller.storage.sqlite import SqliteStore
from tests.served import OwnProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits a process from outside")
CONFIG = {"segments": 3, "mark_interval_ms": 0, "max_ahead_ms": None}


@contextmanager
def full(server: OwnProcess) -> Iterator[None]:
    """The write-ahead log may not grow: what a COMMIT writes fails, while all that is there can be read."""
    size = Path(f"{server.database}-wal").stat().st_size
    before = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, before)


def note(server: OwnProcess, writer: str, time: int) -> Any:
    body = {"writer": writer, "time": time, "position": {"0": time}}
    return server.client.post("/v1/streams/s/notes", json=body)


def everything(server: OwnProcess) -> list[Any]:
    described = server.client.get("/v1/streams/s").json()
    for segment in described["segments"]:
        segment.pop("last_noted_at")
    described["held_by"] = None
    writers = server.client.get("/v1/streams/s/writers").json()["writers"]
    for writer in writers:
        writer.pop("last_heard_at")  # moves on by the time in which nobody served
    return [described, writers, server.client.get("/v1/streams/s/marks").json()["marks"]]


def test_a_commit_refused_by_a_full_disk_recovers_without_loss(serve: Any) -> None:
    #   marks   100 │ full: 200 of w0 … w7 each 503, nobody is shown them │ 300      killed, and served again: 100, 300
    server = serve()
    assert server.client.put("/v1/streams/s", json=CONFIG).status_code == 201
    assert note(server, "a", 100).is_success
    before = everything(server)

    with ThreadPoolExecutor(9) as threads:
        waiting = threads.submit(server.client.get, "/v1/streams/s/marks", params={"after": 1, "wait_ms": 30_000})
        with full(server):
            for _ in range(3):  # the connection is left in order each time
                answers = list(threads.map(lambda n: note(server, f"w{n}", 200), range(8)))
                assert {(each.status_code, each.json()["code"]) for each in answers} == {(503, "store_unavailable")}
                assert {each.headers["retry-after"] for each in answers} == {"1"}
                assert everything(server) == before
            assert server.client.put("/v1/streams/t", json=CONFIG).json()["code"] == "store_unavailable"
            assert server.client.get("/v1/streams/t").status_code == 404
            registered = server.client.put("/v1/streams/s/writers/b")
            assert registered.json()["code"] == "store_unavailable"
        assert [mark["time"] for mark in note(server, "a", 300).json()["marks"]] == [300]
        assert [mark["time"] for mark in waiting.result(30).json()["marks"]] == [300]
    assert server.client.put("/v1/streams/s/writers/b").json()["epoch"] == 1

    answered = everything(server)
    server.kill()
    again = serve()

    assert everything(again) == answered
    assert [mark["time"] for mark in answered[2]] == [100, 300]


@pytest.mark.parametrize(
    ("code", "undone"),
    [
        (sqlite3.SQLITE_FULL, True),
        (sqlite3.SQLITE_IOERR_WRITE, True),
        (sqlite3.SQLITE_IOERR_FSYNC, False),
        (sqlite3.SQLITE_IOERR_DIR_FSYNC, False),
    ],
)
def test_after_a_failed_sync_a_crashs_outcome_is_unknown(code: int, undone: bool) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    assert SqliteStore().left_undone(error) is undone
