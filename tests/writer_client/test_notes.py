"""Notes, and what the controller answers."""

from __future__ import annotations

from typing import Any

import pytest

from strandline.client import calls
from strandline.core.config import StreamConfig
from strandline.core.segment import NewSegment
from strandline.errors import (
    BeyondFinalOffset,
    InvalidName,
    InvalidNote,
    PositionWentBack,
    StrandlineError,
    TimeTooFarAhead,
    TimeWentBack,
    UnknownSegment,
)


def test_a_note_is_answered_with_the_mark_that_it_brought(controller: Any, make_writer: Any) -> None:
    stream = controller.stream()
    with make_writer(stream) as writer:
        answer = writer.note_time(100, {"0": 5, "1": 7}, newest=180)
        (mark,) = answer.marks
        assert (mark.time, mark.cut, mark.newest, mark.seq) == (100, {"0": 5, "1": 7}, 180, 1)
        assert (answer.late, answer.floor, dict(answer.held_by)) == (False, None, {})
    assert controller.marks(stream) == (mark,)


def test_a_writer_that_never_registered_does_so_before_its_first_note(
    controller: Any, make_writer: Any, wire: Any
) -> None:
    writer = make_writer(controller.stream(), wire=wire)
    writer.note_time(100, {"0": 5})
    writer.note_time(101, {"0": 6})
    assert wire.lines == ["PUT writers/w1", "POST notes", "POST notes"]
    assert [request.body["epoch"] for request in wire.requests[1:]] == [1, 1]


@pytest.mark.parametrize(
    ("time", "position", "error", "values"),
    [
        (99, {}, TimeWentBack, {"writer": "w1", "key": "", "time": 99, "stored_time": 100}),
        (101, {"0": 4}, PositionWentBack, {"writer": "w1", "segment": "0", "offset": 4, "stored_offset": 5}),
        (100, {"9": 4}, UnknownSegment, {"segment": "9", "known": ("0", "1", "2", "3")}),
        (100, {"1": 401}, BeyondFinalOffset, {"segment": "1", "offset": 401, "final_offset": 400}),
        (2**52, {}, TimeTooFarAhead, None),
        (1.5, {}, InvalidNote, None),
        (None, {}, InvalidNote, None),
        (100, {"a/b": 1}, InvalidName, {"what": "segment", "name": "a/b"}),
    ],
)
def test_a_refusal_is_the_typed_error_and_changes_nothing(
    controller: Any,
    make_writer: Any,
    time: Any,
    position: dict[str, int],
    error: type[StrandlineError],
    values: dict[str, Any] | None,
) -> None:
    stream = controller.stream(config=StreamConfig(mark_interval_ms=0))
    controller.run(calls.scale(stream, {"1": 400}, [NewSegment("3", 1 / 3, 2 / 3)]))
    with make_writer(stream) as writer:
        writer.note_time(100, {"0": 5})
        with pytest.raises(error) as raised:
            writer.note_time(time, position)
        assert values is None or raised.value.values == values
        (mark,) = writer.note_time(101, {"0": 6}).marks
        assert mark.cut == {"0": 6}
