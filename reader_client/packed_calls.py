"""The call for packed marks. It stands here because it takes numpy, which no writer needs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from strandline.client.calls import Call, ask, query, stream_path
from strandline.limits import PACKED_MARKS
from strandline.wire.shapes import reader_of
from strandline.wire.streams import MarksPage

if TYPE_CHECKING:
    from strandline.wire.packed_marks import PackedMarks


def packed_marks(stream: str, *, key: str, after: int, limit: int, wait_ms: int) -> Call[MarksPage | PackedMarks]:
    """The marks after a seq, packed. A controller that does not know how sends up to `limit` as JSON."""
    asked = query(key=key or None, after=after, limit=limit, wait_ms=wait_ms or None, packed=PACKED_MARKS)
    return (yield from ask("GET", f"{stream_path(stream)}/marks{asked}", partial(_read, key), wait_ms=wait_ms))


def _read(key: str, body: bytes) -> MarksPage | PackedMarks:
    if body.startswith(b"{"):
        return reader_of(MarksPage)(body)
    from strandline.wire.packed_marks import read_packed  # where numpy is missing, nobody asks for them

    return read_packed(key, body)
