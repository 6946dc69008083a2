"""/readyz is 200 while the store can be read and written, and else names what is wrong and since when."""

from __future__ import annotations

import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.disks import Disk, small_disk
from tests.postgres import Postgres
from tests.served import InProcess, OwnProcess
from tests.summary import skip

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}


def note(server: OwnProcess, time: int) -> Any:
    return server.client.post("/v1/streams/s/notes", json={"writer": "a", "time": time, "position": {"0": time}})


def times(server: OwnProcess) -> list[int]:
    return [mark["time"] for mark in server.client.get("/v1/streams/s/marks").json()["marks"]]


class TestFullDisk:
    @pytest.fixture
    def disk(self, tmp_path: Path) -> Iterator[Disk]:
        with small_disk(tmp_path / "disk") as made:
            if not made.real:
                skip("this user may not mount a file system", "run the tests as root")
            yield made

    def test_a_full_disk_is_named_until_there_is_room_again(
        self, serve_on: Callable[..., OwnProcess], disk: Disk
    ) -> None:
        server = serve_on(disk.folder / "store.db", "--log-format", "json")
        server.client.put("/v1/streams/s", json=CONFIG)
        assert note(server, 100).is_success
        disk.fill()

        # The log has some room of its own, so that the first notes may still fit.
        taken, refused = 100, note(server, 101)
        while refused.is_success and taken < 2_000:
            taken, refused = taken + 1, note(server, taken + 2)
        ready = server.client.get("/readyz")

        problem = refused.json()
        assert (problem["status"], problem["code"]) == (503, "store_unavailable")
        assert problem["reason"] == ready.json()["reason"] == "the disk is full: the store's file cannot grow"
        assert ready.status_code == 503
        assert 0 <= int(ready.headers["strandline-time"]) - ready.json()["since"] < 600_000
        scrape = server.client.get("/metrics").text
        assert "strandline_store_up 0.0" in scrape
        assert 'strandline_store_errors_total{cause="full",operation="commit"}' in scrape

        disk.make_room()
        last = server.client.get("/v1/streams/s").json()["latest_marks"][""]["time"]
        assert last == taken
        assert note(server, 5_000).is_success
        assert server.client.get("/readyz").json()["status"] == "ready"
        assert server.stop() == 0
        assert '"event": "store_failed"' in server.log and '"cause": "full"' in server.log


class TestMovedFile:
    """SQLite goes on writing into a file that has no name any more: the controller does not go on answering 200."""

    @pytest.fixture
    def server(self, serve: Callable[..., OwnProcess]) -> OwnProcess:
        server = serve("--log-format", "json")
        server.client.put("/v1/streams/s", json=CONFIG)
        assert note(server, 100).is_success
        return server

    @pytest.mark.parametrize("suffix", ["", "-wal"])
    def test_a_moved_store_answers_no_note_and_loses_nothing(
        self, server: OwnProcess, tmp_path: Path, suffix: str
    ) -> None:
        file, elsewhere = tmp_path / f"store.db{suffix}", tmp_path / "elsewhere"
        file.rename(elsewhere)

        problem = note(server, 200).json()
        assert problem["status"] == 503 and "removed, renamed or replaced" in problem["detail"]
        ready = server.client.get("/readyz")
        assert ready.status_code == 503 and "removed, renamed or replaced" in ready.json()["detail"]
        assert 'cause="moved",operation="commit"} 0.0' not in server.client.get("/metrics").text

        elsewhere.rename(file)
        assert note(server, 300).is_success and times(server) == [100, 300]
        assert server.client.get("/readyz").status_code == 200

    def test_the_next_beat_finds_a_replaced_file_also_without_a_note(self, server: OwnProcess, tmp_path: Path) -> None:
        file, copy = tmp_path / "store.db", tmp_path / "copy.db"
        shutil.copy(file, copy)
        copy.replace(file)

        deadline = time.monotonic() + 30
        while "strandline_store_up 0.0" not in server.client.get("/metrics").text:
            assert time.monotonic() < deadline
        assert server.client.get("/readyz").status_code == 503
        assert note(server, 200).status_code == 503


class TestDamage:
    @pytest.fixture
    def database(self, tmp_path: Path) -> Path:
        return tmp_path / "store.db"

    def spoil(self, database: Path, table: str) -> None:
        """Overwrites the first page of a table."""
        with sqlite3.connect(database) as connection:
            ((size,),) = connection.execute("PRAGMA page_size")
            ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,))
        with open(database, "r+b") as file:
            file.seek((page - 1) * size)
            file.write(b"\xa5" * size)

    def test_a_damaged_store_is_unready_from_the_first_bad_read(
        self, start: Callable[..., InProcess], database: Path
    ) -> None:
        controller = start()
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.note("a", 100, {"0": 1})
        controller.__exit__(None, None, None)
        self.spoil(database, "mark")

        with InProcess(database, controller.clock) as damaged:
            assert damaged.call("GET", "/readyz")["status"] == "ready"  # nobody has looked there yet
            problem = damaged.call("GET", "/v1/streams/s", expect=503)
            assert problem["reason"] == "the store's file is damaged: restore a backup"
            assert damaged.call("GET", "/readyz", expect=503)["reason"] == problem["reason"]
            assert damaged.call("GET", "/readyz", expect=503)["since"] <= damaged.clock.now


def test_another_schema_makes_a_store_unready_and_names_the_command(controller: InProcess, beside: Any) -> None:
    beside("UPDATE alembic_version SET version_num = '0000'")

    assert "strandline migrate" in controller.call("GET", "/readyz", expect=503)["detail"]


class TestReadOnlyPostgresql:
    @pytest.fixture
    def database(self, postgres_url: str) -> str:
        return postgres_url

    def test_a_database_that_takes_no_writes_is_not_ready(
        self, controller: InProcess, postgres: Postgres, postgres_url: str
    ) -> None:
        controller.call("PUT", "/v1/streams/s", CONFIG)
        name = postgres_url.rpartition("/")[2]
        postgres.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        ours = f"datname = '{name}' AND application_name = 'strandline'"
        postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")

        body = {"writer": "a", "time": 1, "position": {}}
        problem = controller.call("POST", "/v1/streams/s/notes", body, expect=503)
        assert problem["reason"].startswith("the database takes no writes")
        assert controller.call("GET", "/readyz", expect=503)["reason"] == problem["reason"]

        postgres.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
        postgres.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {ours}")
        assert controller.call("GET", "/readyz")["status"] == "ready"
