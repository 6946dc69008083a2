"""Many notes go in one request, and each of them gets its own answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.client.http import Connection, HttpTransport
from strandline.client.retry import Patience
from strandline.core.note import Note
from strandline.errors import ControllerAway, TimeWentBack, UnknownStream
from strandline.testing import FaultyTransport
from strandline.wire.streams import note_body
from tests.writer_client.conftest import INSTANT, Wire
from writer_client import AsyncWriter
from writer_client.machine import Phase
from writer_client.notes import BATCH_BYTES, BATCH_NOTES, Addressed, count_for_batch

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,12}", fullmatch=True)
TIMES = st.integers(-(2**53) + 1, 2**53 - 1)
KEYED = st.dictionaries(st.just("") | NAMES, TIMES, min_size=1, max_size=4)


@given(
    stream=NAMES,
    writer=NAMES,
    times=KEYED,
    newest=st.just({}) | KEYED,
    position=st.dictionaries(NAMES, st.integers(0, 2**53 - 1), max_size=6),
    epoch=st.none() | st.integers(1, 2**53 - 1),
)
def test_a_note_takes_no_more_room_than_is_counted_for_it(
    stream: str, writer: str, times: dict[str, int], newest: dict[str, int], position: dict[str, int], epoch: int | None
) -> None:
    note = Note(writer=writer, times=times, newest=newest, position=position, epoch=epoch)
    sent = json.dumps({"stream": stream, **note_body(note)}, separators=(",", ":"))
    assert len(sent) + 1 <= Addressed(stream, note).size_bytes  # and a comma


@given(sizes=st.lists(st.integers(1, BATCH_BYTES * 2), max_size=30))
def test_a_batch_is_as_large_as_possible_and_never_empty(sizes: list[int]) -> None:
    count = count_for_batch(sizes)
    assert (count > 0) == bool(sizes)
    assert count <= 1 or sum(sizes[:count]) <= BATCH_BYTES
    assert count == len(sizes) or sum(sizes[: count + 1]) > BATCH_BYTES


def test_a_batch_has_no_more_notes_than_a_request_takes() -> None:
    assert count_for_batch([1] * (BATCH_NOTES + 5)) == BATCH_NOTES


def together(url: str, wire: Wire, *writers: tuple[str, str], **patience: int) -> tuple[Connection, list[AsyncWriter]]:
    transport = FaultyTransport(HttpTransport(url), wire)
    connection = Connection(url, transport=transport, patience=Patience(**patience), seams=INSTANT)
    return connection, [AsyncWriter(connection, stream, name) for stream, name in writers]


async def outcomes(*notes: Coroutine[Any, Any, Any]) -> list[Any]:
    return await asyncio.gather(*notes, return_exceptions=True)


def test_notes_made_at_the_same_time_share_requests(controller: Any, wire: Wire) -> None:
    streams = [controller.stream(), controller.stream()]

    async def run() -> list[Any]:
        names = [(streams[number % 2], f"w{number}") for number in range(200)]
        connection, writers = together(controller.url, wire, *names)
        with connection:
            await asyncio.gather(*(writer.register() for writer in writers))
            wire.requests.clear()
            return await outcomes(*(writer.note_time(100, {"0": 1}) for writer in writers))

    answers = asyncio.run(run())
    assert not [answer for answer in answers if isinstance(answer, Exception)]
    assert wire.lines == ["POST notes"]
    for stream in streams:
        assert controller.states(stream) == {"active": 100}
        assert [mark.time for mark in controller.marks(stream)] == [100]


def test_each_note_of_a_batch_has_its_own_answer(controller: Any, wire: Wire) -> None:
    stream = controller.stream()

    async def run() -> list[Any]:
        connection, writers = together(controller.url, wire, (stream, "w1"), (stream, "w2"), ("nowhere", "w3"))
        with connection:
            await outcomes(*(writer.note_time(100, {"0": 1}) for writer in writers[:2]))
            writers[2]._machine.phase = Phase.HOLDING  # as if it had registered before the stream was deleted
            return await outcomes(
                *(writer.note_time(time, {"0": 2}) for writer, time in zip(writers, (99, 101, 1), strict=True))
            )

    back, taken, lost = asyncio.run(run())
    assert isinstance(back, TimeWentBack)
    assert not taken.late
    assert isinstance(lost, UnknownStream)


def test_a_request_that_fails_answers_all_its_notes(controller: Any, wire: Wire) -> None:
    stream = controller.stream()

    async def run() -> list[Any]:
        connection, writers = together(controller.url, wire, (stream, "w1"), (stream, "w2"), attempts=1)
        with connection:
            await asyncio.gather(*(writer.register() for writer in writers))
            wire.faults = ["away"]
            first = await outcomes(*(writer.note_time(100, {"0": 1}) for writer in writers))
            return first + await outcomes(*(writer.note_time(100, {"0": 1}) for writer in writers))

    answers = asyncio.run(run())
    assert [isinstance(answer, ControllerAway) for answer in answers] == [True, True, False, False]


def test_who_stops_waiting_for_an_answer_keeps_nobody_else_from_theirs(controller: Any, wire: Wire) -> None:
    stream = controller.stream()

    async def run() -> Any:
        connection, (first, second) = together(controller.url, wire, (stream, "w1"), (stream, "w2"))
        with connection:
            await asyncio.gather(first.register(), second.register())
            impatient = asyncio.create_task(first.note_time(100, {"0": 1}))
            patient = asyncio.create_task(second.note_time(100, {"0": 1}))
            while not wire.lines[2:]:
                await asyncio.sleep(0)
            impatient.cancel()
            answer = await patient
            with pytest.raises(asyncio.CancelledError):
                await impatient
            return answer

    assert not asyncio.run(run()).late
    assert controller.states(stream) == {"active": 2}
