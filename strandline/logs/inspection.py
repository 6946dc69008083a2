"""Reads every event of an embedded log, and finds what is damaged. It changes nothing, and writers may go on.

It finds events that cannot be read, gaps in the offsets and faults in the graph of segments, and lets SQLite check the
file. It reads a slice at a time, so that checkpoints of the write-ahead file can go on.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from strandline.core.segment import Segment, SegmentGraph
from strandline.errors import StrandlineError
from strandline.logs import BATCH_FIRST_ROWS
from strandline.logs.layout import SEGMENTS, segment_of
from strandline.logs.sqlite_reader import SqliteLogReader, is_readable

FAULTS_SHOWN: Final = 100  # faults that SQLite lists for the file of a log


class LogFaultKind(StrEnum):
    """The kind of a fault, which decides the remedy."""

    FILE = "file"
    SEGMENT = "segment"
    EVENT = "event"
    MISSING = "missing"


LOG_REMEDIES: Final = {
    LogFaultKind.FILE: "The file itself is damaged: copy it, then restore the log from a backup.",
    LogFaultKind.SEGMENT: "The segments are damaged: copy the file, then restore the log from a backup.",
    LogFaultKind.EVENT: "Events are damaged: restore the log from a backup, or truncate it behind them.",
    LogFaultKind.MISSING: "Events are missing: restore the log from a backup, or truncate it behind them.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFault:
    """A fault of a log, with the event at which it was found."""

    kind: LogFaultKind
    segment: str | None = None
    offset: int | None = None
    reason: str

    def __str__(self) -> str:
        where = [f"segment {self.segment!r}"] if self.segment is not None else []
        where += [f"event {self.offset}"] if self.offset is not None else []
        return f"{', '.join(where) or 'the log'}: {self.reason}"


class LogInspection:
    """Checks a log once. `segments` and `events` count what was read so far."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Opens the log at a path; raises the errors of SqliteLogReader."""
        self._reader = SqliteLogReader(path)
        self.segments = self.events = 0

    def close(self) -> None:
        self._reader.close()

    def faults(self) -> Iterator[LogFault]:
        """Yields faults as it finds them."""
        query = self._reader.query
        try:
            for (reason,) in query(f"PRAGMA integrity_check({FAULTS_SHOWN})"):
                if reason != "ok":
                    yield LogFault(kind=LogFaultKind.FILE, reason=f"SQLite reports: {reason}")
            segments: list[Segment] = []
            for row in query(SEGMENTS):
                try:
                    segments.append(segment_of(row))
                except (ValueError, TypeError, StrandlineError) as error:
                    yield LogFault(
                        kind=LogFaultKind.SEGMENT, segment=_text(row[0]), reason=f"it cannot be read: {error}"
                    )
            self.segments = len(segments)
            yield from _graph_faults(segments)
            for segment in segments:
                yield from self._events(segment)
            unknown = (
                "SELECT segment, count(*) FROM event WHERE segment NOT IN (SELECT id FROM segment) GROUP BY segment"
            )
            for name, count in query(unknown):
                reason = f"{count} events are in it, and the log does not have it"
                yield LogFault(kind=LogFaultKind.SEGMENT, segment=_text(name), reason=reason)
        except sqlite3.Error as error:
            yield LogFault(kind=LogFaultKind.FILE, reason=f"the rest could not be read: {error}")

    def _events(self, segment: Segment) -> Iterator[LogFault]:
        query = (
            "SELECT offset, key, value, appended_at FROM event "
            f"WHERE segment = ? AND offset > ? ORDER BY offset LIMIT {BATCH_FIRST_ROWS}"
        )
        last: int | None = None
        while found := self._reader.query(query, segment.id, -1 if last is None else last):
            for offset, key, value, appended_at in found:
                self.events += 1
                if last is not None and offset <= last:
                    reason = f"it comes again behind event {last}: the rest of the segment is not checked"
                    yield LogFault(kind=LogFaultKind.EVENT, segment=segment.id, offset=offset, reason=reason)
                    return
                if last is not None and offset != last + 1:
                    reason = "it is missing" if offset == last + 2 else f"it is missing, and all up to {offset - 1}"
                    yield LogFault(kind=LogFaultKind.MISSING, segment=segment.id, offset=last + 1, reason=reason)
                if not is_readable(key, value, appended_at):
                    reason = "it cannot be read"
                    yield LogFault(kind=LogFaultKind.EVENT, segment=segment.id, offset=offset, reason=reason)
                last = offset
        end, final = 0 if last is None else last + 1, segment.final_offset
        if final is not None and end != final:
            reason = f"it was sealed at {final}, and its events end at {end}"
            yield LogFault(kind=LogFaultKind.MISSING, segment=segment.id, reason=reason)


def _graph_faults(segments: list[Segment]) -> Iterator[LogFault]:
    names = {each.id for each in segments}
    for name in sorted({name for each in segments for name in each.predecessors} - names):
        yield LogFault(kind=LogFaultKind.SEGMENT, segment=name, reason="it is missing, but it has successors")
    try:
        SegmentGraph(segments)
    except (ValueError, StrandlineError) as error:
        yield LogFault(kind=LogFaultKind.SEGMENT, reason=str(error))


def _text(value: object) -> str:
    return str(value).encode(errors="backslashreplace").decode()
