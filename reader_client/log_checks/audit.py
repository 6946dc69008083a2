"""One audit of a log against the marks of its stream: what it has judged, and where the next one begins.

Segments are read one after the other, each event once. The time index of a segment is read beside it, and the marks
only if an event is late, to learn whom they leave out. In memory are a page of each, the events that are named, and the
periods in which marks leave writers out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from reader_client.log_checks.event_sources import CheckFailed, EventFields, NoTime
from reader_client.log_checks.promises import AuditCounts, LateCounts, LateEvent, LeftOut, SegmentAudit
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import TimeDomain
from strandline.core.time_index import IndexEntry
from strandline.limits import PAGE_ENTRIES
from strandline.logs import LogReader
from strandline.logs.places import Place
from strandline.wire.streams import StreamDescription

AUDIT_PAGE_OFFSETS: Final = 200_000  # of the cuts of marks, in one answer
AUDIT_WRITERS: Final = 1_000  # that are counted by name; of one segment, that could have written an event
AUDIT_STATE_BYTES: Final = 64 * 1024 * 1024  # of the file that --state names

STATE_VERSION: Final = 2


class AuditState(msgspec.Struct, forbid_unknown_fields=True):
    """Where the next audit begins: in each segment, the first offset of which a later mark may say more. `about` has
    what was audited, and how."""

    about: dict[str, Any]
    position: dict[str, int]


@dataclass(frozen=True, slots=True)
class AuditedStream:
    """What an audit has to know of a stream. `created_at` tells it from one of the same name that was deleted; `oldest`
    is the seq of the first mark that is kept."""

    name: str
    key: str
    created_at: int
    open: bool
    oldest: int | None
    described: StreamDescription

    @property
    def newest(self) -> int | None:
        """The time of the newest mark."""
        mark = self.described.latest_marks.get(self.key)
        return None if mark is None else mark.time

    def created(self, segment: str) -> int | None:
        """When a segment was created; None if the stream has no such segment."""
        return next((each.segment.created_at for each in self.described.segments if each.segment.id == segment), None)


class AuditRun:
    """Judges the events of a log, from a position to where it ends now."""

    def __init__(
        self,
        connection: Connection,
        stream: AuditedStream,
        log: Place,
        fields: EventFields,
        *,
        log_name: str,
        most: int,
        state: Path | None,
        begin: Mapping[str, int],
    ) -> None:
        """Names at most so many late events. Begins where the file `state` says, if it is there, else at `begin`.

        Raises CheckFailed for a state of something else, and for a position that the log does not have.
        """
        self._connection = connection
        self._stream = stream
        self._log = log
        self._fields = fields
        self._most = most
        self._state = state
        self._about = {
            "version": STATE_VERSION,
            "stream": stream.name,
            "stream_created_at": stream.created_at,
            "key": stream.key,
            "log": log_name,
            "field": fields.time,
            "writer": fields.writer,
        }
        with closing(log.open_reader()) as reader:
            self.ends = reader.end_offsets()
        self.starts, self.removed = self._begin(self._stored(begin))
        self.position = dict(self.starts)  # where the next audit begins
        self.counts = {segment: AuditCounts() for segment in self.ends}
        self.late: list[LateEvent] = []  # the first ones, by name
        self.writers: dict[str, LateCounts] = {}  # of the first AUDIT_WRITERS that wrote a late event, if events say so
        self._absent = LeftOut()
        self._after_mark = 0
        self._read = self._late = 0
        self.undecided: dict[str, int] = {}  # by segment with events that cannot be read yet, the first offset of them
        self.beyond: dict[str, int] = {}  # by segment that ends below it, the offset of the newest mark
        self.unreadable_example = ""
        self._oldest: int | None = None
        self._newest: int | None = None  # of the times of the events that were read
        self.stopped = False

    def left_out(self, late: LateEvent) -> list[str]:
        """The writers that every mark leaves out for which an event is late."""
        self._take_marks_to(late.mark_time)
        return self._absent.writers(late.time, late.mark_time)

    # -- reading ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Reads to the end, or until Ctrl-C, and writes the state.

        Raises CheckFailed if the events have no time, or look to have one in another unit: the next audit is to begin
        where this one did.
        """
        self._save(keep=False)  # which may fail, and had better do so now
        try:
            with closing(self._log.open_reader()) as reader:
                for segment in self.ends:
                    self._segment(reader, segment)
                readable = reader.end_offsets()
            written = self._log.written_to()
            self.undecided = {
                segment: end for segment, end in self.ends.items() if written.get(segment, 0) > readable[segment]
            }
            self.beyond = {segment: offset for segment, offset in self.beyond.items() if offset > written[segment]}
        except KeyboardInterrupt:
            self.stopped = True
        reason = self._not_judged()
        if reason is not None:
            raise CheckFailed(reason)
        self._save()

    def _segment(self, reader: LogReader, segment: str) -> None:
        start, end = self.starts[segment], self.ends[segment]
        audit = SegmentAudit(segment, start, self._entries(segment, start), self._is_left_out)
        self.counts[segment] = audit.counts
        try:
            for event in reader.rows(segment, start, end):
                self._read += 1
                try:
                    found = self._fields.of(event)
                except NoTime as error:
                    audit.skip(event.offset)
                    self.unreadable_example = f"segment {segment}, offset {event.offset}: {error}"
                    continue
                at = found.time
                self._oldest = at if self._oldest is None else min(at, self._oldest)
                self._newest = at if self._newest is None else max(at, self._newest)
                late = audit.check(event.offset, at, appended_at=event.appended_at, writer=found.writer)
                if late is not None:
                    self._keep(late)
            newest = audit.end(end)
        finally:
            self.position[segment] = audit.position
        if newest > end:
            self.beyond[segment] = newest

    def _keep(self, late: LateEvent) -> None:
        self._late += 1
        if len(self.late) < self._most:
            self.late.append(late)
        if late.writer is not None and (late.writer in self.writers or len(self.writers) < AUDIT_WRITERS):
            self.writers.setdefault(late.writer, LateCounts()).count(late)

    def _not_judged(self) -> str | None:
        """Why nothing can be said of the events: none has a time, or their times look to be in another unit, in which
        those of marks are not."""
        if self._oldest is None and self.unreadable_example and not self.stopped:
            return f"no event has a time: {self.unreadable_example}"
        marked = self._stream.newest
        unit = self._fields.looks_like(self._oldest, self._newest)
        if unit is None or unit is self._fields.looks_like(marked, marked):
            return None
        return f"the times of these events look like {unit.word}, and nothing was judged: use --unit {unit}"

    def far(self) -> str:
        """How far it is, for a terminal."""
        offsets = sum(self.ends.values()) - sum(self.starts.values())
        return f"read {self._read:,} events, of {offsets:,} offsets, {self._late:,} late; Ctrl-C shows what was read"

    # -- marks -----------------------------------------------------------------------------------------------------

    def _entries(self, segment: str, start: int) -> Iterator[IndexEntry]:
        """The time index of a segment, as marks have it, from the entry at or below an offset on."""
        created_at = self._stream.created(segment)
        if created_at is None:  # no cut reaches into it
            if self._stream.newest is not None:
                yield IndexEntry(0, self._stream.newest)
            return
        if self._stream.described.config.time_domain is not TimeDomain.INGESTION:
            created_at = None
        token = None
        while True:
            page = self._connection.run(
                calls.time_index(
                    self._stream.name,
                    segment,
                    key=self._stream.key,
                    from_offset=start,
                    token=token,
                    limit=PAGE_ENTRIES,
                )
            )
            for entry in page.entries:
                if created_at is None or entry != IndexEntry(0, created_at):  # which no mark has said
                    yield entry
            if len(page.entries) < PAGE_ENTRIES:
                return
            token = page.token

    def _is_left_out(self, at: int, mark_time: int, writer: str | None) -> bool:
        self._take_marks_to(mark_time)
        return self._absent.by_all_marks(at, mark_time, writer)

    def _take_marks_to(self, mark_time: int) -> None:
        absent = self._absent
        limit = max(1, min(PAGE_ENTRIES, AUDIT_PAGE_OFFSETS // max(1, len(self._stream.described.segments))))
        while absent.reached is None or absent.reached < mark_time:
            stream = self._stream
            page = self._connection.run(calls.marks(stream.name, key=stream.key, after=self._after_mark, limit=limit))
            if not page.marks:
                raise CheckFailed(f"the marks of {stream.name} up to {mark_time} are gone: was it deleted meanwhile?")
            for mark in page.marks:
                absent.take(mark.time, mark.excluded)
            self._after_mark = page.marks[-1].seq

    # -- where it begins, and the state ----------------------------------------------------------------------------

    def _begin(self, wanted: Mapping[str, int]) -> tuple[dict[str, int], int]:
        """The first offset of each segment that is judged, and how many wanted ones the log does not have any more."""
        for segment, offset in wanted.items():
            if segment not in self.ends:
                raise CheckFailed(
                    f"{self._log} has no segment {segment!r}, in which the audit is to go on: it has "
                    f"{', '.join(list(self.ends)[:10]) or 'none'}"
                )
            if offset > self.ends[segment]:
                raise CheckFailed(
                    f"the audit is to go on at {offset} in segment {segment}, but {self._log} ends at "
                    f"{self.ends[segment]} there: is it another log, or an older copy?"
                )
        starts, removed, heads = {}, 0, self._log.head()
        for segment, end in self.ends.items():
            head = min(heads.get(segment, 0), end)
            starts[segment] = max(wanted.get(segment, 0), head)
            removed += max(0, head - wanted.get(segment, 0))
        return starts, removed

    def _stored(self, begin: Mapping[str, int]) -> Mapping[str, int]:
        """Where to begin, as the file says it; if there is none, as given."""
        if self._state is None:
            return begin
        try:
            with self._state.open("rb") as file:
                found = msgspec.json.decode(file.read(AUDIT_STATE_BYTES), type=AuditState)
        except FileNotFoundError:
            return begin
        except msgspec.DecodeError as error:
            raise CheckFailed(f"{self._state} is no state of an audit ({error}): name another file") from None
        for name, value in self._about.items():
            if found.about.get(name) != value:
                was = found.about.get(name)
                raise CheckFailed(f"{self._state} is of an audit with {name} {was!r}, not {value!r}: name another file")
        if begin:
            raise CheckFailed(f"{self._state} has where to begin: leave out --from, or remove the file")
        return found.position

    def _save(self, *, keep: bool = True) -> None:
        """Writes the state; without `keep` it only tries whether it can be written."""
        if self._state is None:
            return
        new = self._state.with_name(f"{self._state.name}.new")
        new.write_bytes(msgspec.json.encode(AuditState(self._about, self.position)))
        if keep:
            os.replace(new, self._state)
        else:
            new.unlink()
