"""A row that is not what was written is named where it is read; all that does not depend on it goes on being served."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from controller.limits import LOADED_MARKS
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


def flip(file: Path, text: bytes, bit: int) -> None:
    """Flips a bit of the last byte of a text, wherever that is in the file."""
    content = bytearray(file.read_bytes())
    found = content.find(text)
    assert found >= 0
    while found >= 0:
        content[found + len(text) - 1] ^= bit
        found = content.find(text)
    file.write_bytes(content)


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
    ready = controller.client.get("/readyz")
    assert ready.status_code == 503 and "rows of the store are not what was written" in ready.json()["reason"]
    scrape = controller.client.get("/metrics").text
    assert "strandline_store_corrupt_rows 1.0" in scrape and "strandline_store_damaged 1.0" in scrape
    assert 'strandline_store_errors_total{cause="damaged",operation="read"} 0.0' not in scrape
    assert controller.stop() == 0
    told = [line for line in controller.log.splitlines() if '"event": "store_corrupt"' in line]
    assert len(told) == 1 and '"stream": "s"' in told[0] and '"table": "mark"' in told[0]


@pytest.mark.parametrize("bit", [0x01, 0x80], ids=["another digit", "no UTF-8"])
def test_a_flipped_bit_in_the_file_is_never_served(serve: Callable[..., OwnProcess], tmp_path: Path, bit: int) -> None:
    controller = serve()
    fill(controller)
    assert controller.stop() == 0

    flip(tmp_path / "store.db", b'{"0":%d' % (OFFSET + 2), bit)

    controller = serve("--log-format", "json")
    assert controller.client.get("/readyz").status_code == 200  # nobody has looked there yet
    check_that_only_s_is_refused(controller, "stream 's', key '', seq 2")
    check_that_it_is_told(controller)


def test_a_key_that_a_flipped_bit_made_a_number_is_refused(serve: Callable[..., OwnProcess], tmp_path: Path) -> None:
    """SQLite then finds the row when it looks for the first key, and not when it looks for that key's marks."""
    controller = serve()
    fill(controller)
    assert controller.stop() == 0
    file = tmp_path / "store.db"
    content = bytearray(file.read_bytes())
    types = content.rindex(b"\x0f\x0d", 0, content.index(b'{"0":%d}[]' % (OFFSET + 1)))  # of stream and key
    content[types + 1] ^= 0x04  # from a text without characters to the number 1
    file.write_bytes(content)

    controller = serve()
    problem = controller.client.get("/v1/streams/s/marks").json()
    assert (problem["code"], problem["stream"], problem["table"]) == ("store_corrupt", "s", "mark")
    assert controller.client.get("/v1/streams/t/marks").status_code == 200


def test_a_row_that_was_changed_in_postgresql_is_never_served(
    serve_on: Callable[..., OwnProcess], postgres: Postgres, postgres_url: str
) -> None:
    controller = serve_on(postgres_url)
    fill(controller)
    assert controller.stop() == 0

    postgres.execute("UPDATE mark SET upper = upper + 1 WHERE stream = 's' AND seq = 3", postgres_url)

    controller = serve_on(postgres_url, "--log-format", "json")
    check_that_only_s_is_refused(controller, "stream 's', key '', seq 3")
    check_that_it_is_told(controller)


class TestBeside:
    """What is changed while the controller serves."""

    @pytest.fixture
    def database(self, tmp_path: Path) -> Path:
        return tmp_path / "store.db"

    @pytest.fixture
    def execute(self, database: Path) -> Callable[[str], None]:
        def run(statement: str) -> None:
            with closing(sqlite3.connect(database, isolation_level=None)) as connection:
                connection.execute(statement)

        return run

    def test_a_damaged_old_mark_is_refused_and_newer_ones_served(
        self, start: Callable[..., InProcess], execute: Callable[[str], None]
    ) -> None:
        controller = start()
        controller.call("PUT", "/v1/streams/s", CONFIG)
        last = LOADED_MARKS + 20
        notes = [{"stream": "s", "writer": "a", "time": each, "position": {"0": each}} for each in range(1, last + 1)]
        controller.call("POST", "/v1/notes", {"notes": notes})
        execute("UPDATE mark SET newest = 4 WHERE seq = 5")
        controller = start()

        controller.note("a", last + 1, {"0": last + 1})
        assert controller.marks(after=last - 1)[-1]["time"] == last + 1
        assert [mark["seq"] for mark in controller.marks(after=5, limit=2)] == [6, 7]
        problem = controller.call("GET", "/v1/streams/s/marks?after=3&limit=5", expect=500)
        assert (problem["code"], problem["row"]) == ("store_corrupt", "stream 's', key '', seq 5")
        controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": 5}}, expect=500)
        assert controller.call("POST", "/v1/streams/s/time-window", {"position": {"0": last}})["lower"] == last
        assert [each["details"]["code"] for each in controller.told("refusal")] == ["store_corrupt"]

    def test_an_old_mark_that_is_missing_ends_no_look_in_a_loop(
        self, start: Callable[..., InProcess], execute: Callable[[str], None]
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
        self, start: Callable[..., InProcess], execute: Callable[[str], None]
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

    def test_a_damaged_stream_can_be_deleted_and_the_controller_is_ready_again(
        self, start: Callable[..., InProcess], execute: Callable[[str], None]
    ) -> None:
        controller = start()
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.note("a", 5, {"0": 5})
        controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s"]})
        execute("UPDATE writer_change SET fence = fence + 7")
        execute("UPDATE reader_group SET epochs = 99")
        controller = start()
        controller.call("GET", "/v1/streams/s", expect=500)
        problem = controller.call("GET", "/v1/reader-groups/g", expect=500)
        assert (problem["group"], problem["table"]) == ("g", "reader_group")
        controller.call("GET", "/readyz", expect=503)

        controller.call("DELETE", "/v1/streams/s", expect=204)
        controller.call("GET", "/readyz", expect=503)
        controller.call("DELETE", "/v1/reader-groups/g", expect=204)

        assert controller.call("GET", "/readyz")["status"] == "ready"
        assert "strandline_store_corrupt_rows 0.0" in controller.request("GET", "/metrics").text
        controller.call("PUT", "/v1/streams/s", CONFIG)
        controller.note("a", 1, {"0": 1})
        assert [mark["seq"] for mark in controller.marks()] == [1]
