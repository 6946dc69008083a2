"""Domain values as the answers of the contract. What clients read as well is shaped in `strandline.wire.streams`."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from controller.streams.notes import Noted
from controller.streams.reads import MarkPage, MarksAround
from strandline.core.mark import Mark
from strandline.core.segment import SegmentGraph
from strandline.wire.streams import JsonObject, mark_to_wire, marks_page_to_wire, note_answer_to_wire

_encoder = msgspec.json.Encoder()
EVENTS: Final = b"text/event-stream"


def answer(value: Any, status: int = 200) -> Response:  # whatever msgspec can encode
    return Response(_encoder.encode(value), status_code=status, media_type="application/json")


def to_json(value: Any) -> bytes:  # whatever msgspec can encode
    return _encoder.encode(value)


def event_of_end(reason: str) -> bytes:
    """The last of server-sent events."""
    return b"event: end\ndata: %s\n\n" % to_json({"reason": reason})


def mark_or_null(mark: Mark | None, graph: SegmentGraph) -> JsonObject | None:
    return None if mark is None else mark_to_wire(mark, graph)


def marks_json(marks: list[Mark], graph: SegmentGraph) -> JsonObject:
    return marks_page_to_wire(marks, graph)


def page_json(page: MarkPage) -> JsonObject:
    return marks_page_to_wire(page.marks, page.graph, page.resting)


def at_json(at: MarksAround) -> JsonObject:
    return {
        "floor": mark_or_null(at.floor, at.graph),
        "ceiling": mark_or_null(at.ceiling, at.graph),
        "start": at.graph.frontier(at.start),
        "exact": at.exact,
    }


def noted_json(noted: Noted, *, keyed: bool) -> JsonObject:
    """An answer to a note. `keyed`: it had `times`, so floors and holders are by key."""
    return note_answer_to_wire(noted.answer, noted.graph, noted.held_by, keyed=keyed)
