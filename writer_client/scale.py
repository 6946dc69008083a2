"""Scaling a log and its stream together: the log first, which alone knows where its segments end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.segment import NewSegment
from strandline.logs import Position


class ScalableLog(Protocol):
    """A log that seals segments and creates their successors at one moment, and does it once when asked twice."""

    def scale(self, seal: Iterable[str], create: Sequence[NewSegment]) -> Position: ...


def scale_log(
    connection: Connection, stream: str, log: ScalableLog, seal: Iterable[str], create: Sequence[NewSegment]
) -> Position:
    """Splits or merges segments by key range, in the log and then in the stream; returns the final offsets.

    Writers go on meanwhile: a note that names a successor before the controller has heard of it is refused with
    UnknownSegment, and sent again in background mode. Where this ends in between, do it again: it is the same scaling.
    Raises what the log raises (InvalidScale, for one), and what the controller does.
    """
    finals = log.scale(seal, create)
    connection.run(calls.scale(stream, finals, create))
    return finals
