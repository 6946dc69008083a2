"""Journals changes of a stream that no call names: states of writers, holders of time, incomplete marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from controller.limits import JOURNAL_HELD_MS, JOURNAL_NAMES
from controller.records.counts import StreamCounts
from controller.records.journal import HELD, INCOMPLETE, STATES, Journal
from strandline.core.aggregate import Holder
from strandline.core.changes import Changes, StateChange
from strandline.core.mark import Mark
from strandline.core.stream import Stream
from strandline.core.writer import WriterState


@dataclass(frozen=True, slots=True)
class _Span:
    """A writer holds time back since then: others have noted later times, and no mark was made."""

    holder: Holder
    since: int


class JournalRecorder:
    """Follows the changes of one stream when they are added to a commit."""

    __slots__ = ("_counts", "_held", "_incomplete", "_journal", "_newest")

    def __init__(self, journal: Journal, counts: StreamCounts) -> None:
        self._journal = journal
        self._counts = counts
        counts.loaded()
        self._held: dict[str, _Span] = {}
        self._incomplete: dict[str, Mark] = {}  # by key, the first mark that leaves out the same writers as the newest
        self._newest: dict[str, Mark] = {}  # by key, the newest incomplete mark

    def resume(self, marks: Mapping[str, Sequence[Mark]]) -> None:
        """Continues from the newest stored marks of each key, already journaled. Earlier holders are unknown."""
        for key, of_key in marks.items():
            if of_key and of_key[-1].excluded:
                self._newest[key] = of_key[-1]
                for mark in reversed(of_key):
                    if mark.excluded != of_key[-1].excluded:
                        break
                    self._incomplete[key] = mark

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
            if mark.key in self._held:
                self._release(mark.key, mark.created_at)
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
            if key in marked or (span is not None and not changes.stream and not _concerns(span, changes)):
                continue
            holder = stream.held_by(key, stream.clock)
            if span is None:
                if holder is None:
                    continue
                if times is None:  # for all keys at once: there may be many keys and many writers
                    times = _greatest_times(changes.writers, stream)
                if key in times and (holder.time is None or times[key] > holder.time):
                    self._hold(key, holder, stream.clock)
            elif holder is None or holder.writer != span.holder.writer:
                self._release(key, stream.clock)
                if holder is not None:
                    self._hold(key, holder, stream.clock)

    def _keys(self, changes: Changes, stream: Stream) -> Iterable[str]:
        keys = stream.keys
        if changes.stream or len(keys) == 1:
            return keys
        touched = (stream.writers[name].key_states for name in changes.writers if name in stream.writers)
        return {key for key_states in touched for key in key_states}

    def _hold(self, key: str, holder: Holder, now: int) -> None:
        self._held[key] = _Span(holder, now)
        self._counts.hold(key, holder.writer, holder.state, now)

    def _release(self, key: str, now: int) -> None:
        span = self._held.pop(key)
        self._counts.released(key, now)
        if now - span.since >= JOURNAL_HELD_MS:
            holder = span.holder
            details = {"writer": holder.writer, "key": key, "state": holder.state, "time": holder.time}
            self._journal.tell(HELD, "held", now, {**details, "from": span.since, "to": now})

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
            first = None
        if mark.excluded:
            self._newest[mark.key] = mark
            if first is None:
                self._incomplete[mark.key] = mark
                self._journal.tell(INCOMPLETE, "incomplete", mark.created_at, _marks(mark))


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


def _concerns(span: _Span, changes: Changes) -> bool:
    """Whether the holder may have changed. A span without a writer may end with a change of any writer."""
    return span.holder.writer is None or span.holder.writer in changes.writers


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
