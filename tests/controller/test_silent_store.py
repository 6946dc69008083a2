"""A store that hangs: whoever waits is answered in time, and nothing is taken from memory that the store may not have.

The controller waits for a tenth of its usual time.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from controller.limits import Limits
from controller.storage.diagnosis import StoreSilent
from controller.storage.sqlite import BUSY_TIMEOUT_MS
from controller.storage.worker import within
from tests.disks import may_mount
from tests.door.raw import Raw
from tests.mute import MuteWire
from tests.postgres import Postgres
from tests.served import InProcess, OwnProcess
from tests.summary import skip

pytestmark = pytest.mark.full

LIMITS = Limits(commit_s=1, read_s=1.5, cut_grace_s=0.1, close_s=0.2, ready_s=0.2, drain_s=2, stop_s=0.5)
CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
WRITER = (
    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'strandline' "
    "ORDER BY query_start DESC LIMIT 1"
)
ROWS = b"INSERT INTO writer_change"  # what a note writes, with its COMMIT


def note(time: int) -> dict[str, Any]:
    return {"writer": "a", "time": time, "position": {"0": time}}


def refused(controller: InProcess, method: str, path: str, body: object = None) -> Any:
    """What a call is refused with, once its stream is no longer being loaded: nobody waits as long for that as for the
    store."""
    deadline = time.monotonic() + 60
    while (problem := controller.call(method, path, body, expect=503))["code"] == "stream_loading":
        assert time.monotonic() < deadline
    return problem


def works_again(controller: InProcess) -> None:
    """After a store hung, a stream may still be loaded from it: until then its calls are refused."""
    deadline = time.monotonic() + 60
    for path in ("/readyz", "/v1/streams/s/marks"):
        while controller.request("GET", path).status_code != 200:
            assert time.monotonic() < deadline


@pytest.fixture
def controller(start: Callable[..., InProcess]) -> InProcess:
    return start(limits=LIMITS)


class TestPostgresql:
    @pytest.fixture
    def wire(self, postgres: Postgres) -> Iterator[MuteWire]:
        wire = MuteWire(postgres.port)
        yield wire
        wire.close()

    @pytest.fixture
    def database(self, wire: MuteWire, postgres_url: str) -> str:
        return wire.url(postgres_url)

    @pytest.fixture
    def writer(self, postgres: Postgres, postgres_url: str) -> Iterator[Callable[[signal.Signals], None]]:
        """Sends a signal to the server's process of the session that writes; it goes on in the end."""
        stopped: list[int] = []

        def send(number: signal.Signals) -> None:
            if not stopped:
                ((pid,),) = postgres.execute(WRITER, postgres_url)
                stopped.append(pid)
            os.kill(stopped[0], number)

        yield send
        with suppress(ProcessLookupError):
            if stopped:
                os.kill(stopped[0], signal.SIGCONT)

    def test_a_note_on_a_hung_session_is_refused_and_the_next_has_a_new_one(
        self, controller: InProcess, writer: Callable[[signal.Signals], None]
    ) -> None:
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.note("a", 100, {"0": 100})

        writer(signal.SIGSTOP)
        problem = controller.call("POST", "/v1/streams/s/notes", note(200), expect=503)
        assert problem["reason"] == f"the store has not answered for {LIMITS.commit_s:g} s"
        assert [mark["time"] for mark in controller.marks()] == [100]
        works_again(controller)
        controller.note("a", 200, {"0": 200})
        writer(signal.SIGCONT)
        controller.note("a", 300, {"0": 300})
        assert [mark["time"] for mark in controller.marks()] == [100, 200, 300]

    def test_a_sent_commit_is_undecided_until_it_is_settled(self, controller: InProcess, wire: MuteWire) -> None:
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.note("a", 100, {"0": 100})

        wire.mute_after = b"COMMIT\0"
        problem = controller.call("POST", "/v1/streams/s/notes", note(200), expect=504)
        assert problem["code"] == "store_undecided"
        assert problem["reason"] == f"the store has not answered for {LIMITS.commit_s:g} s"
        # Which one depends on what ends first: a call's wait for the stream, or the attempt to connect anew.
        early = controller.call("GET", "/v1/streams/s/marks", expect=503)
        assert early["code"] in {"store_unavailable", "stream_loading"}
        wire.muted.clear()

        works_again(controller)
        assert [mark["time"] for mark in controller.marks()] == [100, 200]  # the server had got it
        controller.note("a", 200, {"0": 200})
        controller.note("a", 300, {"0": 300})
        assert [mark["time"] for mark in controller.marks()] == [100, 200, 300]

    def test_readiness_and_reads_are_answered_while_nothing_passes(self, controller: InProcess, wire: MuteWire) -> None:
        controller.call("PUT", "/v1/streams/s", CONFIG)
        wire.muted.set()

        assert controller.request_soon("GET", "/readyz").result(LIMITS.ready_s + 20).status_code == 503
        assert controller.call("GET", "/v1/streams", expect=503)["code"] == "store_unavailable"
        wire.muted.clear()

        works_again(controller)
        assert controller.call("GET", "/v1/streams")["streams"] != []

    @pytest.mark.parametrize(("lost", "code"), [(b"FOR NO KEY UPDATE", "store_unavailable"), (ROWS, "store_undecided")])
    def test_a_controller_whose_store_hangs_answers_and_stops_in_time(
        self, serve: Callable[..., OwnProcess], wire: MuteWire, lost: bytes, code: str
    ) -> None:
        # The call that is under way is answered before uvicorn's limit, two seconds; the one behind it is not.
        limits = replace(LIMITS, commit_s=1.5, outcome_s=0.2, drain_s=2.9)
        server = serve("--log-format", "json", **asdict(limits))
        server.client.put("/v1/streams/s", json=CONFIG)
        wire.mute_after = lost
        with Raw(server) as under_way, Raw(server) as waiting:
            for number, raw in enumerate((under_way, waiting)):
                assert raw.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").answer().status == 200
                body = json.dumps(note(number))
                head = f"POST /v1/streams/s/notes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}"
                raw.send(f"{head}\r\n\r\n{body}".encode())
                assert wire.muted.wait(60)
            server.client.get("/healthz")  # both were read before
            server.process.send_signal(signal.SIGTERM)
            first, second = under_way.answer(), waiting.answer()
        server.stop()

        assert (first.code, first.json["reason"]) == (code, f"the store has not answered for {limits.commit_s:g} s")
        assert second.code in ("store_unavailable", "store_undecided")  # by uvicorn's limit, where that comes first
        assert '"event": "not_flushed"' in server.log and '"event": "stopped"' in server.log


def test_commands_do_not_wait_for_ever() -> None:
    with pytest.raises(StoreSilent):
        within(0.1, threading.Event().wait)


class TestSqlite:
    @pytest.fixture
    def database(self, tmp_path: Path) -> Path:
        return tmp_path / "store.db"

    @pytest.fixture
    def controller(self, start: Callable[..., InProcess]) -> InProcess:
        return start()  # SQLite waits for five seconds, which is less than a commit may take

    def test_a_file_that_another_process_has_locked_is_named_and_taken_again(
        self, controller: InProcess, database: Path
    ) -> None:
        controller.call("PUT", "/v1/streams/s", CONFIG)
        beside = sqlite3.connect(database, isolation_level=None)
        beside.execute("BEGIN IMMEDIATE")

        problem = controller.call("POST", "/v1/streams/s/notes", note(100), expect=503)
        assert problem["reason"] == "another process has locked the store's file"
        assert "locked" in controller.call("GET", "/readyz", expect=503)["detail"]
        beside.execute("ROLLBACK")

        controller.note("a", 100, {"0": 100})
        assert controller.call("GET", "/readyz")["status"] == "ready"
        beside.close()

    def test_a_controller_ends_in_time_although_a_call_of_the_store_does_not(self, database: Path) -> None:
        server = OwnProcess(database, **{**asdict(LIMITS), "commit_s": 0.2})
        server.client.put("/v1/streams/s", json=CONFIG)
        beside = sqlite3.connect(database, isolation_level=None)
        beside.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert server.client.post("/v1/streams/s/notes", json=note(100)).status_code == 503
        assert server.stop() == 0
        assert "store_left_behind" in server.log
        assert time.monotonic() - began < BUSY_TIMEOUT_MS / 1000  # for so long SQLite waits for the lock
        beside.close()


class TestFrozenDisk:
    """A real disk that neither writes nor fails: every call of SQLite waits for it and cannot be broken off."""

    @pytest.fixture
    def disk(self, tmp_path: Path) -> Iterator[Path]:
        if not may_mount():
            skip("this user may not mount a file system", "run the tests as root")
        image, folder = tmp_path / "image", tmp_path / "disk"
        with open(image, "wb") as made:
            made.truncate(16 << 20)
        folder.mkdir()
        for command in (["mkfs.ext4", "-q", str(image)], ["mount", "-o", "loop", str(image), str(folder)]):
            if subprocess.run(command, capture_output=True, check=False).returncode:
                skip(f"{command[0]} does not work for a file here", "run the tests on another machine")
        yield folder
        subprocess.run(["fsfreeze", "--unfreeze", str(folder)], capture_output=True, check=False)
        subprocess.run(["umount", "--lazy", str(folder)], check=True)

    @pytest.fixture
    def database(self, disk: Path) -> Path:
        return disk / "store.db"

    def test_a_frozen_disk_answers_waiters_and_keeps_written_notes(self, controller: InProcess, disk: Path) -> None:
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.note("a", 100, {"0": 100})

        subprocess.run(["fsfreeze", "--freeze", str(disk)], check=True)
        answered = controller.request("POST", "/v1/streams/s/notes", json=note(200))
        assert answered.json()["code"] in ("store_undecided", "store_unavailable")
        assert "has not answered for" in refused(controller, "POST", "/v1/streams/s/notes", note(200))["reason"]
        assert "has not answered for" in controller.call("GET", "/readyz", expect=503)["reason"]
        subprocess.run(["fsfreeze", "--unfreeze", str(disk)], check=True)

        works_again(controller)
        controller.note("a", 200, {"0": 200})
        assert [mark["time"] for mark in controller.marks()] == [100, 200]
