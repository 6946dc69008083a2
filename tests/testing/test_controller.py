"""The controller for users' tests: real clients, a clock that is moved by hand, and no sleep anywhere."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import httpx
import pytest

from reader_client import AsyncTimeWindows, EventItem, EventReader, ReaderGroup, TimeWindows
from strandline.core.config import StreamConfig
from strandline.errors import InvalidConfig, Unauthenticated
from strandline.logs import Event
from strandline.testing import NOON, InProcessController, ManualClock, ScriptedLog
from writer_client import AsyncWriter, Writer


def test_async_clients_use_it_from_a_loop_of_their_own(controller: InProcessController, stream: str) -> None:
    async def write_and_read() -> int | None:
        async with controller.async_connection() as connection:
            shared = controller.connection()
            writers = [AsyncWriter(shared, stream, f"w{number}") for number in range(5)]
            await asyncio.gather(*(writer.register() for writer in writers))
            await asyncio.gather(*(writer.note_time(NOON + 1, {"0": 1}) for writer in writers))
            return (await AsyncTimeWindows(connection, stream).get_time_window({"0": 1})).lower

    assert asyncio.run(write_and_read()) == NOON + 1


def test_nothing_happens_before_time_is_let_pass(controller: InProcessController) -> None:
    controller.create_stream("s", config=StreamConfig(mark_interval_ms=10, max_ahead_ms=None))
    writer, windows = Writer(controller.connection(), "s", "w1"), TimeWindows(controller.connection(), "s")
    writer.note_time(NOON, {"0": 1})
    writer.note_time(NOON + 1, {"0": 2})  # a mark has been made just now, so this one waits
    controller.clock.now += 1_000

    time.sleep(0.05)  # longer than the interval, for who would look at another clock
    assert windows.get_time_window({"0": 2}).lower == NOON

    controller.pass_time(0)
    assert windows.get_time_window({"0": 2}).lower == NOON + 1


def test_a_reader_of_events_reads_a_scripted_log_to_its_end(controller: InProcessController, stream: str) -> None:
    log = ScriptedLog(clock=controller.clock)
    with Writer(controller.connection(), stream, "w1", log=log.writer()) as writer:
        writer.write([Event(b"first", segment="0"), Event(b"second", segment="0")])
        writer.note_time(NOON)
    assert controller.request("POST", f"/v1/streams/{stream}/seal", json={"final": log.seal()}).status_code == 200
    ReaderGroup(controller.connection(), stream).create([stream])
    with EventReader(controller.connection(), stream, "r1", {stream: log.reader()}, time_domain="event") as reader:
        items = [item.event.value if isinstance(item, EventItem) else item.watermark for item in reader]
    assert items == [b"first", b"second", NOON]


def test_deadlines_on_the_way_have_their_own_moments(controller: InProcessController) -> None:
    """Three writers fall silent one after the other: a long time that passes at once makes the marks in between."""
    controller.create_stream("moments", config=StreamConfig(mark_interval_ms=0, writer_timeout_ms=10_000))
    connection = controller.connection()
    writers = [Writer(connection, "moments", f"w{number}") for number in range(3)]
    for number, writer in enumerate(writers):
        writer.note_time(controller.clock.now, {"0": number + 1})
        controller.pass_time(1_000)
    began = controller.clock.now
    controller.pass_time(60_000)
    marks = TimeWindows(connection, "moments").marks().marks
    assert [mark.excluded for mark in marks] == [(), ("w0",), ("w0", "w1")]
    assert [mark.created_at - began for mark in marks[1:]] == [7_000, 8_000]


def test_time_passes_forwards_only(controller: InProcessController) -> None:
    with pytest.raises(InvalidConfig, match="milliseconds"):
        controller.pass_time(-1)


def test_it_begins_anew_on_the_same_store(tmp_path: Path) -> None:
    clock = ManualClock()
    with InProcessController(tmp_path / "store.db", clock) as controller:
        controller.create_stream("s")
        connection = controller.connection()
        Writer(connection, "s", "w1").note_time(NOON, {"0": 1})
        before, first = TimeWindows(connection, "s").marks().marks, controller.app
        controller.restart(after_ms=5_000)
        assert TimeWindows(connection, "s").marks().marks == before
        assert controller.app is not first
        assert clock.now == NOON + 5_000
    with InProcessController(tmp_path / "store.db", clock) as controller:
        assert TimeWindows(controller.connection(), "s").marks().marks == before


def test_its_own_store_goes_with_it() -> None:
    with InProcessController() as controller:
        database = Path(controller.database)
        assert database.is_file()
    assert not database.parent.exists()


def test_it_listens_for_other_processes_too(controller: InProcessController, stream: str) -> None:
    url = controller.listen()
    assert httpx.get(f"{url}/v1/streams/{stream}").json()["segments"][0]["id"] == "0"
    assert httpx.get(f"{url}/healthz").headers["strandline-time"] == str(controller.clock.now)


def test_a_wrong_token_is_refused_as_anywhere(tmp_path: Path) -> None:
    from controller.cli import main

    database = tmp_path / "store.db"
    with InProcessController(database):
        pass
    assert main(["token", "create", "admin", "--role", "admin", "--database", str(database)]) == 0
    with InProcessController(database) as controller:
        connection = controller.connection(token="slt_" + "A" * 43)
        with pytest.raises(Unauthenticated):
            TimeWindows(connection, "s").marks()
