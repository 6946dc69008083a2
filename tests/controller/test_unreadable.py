"""A row that cannot be read refuses the calls of its own stream or group, which can be deleted, and no others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.storage.marks import LOADED_MARKS
from tests.postgres import Postgres
from tests.served import InProcess, OwnProcess

CONFIG = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
STREAMS = ("s", "t")
OFFSET = 700_100_700


def fill(controller: OwnProcess) -> None:
    """Two streams with three marks each, and a reader group for each."""
    for stream in STREAMS:
        assert controller.client.put(f"/v1/streams/{stream}", json=CONFIG).is_success
        for time in (1, 2, 3):
            assert note(controller, stream, time, OFFSET + time if stream == "s" else time).status_code == 200
        assert controller.client.put(f"/v1/reader-groups/of-{stream}", json={"streams": [stream]}).is_success


def note(controller: OwnProcess, stream: str, time: int, offset: int) -> Any:
    body = {"writer": "a", "time": time, "position": {"0": offset}}
    return controller.client.post(f"/v1/streams/{stream}/notes", json=body)


def change(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def check_that_only_s_is_refused(controller: OwnProcess, row: str) -> None:
    for method, path, body in (
        ("GET", "/v1/streams/s", None),
        ("GET", "/v1/streams/s/marks", None),
        ("POST", "/v1/streams/s/time-window", {"position": {"0": OFFSET + 2}}),
        ("POST", "/v1/streams/s/notes", {"writer": "a", "time": 9, "position": {"0": OFFSET + 9}}),
    ):
        answer = controller.client.request(method, path, json=body)
        problem = answer.json()
        assert (answer.status_code, problem["code"]) == (500, "store_corrupt"), answer.text
        assert (problem["stream"], problem["table"], problem["row"]) == ("s", "mark", row)
        assert row in problem["detail"] and "strandline check" in problem["detail"]
    many = {"notes": [{"stream": each, "writer": "a", "time": 10, "position": {"0": 10}} for each in STREAMS]}
    refused, taken = controller.client.post("/v1/notes", json=many).json()["results"]
    assert refused["code"] == "store_corrupt" and [mark["time"] for mark in taken["marks"]] == [10]
    marks = controller.client.get("/v1/streams/t/marks").json()["marks"]
    assert [(mark["time"], mark["complete"]) for mark in marks] == [(1, True), (2, True), (3, True), (10, True)]
    assert controller.client.get("/v1/reader-groups/of-t/time-window").status_code == 200
    assert controller.client.get("/v1/reader-groups/of-s/time-window").json()["code"] == "store_corrupt"


def check_that_it_is_told(controller: OwnProcess) -> None:
    assert controller.client.get("/readyz").status_code == 200
    scrape = controller.client.get("/metrics").text
    assert "strandline_store_damaged 0.0" in scrape
    assert 'strandline_store_errors_total{cause="damaged",operation="read"} 0.0' not in scrape
    assert controller.stop() == 0
    told = [line for line in controller.log.splitlines() if '"event": "store_corrupt"' in line]
    assert len(told) == 1 and '"stream": "s"' in told[0] and '"table": "mark"' in told[0]


@pytest.mark.parametrize("cut", ["'{'", "CAST(x'ff' AS TEXT)"], ids=["no document", "no UTF-8"])
def test_a_mark_that_cannot_be_read_refuses_its_own_stream_only(
    serve: Callable[..., OwnProcess], tmp_path: Path, cut: str
) -> None:
    controller = serve()
    fill(controller)
    assert controller.stop() == 0

    change(tmp_path / "store.db", f"UPDATE mark SET cut = {cut} WHERE stream = 's' AND seq = 2")

    controller = serve("--log-format", "json")
    check_that_only_s_is_refused(controller, "stream 's', key '', seq 2")
    check_that_it_is_told(controller)


def test_a_chain_of_marks_that_goes_back_in_postgresql_is_never_served(
    serve_on: Callable[..., OwnProcess], postgres: Postgres, postgres_url: str
) -> None:
    controller = serve_on(postgres_url)
    fill(controller)
    assert controller.stop() == 0

    postgres.execute("UPDATE mark SET time = 0 WHERE stream = 's' AND seq = 3", postgres_url)

    controller = serve_on(postgres_url, "--log-format", "json")
    check_that_only_s_is_refused(controller, "stream 's', key '', seq 3")
    check_that_it_is_told(controller)


class TestBeside:
    """What is changed while the controller serves."""

    @pytest.fixture
    def database(self, tmp_path: Path) -> Path:
        return tmp_path / "store.db"

    @pytest.fixture
    def execute(self, database: Path) -> Callable[..., None]:
        return partial(change, database)

    def test_an_old_mark_that_cannot_be_read_is_refused_and_newer_ones_served(
        self, start: Callable[..., InProcess], execute: Callable[..., None]
    ) -> None:
        controller = start()
        controller.call("PUT", "/v1/streams/s", CONFIG)
        last = LOADED_MARKS + 20
        notes = [{"stream": "s", "writer": "a", "time": each, "position": {"0": each}} for each in range(1, last + 1)]
        controller.call("POST", "/v1/notes", {"notes": notes})
        execute("UPDATE mark SET cut = '{' WHERE seq = 5")
        controller = start()

        controller.note("a", last + 1, {"0": last + 1})
        assert controller.marks(after=last - 1)[-1]["time"] == last + 1
        assert [mark["seq"] for mark in controller.marks(after=5, limit=2)] == [6, 7]
        problem = controller.call("GET", "/v1/streams/s/marks?after=3&limit=5", expect=500)
        assert (problem["code"], problem["row"]) == ("store_corrupt", "stream 's', key '', seq 5")
        controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 5}}, expect=500)
        assert controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": last}})["lower"] == last

    def test_an_old_mark_that_is_missing_ends_no_look_in_a_loop(
        self, start: Callable[..., InProcess], execute: Callable[..., None]
    ) -> None:
        controller = start()
        controller.call("PUT", "/v1/streams/s", CONFIG)
        last = LOADED_MARKS + 20
        notes = [{"stream": "s", "writer": "a", "time": each, "position": {"0": each}} for each in range(1, last + 1)]
        controller.call("POST", "/v1/notes", {"notes": notes})
        controller = start()
        controller.call("GET", "/v1/streams/s")
        execute("DELETE FROM mark WHERE seq < 9")

        for method, path, body in (
            ("POST", "/v1/streams/s/time-window", {"position": {"0": 5}}),
            ("GET", "/v1/streams/s/marks?after=3&limit=5", None),
            ("POST", "/v1/streams/s/truncate", {"head": {"0": 2}}),
        ):
            problem = controller.call(method, path, body, expect=500)
            assert problem["code"] == "store_corrupt" and problem["reason"] == "it is missing"
        controller.note("a", last + 1, {"0": last + 1})

    def test_an_invalid_stored_name_is_refused_and_others_are_served(
        self, start: Callable[..., InProcess], execute: Callable[..., None]
    ) -> None:
        controller = start()
        for name in ("s", "t"):
            controller.call("PUT", f"/v1/streams/{name}", CONFIG)
            controller.call("PUT", f"/v1/reader-groups/of-{name}", {"streams": [name]})
        controller = start()
        execute("UPDATE stream SET name = CAST(x'f4' AS TEXT) WHERE name = 't'")
        execute("UPDATE reader_group SET name = CAST(x'f4' AS TEXT) WHERE name = 'of-t'")

        for path, table in (("/v1/streams", "stream"), ("/v1/reader-groups", "reader_group")):
            problem = controller.call("GET", path, expect=500)
            assert (problem["code"], problem["table"]) == ("store_corrupt", table)
            assert problem["row"] == r"name '\\udcf4'"
        controller.call("GET", "/v1/streams/s")
        controller.call("GET", "/v1/reader-groups/of-s")
        assert controller.request("GET", "/metrics").status_code == 200

    @pytest.mark.parametrize(
        "spoilt",
        [
            "UPDATE stream SET config = '{'",
            "UPDATE stream SET epochs = 'x'",
            "UPDATE segment SET predecessors = '{'",
            "UPDATE mark SET cut = '{'",
            "UPDATE writer_change SET writers = '{'",
        ],
    )
    def test_a_stream_that_cannot_be_read_can_be_deleted_and_made_again(
        self, start: Callable[..., InProcess], execute: Callable[..., None], spoilt: str
    ) -> None:
        controller = start()
        controller.call("PUT", "/v1/streams/s", {**CONFIG, "segments": 2})
        controller.note("a", 5, {"0": 5})
        given = controller.call("PUT", "/v1/streams/s/writers/a")["epoch"]
        controller.__exit__(None, None, None)
        execute(spoilt)
        controller = start()
        controller.call("GET", "/v1/streams/s", expect=500)
        assert controller.call("GET", "/readyz")["status"] == "ready"

        controller.call("DELETE", "/v1/streams/s", expect=204)

        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.note("a", 1, {"0": 1})
        assert [mark["seq"] for mark in controller.marks()] == [1]
        assert controller.call("PUT", "/v1/streams/s/writers/a")["epoch"] > given

    @pytest.mark.parametrize(
        ("spoilt", "table"),
        [
            ("UPDATE reader_group SET identities = '{'", "reader_group"),
            ('UPDATE reader_group SET settings = \'{"streams":["s"]}\'', None),
            ("UPDATE reader SET epoch = 'x'", "reader"),
            ("UPDATE reader_position SET \"offset\" = 'x'", "reader_position"),
        ],
    )
    def test_a_group_that_cannot_be_read_is_an_error_of_its_own_and_can_be_deleted(
        self, start: Callable[..., InProcess], execute: Callable[..., None], spoilt: str, table: str | None
    ) -> None:
        controller = start()
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
        controller.call("PUT", "/v1/reader-groups/g/readers/r", {"positions": {"s": {"0": 3}}})
        controller.__exit__(None, None, None)
        execute(spoilt)
        controller = start()
        problem = controller.call("GET", "/v1/reader-groups/g", expect=500)
        assert (problem["code"], problem["group"], problem.get("table")) == ("store_corrupt", "g", table)
        assert controller.call("GET", "/readyz")["status"] == "ready"
        controller.note("a", 1, {"0": 1})
        assert list(controller.call("GET", "/v1/status")["unread_groups"]) == ["g"]

        controller.call("DELETE", "/v1/reader-groups/g", expect=204)

        assert controller.call("GET", "/v1/reader-groups")["groups"] == []
        controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
        assert controller.call("GET", "/v1/reader-groups/g")
