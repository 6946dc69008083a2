"""Domain values as the shapes of the contract, and these as JSON."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from starlette.responses import Response

from controller.streams.notes import Noted
from controller.streams.reads import MarkPage, MarksAround
from strandline.core.mark import Mark
from strandline.core.segment import SegmentGraph
from strandline.wire.streams import (
    KeyedNoteReply,
    MarksAt,
    MarksPage,
    NoteReply,
    WireMark,
    marks_page,
    note_reply,
    wire_mark,
)

_encoder = msgspec.json.Encoder()
EVENTS: Final = b"text/event-stream"


def answer(value: Any, status: int = 200) -> Response:  # whatever msgspec can encode
    return Response(_encoder.encode(value), status_code=status, media_type="application/json")


def to_json(value: Any) -> bytes:  # whatever msgspec can encode
    return _encoder.encode(value)


def event_of_end(reason: str) -> bytes:
    """The last of server-sent events."""
    return b"event: end\ndata: %s\n\n" % to_json({"reason": reason})


def mark_or_null(mark: Mark | None, graph: SegmentGraph) -> WireMark | None:
    return None if mark is None else wire_mark(mark, graph)


def page_of(page: MarkPage) -> MarksPage:
    return marks_page(page.marks, page.graph, page.resting)


def around(at: MarksAround) -> MarksAt:
    return MarksAt(
        floor=mark_or_null(at.floor, at.graph),
        ceiling=mark_or_null(at.ceiling, at.graph),
        start=at.graph.frontier(at.start),
        exact=at.exact,
    )


def reply_to(noted: Noted, *, keyed: bool) -> NoteReply | KeyedNoteReply:
    """An answer to a note. `keyed`: it had `times`, so floors and holders are by key."""
    return note_reply(noted.answer, noted.graph, noted.held_by, keyed=keyed)
