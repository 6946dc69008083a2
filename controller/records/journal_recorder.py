"""Journals changes of a stream that no call names: states of writers, holders of time, incomplete marks.

What holds since when is stored with each commit that changes it, so that every controller says the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from controller.records.cadence import NO_CADENCE, STILL_LEAST_MS, Cadence
from controller.records.counts import StreamCounts
from controller.records.journal import HELD, HOLDING, INCOMPLETE, JOURNAL_NAMES, PAUSES, STATES, Journal
from controller.storage.journal import StoredEntry
from strandline.core.aggregate import Holder
from strandline.core.changes import Changes, StateChange
from strandline.core.mark import Mark
from strandline.core.stream import Stream
from strandline.core.writer import WriterState


@dataclass(slots=True)
class _Hold:
    """A writer holds time back since then: others have noted later times, and no mark was made."""

    writer: str | None  # None: too few have noted
    state: str
    time: int | None
    since: int
    is_journaled: bool = False  # an entry says that it has begun


class _Spans(msgspec.Struct):
    """What holds, as the store has it: by key, who holds time back, and the seq, time and moment of the first mark that
    leaves out the same writers as the newest."""

    held: dict[str, tuple[str | None, str, int | None, int, bool]] = {}
    incomplete: dict[str, tuple[int, int, int]] = {}


_spans = msgspec.json.Decoder(_Spans)
_encoder = msgspec.json.Encoder()


class JournalRecorder:
    """Follows the changes of one stream when they are added to a commit."""

    __slots__ = ("_changed", "_counts", "_held", "_incomplete", "_journal", "_made_at", "_newest", "spans")

    def __init__(self, journal: Journal, counts: StreamCounts) -> None:
        self._journal = journal
        self._counts = counts
        counts.loaded()
        self.spans = "{}"  # as the store has them
        self._changed = False  # since then
        self._held: dict[str, _Hold] = {}
        self._incomplete: dict[str, Mark] = {}  # by key, the first mark that leaves out the same writers as the newest
        self._newest: dict[str, Mark] = {}  # by key, the newest incomplete mark
        self._made_at: dict[str, int] = {}  # by key, when the newest mark was made

    def take_in(self, spans: str, last_marks: Mapping[str, Mark], now: int) -> None:
        """Goes on from what is stored: what holds, and the newest mark of each key."""
        self._made_at = {key: mark.created_at for key, mark in last_marks.items()}
        self._newest = {key: mark for key, mark in last_marks.items() if mark.excluded}
        if spans == self.spans:
            self._incomplete = {key: first for key, first in self._incomplete.items() if key in self._newest}
            return
        try:
            found = _spans.decode(spans)
        except msgspec.MsgspecError:  # nothing but an age depends on it
            found = _Spans()
        self.spans, self._changed = spans, False
        self._incomplete = {}
        for key, mark in self._newest.items():
            seq, time, since = found.incomplete.get(key, (mark.seq, mark.time, mark.created_at))
            self._incomplete[key] = replace(mark, seq=seq, time=time, created_at=since)
        for key in self._held.keys() - found.held.keys():
            del self._held[key]
            self._counts.released(key, now)
        for key, stored in found.held.items():
            before, hold = self._held.get(key), _Hold(*stored)
            self._held[key] = hold
            if before is None or (before.writer, before.since) != (hold.writer, hold.since):
                self._counts.hold(key, hold.writer, hold.state, now, hold.since)

    def stored(self) -> str:
        """What the store is to have, with the changes that were followed."""
        if self._changed:
            self._changed = False
            held = {
                key: (each.writer, each.state, each.time, each.since, each.is_journaled)
                for key, each in self._held.items()
            }
            incomplete = {key: (each.seq, each.time, each.created_at) for key, each in self._incomplete.items()}
            self.spans = _encoder.encode(_Spans(held, incomplete)).decode()
        return self.spans

    def follow(self, changes: Changes, stream: Stream) -> None:
        """Adds the entries for these changes to the journal."""
        for state in changes.states:
            details: dict[str, object] = {
                "writer": state.writer,
                "key": state.key,
                "before": state.before,
                "after": state.after,
            }
            if state.after is WriterState.BEHIND:
                details |= _how_late(state, stream)
            self._journal.tell(STATES, "state", state.at, details)
        for mark in changes.marks:
            self._follow_pause(mark)
            if mark.key in self._held:
                self._release(mark.key, mark.created_at, stream)
            if mark.excluded or mark.key in self._incomplete:
                self._follow_mark(mark)
        if changes.writers or changes.stream:
            self._update_holders(changes, stream)

    # -- who holds time back -------------------------------------------------------------------------------------

    def held_since(self, key: str) -> int | None:
        span = self._held.get(key)
        return span.since if span is not None else None

    def _update_holders(self, changes: Changes, stream: Stream) -> None:
        """Updates the holders. A single writer holds nobody back, and a holder changes only with its own changes."""
        if len(stream.writers) < 2 and not self._held and stream.config.min_writers < 2:
            return
        marked = {mark.key for mark in changes.marks} if changes.marks else ()
        times: Mapping[str, int] | None = None
        for key in self._keys(changes, stream):
            span = self._held.get(key)
            if key in marked:
                continue
            if span is not None and not changes.stream and not _concerns(span, changes):
                self._log_holding(key, span, stream)
                continue
            holder = stream.held_by(key, stream.clock)
            if span is None:
                if holder is None:
                    continue
                if times is None:  # for all keys at once: there may be many keys and many writers
                    times = _greatest_times(changes.writers, stream)
                if key in times and (holder.time is None or times[key] > holder.time):
                    self._hold(key, holder, stream.clock)
            elif holder is None or holder.writer != span.writer:
                self._release(key, stream.clock, stream)
                if holder is not None:
                    self._hold(key, holder, stream.clock)
            else:
                self._log_holding(key, span, stream)

    def _keys(self, changes: Changes, stream: Stream) -> Iterable[str]:
        keys = stream.keys
        if changes.stream or len(keys) == 1:
            return keys
        touched = (stream.writers[name].key_states for name in changes.writers if name in stream.writers)
        return {key for key_states in touched for key in key_states}

    def _hold(self, key: str, holder: Holder, now: int) -> None:
        self._held[key] = _Hold(holder.writer, holder.state, holder.time, now)
        self._changed = True
        self._counts.hold(key, holder.writer, holder.state, now)

    def _log_holding(self, key: str, span: _Hold, stream: Stream) -> None:
        """Journals once that a span has lasted too long, so that whoever loads the stream next knows since when."""
        now = stream.clock
        if span.is_journaled or not self._is_too_long(key, span, now, stream):
            return
        span.is_journaled = self._changed = True
        details = {"writer": span.writer, "key": key, "state": span.state, "time": span.time}
        self._journal.tell(HOLDING, "holding", now, {**details, "from": span.since})

    def _release(self, key: str, now: int, stream: Stream) -> None:
        span = self._held.pop(key)
        self._changed = True
        self._counts.released(key, now)
        if span.is_journaled or self._is_too_long(key, span, now, stream):
            details = {"writer": span.writer, "key": key, "state": span.state, "time": span.time}
            self._journal.tell(HELD, "held", now, {**details, "from": span.since, "to": now})

    def _is_too_long(self, key: str, span: _Hold, now: int, stream: Stream) -> bool:
        return now - span.since >= self._counts.too_long_ms(key, stream.config.writer_timeout_ms)

    # -- pauses --------------------------------------------------------------------------------------------------

    def _follow_pause(self, mark: Mark) -> None:
        """Journals the first mark of a key, and each that comes after too long a pause: time moves since then."""
        key, at = mark.key, mark.created_at
        last = self._made_at.get(key)
        self._made_at[key] = at
        if last is None:
            if mark.seq == 1:
                self._journal.tell(PAUSES, "first_mark", at, {"key": key, "to": at})
        elif at - last > STILL_LEAST_MS and at - last > self._counts.cadences.get(key, NO_CADENCE).still_ms:
            self._journal.tell(PAUSES, "pause_ended", at, {"key": key, "from": last, "to": at})

    # -- incomplete marks ----------------------------------------------------------------------------------------

    def incomplete_since(self, key: str) -> int | None:
        """When the first of the newest marks was made that leave the same writers out."""
        first = self._incomplete.get(key)
        return first.created_at if first is not None else None

    def _follow_mark(self, mark: Mark) -> None:
        first, newest = self._incomplete.get(mark.key), self._newest.get(mark.key)
        if first is not None and newest is not None and first.excluded != mark.excluded:
            details = {**_marks(first), "to": mark.created_at, "to_seq": newest.seq, "to_time": newest.time}
            self._journal.tell(INCOMPLETE, "incomplete_ended", mark.created_at, details)
            del self._incomplete[mark.key], self._newest[mark.key]
            self._changed = True
            first = None
        if mark.excluded:
            self._newest[mark.key] = mark
            if first is None:
                self._incomplete[mark.key] = mark
                self._changed = True
                self._journal.tell(INCOMPLETE, "incomplete", mark.created_at, _marks(mark))


def resume_cadence(cadence: Cadence, key: str, entries: Sequence[StoredEntry]) -> None:
    """Since when time moves, by the newest entries of the journal, newest first."""
    entry = _newest_about(entries, PAUSES, key)
    since = None if entry is None else entry.details.get("to")
    if isinstance(since, int):
        cadence.resume(since)


def _newest_about(entries: Sequence[StoredEntry], topic: str, key: str) -> StoredEntry | None:
    """The first of these entries that is about a topic and a key."""
    return next((each for each in entries if each.topic == topic and each.details.get("key") == key), None)


def _how_late(state: StateChange, stream: Stream) -> dict[str, object]:
    """The time of a writer that is behind, and that of the newest mark."""
    mark, writer = stream.last_marks.get(state.key), stream.writers.get(state.writer)
    key_state = writer.key_states.get(state.key) if writer is not None else None
    if mark is None or key_state is None:
        return {}
    return {"time": key_state.value, "mark_time": mark.time}


def _marks(first: Mark) -> dict[str, object]:
    """Which writers marks leave out, and since which mark."""
    return {
        "key": first.key,
        "excluded": list(first.excluded[:JOURNAL_NAMES]),
        "excluded_writers": len(first.excluded),
        "from": first.created_at,
        "from_seq": first.seq,
        "from_time": first.time,
    }


def _concerns(span: _Hold, changes: Changes) -> bool:
    """Whether the holder may have changed. A span without a writer may end with a change of any writer."""
    return span.writer is None or span.writer in changes.writers


def _greatest_times(names: Iterable[str], stream: Stream) -> dict[str, int]:
    """By key, the greatest time that any of these writers noted, without excluded writers."""
    greatest: dict[str, int] = {}
    for name in names:
        writer = stream.writers.get(name)
        if writer is None or writer.excluded_at is not None:
            continue
        for key, key_state in writer.key_states.items():
            time = key_state.time
            if time is not None and time > greatest.get(key, time - 1):
                greatest[key] = time
    return greatest
