from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from controller.clock import Clock
from controller.status.memo import Memo
from controller.status.overview import Overview
from controller.status.stream_status import StreamDetails
from controller.storage.journal import StoredEntry
from strandline.wire.status import State
from tests.served import NOON, InProcess, ManualClock

pytestmark = pytest.mark.full


@pytest.fixture
def served(tmp_path: Path) -> Iterator[InProcess]:
    with InProcess(tmp_path / "store.db", ManualClock()) as controller:
        yield controller


def create(served: InProcess, name: str, **settings: Any) -> None:
    served.call("PUT", f"/v1/streams/{name}", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None, **settings})


def look(served: InProcess) -> Overview:
    status = served.app.state.controller.status
    status.forget()
    found: Overview = served.portal.call(status.overview)
    return found


def closely(served: InProcess, name: str) -> StreamDetails:
    found: StreamDetails = served.portal.call(served.app.state.controller.status.of_stream, name)
    return found


def entries(served: InProcess, **wanted: Any) -> list[StoredEntry]:
    newest = served.app.state.controller.journals.newest_of_stream
    return list(served.portal.call(lambda: newest("s", 50, **wanted)))


def test_of_streams_in_equal_trouble_those_furthest_behind_come_first(served: InProcess) -> None:
    for name, lag_ms in (("least", 0), ("most", 9_000), ("middle", 500)):
        create(served, name)
        served.note("w", NOON - lag_ms, {}, name)
    create(served, "unused")
    assert [(each.stream, each.lag_ms) for each in look(served).streams] == [
        ("most", 9_000),
        ("middle", 500),
        ("least", 0),
        ("unused", None),
    ]


def test_incomplete_marks_say_since_when_also_after_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    with InProcess(tmp_path / "store.db", clock) as served:
        create(served, "s", writer_timeout_ms=None)
        served.note("lost", 5, {})
        served.call("POST", "/v1/streams/s/writers/lost/exclude")
        served.pass_time(1_000)
        served.note("kept", 10, {})
        began = served.app.state.controller.clock.now()
        served.pass_time(4_000)
        served.note("kept", 20, {})
        (before,) = look(served).streams
    with InProcess(tmp_path / "store.db", clock) as served:
        (after,) = look(served).streams
    for each in (before, after):
        assert (each.state, each.worst.excluded, each.state_since) == (State.INCOMPLETE, ("lost",), began)


def test_marks_a_second_cover_the_last_minute_over_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    with InProcess(tmp_path / "store.db", clock) as served:
        create(served, "s", writer_timeout_ms=None)
        for number in range(120):
            served.pass_time(1_000)
            served.note("w", number, {})
        assert closely(served, "s").stream.worst.marks_per_second == 1
    with InProcess(tmp_path / "store.db", clock) as served:
        assert closely(served, "s").stream.worst.marks_per_second == 1
        served.pass_time(30_000)
        assert closely(served, "s").stream.worst.marks_per_second == 0.5


def test_the_journal_is_found_by_topic_and_by_writer(served: InProcess) -> None:
    create(served, "s")
    for writer in ("w_1", "wx1", "w_1"):
        served.call("PUT", f"/v1/streams/s/writers/{writer}")
    served.note("w_1", 9, {})
    served.call("POST", "/v1/streams/s/notes", {"writer": "w_1", "time": 1, "position": {}}, expect=409)
    served.pass_time(1)  # a refusal is written with what comes next
    told = [(each.details["writer"], each.details["epoch"]) for each in entries(served, topics=("registration",))]
    assert told == [("w_1", 1), ("wx1", 2), ("w_1", 3)]
    own = entries(served, writer="w_1")
    assert {each.details["writer"] for each in own} == {"w_1"}
    assert [each.kind for each in own if each.topic == "refusal"] == ["refused"]


def test_an_answer_is_shared_for_a_second_or_for_ten_times_as_long_as_it_took() -> None:
    made: list[str] = []
    clock = ManualClock(0)

    async def make(name: str, took_ms: int) -> int:
        await asyncio.sleep(0)
        made.append(name)
        clock.now += took_ms
        return len(made)

    async def story() -> None:
        memo = Memo(Clock(clock))
        assert await asyncio.gather(*(memo.get("dear", partial(make, "dear", 300)) for _ in range(10))) == [1] * 10
        clock.now = 2_999
        assert await memo.get("dear", partial(make, "dear", 300)) == 1
        clock.now = 3_000
        assert await memo.get("dear", partial(make, "dear", 0)) == 2
        clock.now = 4_000
        assert await memo.get("dear", partial(make, "dear", 0)) == 3

    asyncio.run(story())


@pytest.mark.parametrize("passed_ms", [0, 500, 5_000, 70_000, 700_000, 4_000_000])
def test_a_stored_status_goes_on_as_one_in_memory(start: Any, passed_ms: int) -> None:
    controller = start()
    settings = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": None}
    for name in ("calm", "stuck", "idle", "sealed", "left", "empty"):
        controller.call("PUT", f"/v1/streams/{name}", settings)
    controller.call("PUT", "/v1/streams/tail", {"segments": 1, "time_domain": "ingestion", "writer_timeout_ms": None})
    controller.call("POST", "/v1/streams/tail/tail", {"reporter": "t", "time": controller.clock.now, "position": {}})
    controller.call("POST", "/v1/streams/tail/writers/t/idle")
    for second in range(3):
        for name in ("calm", "stuck", "idle", "sealed", "left"):
            controller.note("w", NOON + second * 1_000, {"0": second}, name)
            controller.note("v", NOON + (0 if name == "stuck" else second * 1_000), {"1": second}, name)
        controller.pass_time(1_000)
    controller.call("POST", "/v1/streams/idle/writers/w/idle")
    controller.call("POST", "/v1/streams/idle/writers/v/idle")
    controller.call("POST", "/v1/streams/sealed/seal")
    controller.call("POST", "/v1/streams/left/writers/v/exclude")
    controller.pass_time(1_000)

    controller.pass_time(passed_ms)
    controller.app.state.controller.status.forget()
    told = controller.call("GET", "/v1/status?limit=100")["streams"]
    other = start()
    found = other.call("GET", "/v1/status?limit=100")["streams"]

    assert other.app.state.controller.streams.in_memory() == []
    by_name = {each["stream"]: each for each in found}
    assert by_name.keys() == {each["stream"] for each in told}
    for each in told:
        assert by_name[each["stream"]] == each
