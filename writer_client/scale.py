"""Scales a log and its stream together: the log first, since only the log knows where its segments end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.segment import NewSegment
from strandline.logs import Position


class ScalableLog(Protocol):
    """A log that seals segments and creates their successors in one step. A repeated call does nothing."""

    def scale(self, seal: Iterable[str], create: Sequence[NewSegment]) -> Position: ...


def scale_log(
    connection: Connection, stream: str, log: ScalableLog, seal: Iterable[str], create: Sequence[NewSegment]
) -> Position:
    """Splits or merges segments by key range, in the log and then in the stream; returns the final offsets.

    Writers can go on meanwhile. If a note names a successor that the controller does not have yet, it is refused with
    UnknownSegment; background writers send it again. If the process ends in between, repeat the call: it continues the
    same scaling. Raises the errors of the log, such as InvalidScale, and of the controller.
    """
    finals = log.scale(seal, create)
    connection.run(calls.scale(stream, finals, create))
    return finals
