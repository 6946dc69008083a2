"""The status of one writer, from which its page of the dashboard is drawn."""

from __future__ import annotations

from typing import Any

import pytest

from controller.status.writer_status import WriterDetails
from strandline.core.writer import WriterState
from strandline.errors import UnknownStream, UnknownWriter
from tests.served import NOON, InProcess

SETTINGS: dict[str, Any] = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}


def of_writer(controller: InProcess, writer: str, stream: str = "s") -> WriterDetails:
    found: WriterDetails = controller.portal.call(controller.app.state.controller.status.of_writer, stream, writer)
    return found


def test_a_writer_shows_its_keys_notes_and_timeout(controller: InProcess) -> None:
    controller.call("PUT", "/v1/streams/s", {**SETTINGS, "writer_timeout_ms": 60_000})
    controller.note("slow", NOON, {"0": 1})
    began = controller.clock.now
    for time, offset in ((NOON + 5, 4), (NOON + 9, 7)):
        controller.note("fast", time, {"0": offset})
    controller.pass_time(20_000)
    slow, fast = of_writer(controller, "slow"), of_writer(controller, "fast")
    assert [(each.key, each.state, each.time, each.holds) for each in slow.keys] == [
        ("", WriterState.ACTIVE, NOON, True)
    ]
    assert (slow.keys[0].held_since, slow.times_out_in_ms, slow.heard_at) == (began, 40_000, began)
    assert (fast.keys[0].holds, fast.keys[0].held_since) == (False, None)
    assert [(each.time, dict(each.position.items())) for each in fast.notes] == [
        (NOON + 9, {"0": 7}),
        (NOON + 5, {"0": 4}),
    ]
    assert fast.position == fast.notes[0].position


def test_refused_and_late_notes_are_counted_by_writer(controller: InProcess) -> None:
    controller.call("PUT", "/v1/streams/s", {**SETTINGS, "late_writers": "skip"})
    controller.note("a", 50, {"0": 1})
    controller.note("b", 20, {"0": 1})
    controller.call("POST", "/v1/streams/s/notes", {"writer": "a", "time": 1, "position": {}}, expect=409)
    assert [(each.late, each.refused) for each in (of_writer(controller, "a"), of_writer(controller, "b"))] == [
        (0, 1),
        (1, 0),
    ]


@pytest.mark.parametrize("what", ["exclude", "time out", "close"])
def test_a_writer_that_does_not_count_says_so(controller: InProcess, what: str) -> None:
    controller.call("PUT", "/v1/streams/s", {**SETTINGS, "writer_timeout_ms": 1_000})
    controller.note("w", 5, {})
    assert of_writer(controller, "w").counts
    controller.note("other", 9, {})
    if what == "exclude":
        controller.call("POST", "/v1/streams/s/writers/w/exclude")
    elif what == "close":
        controller.note("w", 50, {})
        controller.call("DELETE", "/v1/streams/s/writers/w")
    else:
        controller.pass_time(1_000)
    found = of_writer(controller, "w")
    assert (found.counts, found.excluded, found.closed) == (False, what == "exclude", what == "close")


def test_an_unknown_writer_or_stream_has_no_status(controller: InProcess) -> None:
    controller.call("PUT", "/v1/streams/s", SETTINGS)
    with pytest.raises(UnknownWriter):
        of_writer(controller, "nobody")
    with pytest.raises(UnknownStream):
        of_writer(controller, "w", "nothing")
