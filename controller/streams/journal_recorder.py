"""Journals changes of a stream that no call names: states of writers, holders of time, pauses, incomplete marks.

What holds since when is stored with each commit that changes it. What comes next is a function of that and of what the
commit changes, so that every controller has the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from controller.commit.journal import JOURNAL_NAMES, Journal, Topic
from controller.streams.ahead import AheadWriter, next_ahead
from controller.streams.cadence import NO_CADENCE, STILL_LEAST_MS, Cadence
from controller.streams.counts import StreamCounts
from controller.streams.standing import FirstMark, Hold, Spans
from strandline.core.aggregate import Holder
from strandline.core.chain import MarkChain
from strandline.core.changes import Changes, StateChange
from strandline.core.mark import Mark
from strandline.core.stream import Stream
from strandline.core.writer import WriterState


def recorded(
    spans: Spans,
    changes: Changes,
    stream: Stream,
    chains: Mapping[str, MarkChain],
    journal: Journal,
    refused: Sequence[AheadWriter] = (),
) -> Spans:
    """Adds the entries for changes to the journal, and returns what holds after them. `chains` end with the last mark
    before these changes; `refused` are the writers whose notes were refused as too far ahead meanwhile."""
    for state in changes.states:
        details: dict[str, object] = {
            "writer": state.writer,
            "key": state.key,
            "before": state.before,
            "after": state.after,
        }
        if state.after is WriterState.BEHIND:
            details |= _how_late(state, stream)
        journal.record(Topic.STATES, "state", state.at, details)
    if not (changes.marks or changes.writers or changes.stream or refused):
        return spans
    held, incomplete, cadences = dict(spans.held), dict(spans.incomplete), dict(spans.cadences)
    newest = dict[str, Mark]()
    for mark in changes.marks:
        last = newest.get(mark.key)
        if last is None and mark.key in chains:
            last = chains[mark.key].last
        newest[mark.key] = mark
        _record_pause(mark, last, cadences, journal)
        if mark.excluded or mark.key in incomplete:
            _record_incomplete(mark, last, incomplete, journal)
    if held or len(stream.writers) > 1 or stream.config.min_writers > 1:  # a single writer holds nobody back
        _Holds(held, stream, cadences, journal).update(changes)
    return Spans(held, incomplete, cadences, next_ahead(spans.ahead, refused, changes, stream, journal))


def count_held(before: Spans, after: Spans, counts: StreamCounts, now: int) -> None:
    """Counts how long writers hold time back, as one span follows another."""
    for key in before.held.keys() | after.held.keys():
        old, new = before.held.get(key), after.held.get(key)
        if old is not None and new is not None and (old.writer, old.since) == (new.writer, new.since):
            continue
        if old is not None:
            counts.released(key, now)
        if new is not None:
            counts.hold(key, new.writer, new.state, now, new.since)


class _Holds:
    """Who holds time back, by key."""

    def __init__(
        self, held: dict[str, Hold], stream: Stream, cadences: Mapping[str, Cadence], journal: Journal
    ) -> None:
        self._held = held
        self._stream = stream
        self._cadences = cadences
        self._journal = journal

    def update(self, changes: Changes) -> None:
        """Updates the holders. A mark ends the span of its key; else a holder changes only with its own changes."""
        stream, held = self._stream, self._held
        marked = {mark.key: mark.created_at for mark in reversed(changes.marks)}  # of several, the first ends a span
        for key in marked.keys() & held.keys():
            self._release(key, marked[key])
        if not changes.writers and not changes.stream:
            return
        times: Mapping[str, int] | None = None
        for key in self._keys(changes):
            span = held.get(key)
            if key in marked:
                continue
            if span is not None and not changes.stream and not _concerns(span, changes):
                self._record_holding(key, span)
                continue
            holder = stream.held_by(key, stream.clock)
            if span is None:
                if holder is None:
                    continue
                if times is None:  # for all keys at once: there may be many keys and many writers
                    times = _greatest_times(changes.writers, stream)
                if key in times and (holder.time is None or times[key] > holder.time):
                    self._hold(key, holder)
            elif holder is None or holder.writer != span.writer:
                self._release(key, stream.clock)
                if holder is not None:
                    self._hold(key, holder)
            else:
                self._record_holding(key, span)

    def _keys(self, changes: Changes) -> Iterable[str]:
        stream = self._stream
        if changes.stream or len(stream.keys) == 1:
            return stream.keys
        touched = (stream.writers[name].key_states for name in changes.writers if name in stream.writers)
        return {key for key_states in touched for key in key_states}

    def _hold(self, key: str, holder: Holder) -> None:
        self._held[key] = Hold(holder.writer, holder.state, holder.time, self._stream.clock)

    def _record_holding(self, key: str, span: Hold) -> None:
        """Journals once that a span has lasted too long."""
        now = self._stream.clock
        if not span.is_journaled and self._is_too_long(key, span, now):
            self._held[key] = replace(span, is_journaled=True)
            details = {"writer": span.writer, "key": key, "state": span.state, "time": span.time}
            self._journal.record(Topic.HOLDING, "holding", now, {**details, "from": span.since})

    def _release(self, key: str, now: int) -> None:
        span = self._held.pop(key)
        if span.is_journaled or self._is_too_long(key, span, now):
            details = {"writer": span.writer, "key": key, "state": span.state, "time": span.time}
            self._journal.record(Topic.HELD, "held", now, {**details, "from": span.since, "to": now})

    def _is_too_long(self, key: str, span: Hold, now: int) -> bool:
        cadence = self._cadences.get(key, NO_CADENCE)
        return now - span.since >= cadence.too_long_ms(self._stream.config.writer_timeout_ms)


def _record_pause(mark: Mark, last: Mark | None, cadences: dict[str, Cadence], journal: Journal) -> None:
    """Takes a mark into the cadence of its key. Journals the first one, and each after too long a pause: time moves
    since then."""
    key, at, cadence = mark.key, mark.created_at, cadences.get(mark.key, NO_CADENCE)
    if last is None:
        cadences[key] = cadence.after(mark.seq, at, None)
        if mark.seq == 1:
            journal.record(Topic.PAUSES, "first_mark", at, {"key": key, "to": at})
        return
    pause = at - last.created_at
    if pause > STILL_LEAST_MS and pause > cadence.still_ms:
        journal.record(Topic.PAUSES, "pause_ended", at, {"key": key, "from": last.created_at, "to": at})
    teaches = not mark.excluded or mark.excluded == last.excluded
    cadences[key] = cadence.after(mark.seq, at, last.created_at, teaches=teaches)


def _record_incomplete(mark: Mark, last: Mark | None, incomplete: dict[str, FirstMark], journal: Journal) -> None:
    """Journals where marks begin to leave writers out, and where they end to."""
    key, at = mark.key, mark.created_at
    first = incomplete.get(key)
    if first is not None and last is not None and last.excluded != mark.excluded:
        details = {**_marks(first, last), "to": at, "to_seq": last.seq, "to_time": last.time}
        journal.record(Topic.INCOMPLETE, "incomplete_ended", at, details)
        del incomplete[key]
        first = None
    if mark.excluded and first is None:
        first = incomplete[key] = FirstMark(mark.seq, mark.time, at)
        journal.record(Topic.INCOMPLETE, "incomplete", at, _marks(first, mark))


def _how_late(state: StateChange, stream: Stream) -> dict[str, object]:
    """The time of a writer that is behind, and that of the newest mark."""
    mark, writer = stream.last_marks.get(state.key), stream.writers.get(state.writer)
    key_state = writer.key_states.get(state.key) if writer is not None else None
    if mark is None or key_state is None:
        return {}
    return {"time": key_state.value, "mark_time": mark.time}


def _marks(first: FirstMark, newest: Mark) -> dict[str, object]:
    """Which writers marks leave out, and since which mark."""
    return {
        "key": newest.key,
        "excluded": list(newest.excluded[:JOURNAL_NAMES]),
        "excluded_writers": len(newest.excluded),
        "from": first.made_at,
        "from_seq": first.seq,
        "from_time": first.time,
    }


def _concerns(span: Hold, changes: Changes) -> bool:
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
