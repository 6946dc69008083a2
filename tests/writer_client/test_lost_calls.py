"""Requests and answers that get lost."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strandline.protocol.attempts import Patience
from strandline.protocol.errors import ControllerAway
from strandline.protocol.transport import Connection
from writer_client import Event, Writer


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    steps=st.lists(st.sampled_from(["write", "note", "idle", "register"]), min_size=1, max_size=8),
    faults=st.lists(st.sampled_from(["", "away", "lost", "lost"]), max_size=25),
)
def test_lost_requests_and_answers_change_no_mark(
    controller: Any, make_writer: Any, faulty_pair: Any, steps: list[str], faults: list[str]
) -> None:
    """The same story over a good wire and over a bad one: the marks are the same, but for when they were made."""

    def story(faults: list[str]) -> list[tuple[int, int, Any, bool]]:
        stream = controller.stream()
        wire, log = faulty_pair(faults)
        with make_writer(stream, log=log, wire=wire) as writer:
            writer.note_time(0)
            for time, step in enumerate(steps, start=1):
                match step:
                    case "write":
                        writer.write([Event(b"x", segment=str(time % 3))])
                    case "note":
                        writer.note_time(time * 10)
                    case "idle":
                        writer.idle()
                    case "register":
                        writer.register()
        return [(mark.time, mark.upper, mark.cut, mark.complete) for mark in controller.marks(stream)]

    assert story(faults) == story([])


def test_a_controller_that_is_away_is_told_from_one_that_refuses() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        away = f"http://127.0.0.1:{bound.getsockname()[1]}"
        connection = Connection(away, patience=Patience(deadline_ms=20, first_pause_ms=5))
        with connection, pytest.raises(ControllerAway) as raised:
            Writer(connection, "orders", "w1").register()
        assert raised.value.controller == away
