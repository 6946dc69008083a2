"""Scripted faults reach a client as the real ones do."""

from __future__ import annotations

import asyncio

import pytest

from reader_client import AsyncTimeWindows, TimeWindows
from strandline.client import calls
from strandline.client.calls import Request
from strandline.client.http import Connection
from strandline.client.retry import ATTEMPT_DEFAULT_MS, Patience
from strandline.core.note import Note
from strandline.errors import ControllerAway, InvalidConfig, OutcomeUnknown, StoreUnavailable
from strandline.testing import NOON, Fault, Faults, InProcessController, Slow
from strandline.testing.faults import Entry

HASTY = Patience(attempts=1)


def note(connection: Connection, stream: str) -> None:
    connection.run(calls.note(stream, Note(writer="w1", times={"": NOON}, position={"0": 1})))


def was_noted(controller: InProcessController, stream: str) -> bool:
    return bool(TimeWindows(controller.connection(), stream).marks().marks)


@pytest.mark.parametrize(
    ("entry", "error", "noted"),
    [
        (Fault.CONTROLLER_AWAY, ControllerAway, False),
        (Fault.REQUEST_LOST, OutcomeUnknown, False),
        (Fault.ANSWER_LOST, OutcomeUnknown, True),
        (Fault.STORE_AWAY, StoreUnavailable, False),
        (Slow(ATTEMPT_DEFAULT_MS + 1), OutcomeUnknown, True),
    ],
)
def test_what_the_client_hears_and_what_the_controller_did(
    controller: InProcessController, entry: Entry, error: type[Exception], noted: bool
) -> None:
    stream = f"fault-{getattr(entry, 'value', 'slow')}"
    controller.create_stream(stream)
    connection = controller.connection(Faults(entry), patience=HASTY)
    with pytest.raises(error):
        note(connection, stream)
    assert was_noted(controller, stream) == noted


@pytest.mark.parametrize("entry", [*Fault, Slow(ATTEMPT_DEFAULT_MS + 1)])
def test_a_patient_client_gets_over_each_of_them(controller: InProcessController, entry: Entry) -> None:
    stream = f"patience-{getattr(entry, 'value', 'slow')}"
    controller.create_stream(stream)
    faults = Faults(entry, entry)
    note(controller.connection(faults), stream)
    assert was_noted(controller, stream)
    assert [request.method for request in faults.requests] == ["POST"] * 3
    faults = Faults(Slow(ATTEMPT_DEFAULT_MS))  # which is only late
    note(controller.connection(faults, patience=HASTY), stream)
    assert len(faults.requests) == 1


def test_what_is_always_so_ends_a_calls_patience_without_a_sleep(controller: InProcessController, stream: str) -> None:
    faults = Faults(None)
    windows = TimeWindows(controller.connection(faults), stream)
    faults.always(Fault.CONTROLLER_AWAY)
    assert windows.marks().marks == ()  # the entry that goes well
    with pytest.raises(ControllerAway) as caught:
        windows.marks()
    assert caught.value.tried_ms > 1_000
    faults.always(None)
    assert windows.marks().marks == ()


def test_async_clients_meet_the_same(controller: InProcessController, stream: str) -> None:
    async def read() -> int:
        faults = Faults(Fault.ANSWER_LOST, Fault.STORE_AWAY)
        async with controller.async_connection(faults) as connection:
            await AsyncTimeWindows(connection, stream).marks()
        return len(faults.requests)

    assert asyncio.run(read()) == 3


@pytest.mark.parametrize("answer_ms", [-1, 1.5, True])
def test_an_answer_takes_whole_milliseconds(answer_ms: object) -> None:
    with pytest.raises(InvalidConfig, match="answer_ms"):
        Slow(answer_ms)  # type: ignore[arg-type]  # that is the point


def test_a_script_of_ones_own_goes_by_what_is_asked(controller: InProcessController, stream: str) -> None:
    class NotesAreLost:
        def take(self, request: Request) -> Entry:
            return Fault.REQUEST_LOST if request.path.endswith("/notes") else None

    connection = controller.connection(NotesAreLost(), patience=HASTY)
    with pytest.raises(OutcomeUnknown):
        note(connection, stream)
    assert TimeWindows(connection, stream).marks().marks == ()
