"""Journals changes of a stream that no call names: states of writers, holders of time, incomplete marks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

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

    holder: Holder
    since: int
    is_journaled: bool = False  # an entry says that it has begun


class JournalRecorder:
    """Follows the changes of one stream when they are added to a commit."""

    __slots__ = ("_counts", "_entries", "_held", "_incomplete", "_journal", "_made_at", "_newest")

    def __init__(self, journal: Journal, counts: StreamCounts) -> None:
        self._journal = journal
        self._counts = counts
        counts.loaded()
        self._held: dict[str, _Hold] = {}
        self._incomplete: dict[str, Mark] = {}  # by key, the first mark that leaves out the same writers as the newest
        self._newest: dict[str, Mark] = {}  # by key, the newest incomplete mark
        self._made_at: dict[str, int] = {}  # by key, when the newest mark was made
        self._entries: Sequence[StoredEntry] = ()  # until the holders are known

    def resume(self, marks: Mapping[str, Sequence[Mark]], entries: Sequence[StoredEntry]) -> None:
        """Continues from the newest stored marks of each key, already journaled, and from the newest entries of the
        journal, newest first. Holders follow with `resume_holders`."""
        self._entries = entries
        for key, of_key in marks.items():
            if of_key:
                self._made_at[key] = of_key[-1].created_at
            if of_key and of_key[-1].excluded:
                self._newest[key] = of_key[-1]
                for mark in reversed(of_key):
                    if mark.excluded != of_key[-1].excluded:
                        break
                    self._incomplete[key] = mark
                self._incomplete[key] = _earlier(self._incomplete[key], _newest_about(entries, INCOMPLETE, key))

    def resume_holders(self, stream: Stream, now: int) -> None:
        """Continues the spans of those who held time back when the stream was stored.

        A span of which there is no entry was not too long when somebody noted last: it is taken to have begun then.
        """
        entries, self._entries = self._entries, ()
        if len(stream.writers) < 2 and stream.config.min_writers < 2:
            return
        holders = {key: holder for key in stream.keys if (holder := stream.held_by(key, stream.clock)) is not None}
        marked_at = {key: mark.created_at for key, mark in stream.last_marks.items()}
        noted = _noted_since(stream, holders, marked_at)
        for key, holder in holders.items():
            entry = _newest_about(entries, HOLDING, key)
            began = _logged_since(entry, holder, marked_at.get(key, -1))
            since = noted.get(key) if began is None else began
            if since is not None:
                self._held[key] = _Hold(holder, since, is_journaled=began is not None)
                self._counts.hold(key, holder.writer, holder.state, now, since)

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
            elif holder is None or holder.writer != span.holder.writer:
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
        self._held[key] = _Hold(holder, now)
        self._counts.hold(key, holder.writer, holder.state, now)

    def _log_holding(self, key: str, span: _Hold, stream: Stream) -> None:
        """Journals once that a span has lasted too long, so that whoever loads the stream next knows since when."""
        now = stream.clock
        if span.is_journaled or not self._is_too_long(key, span, now, stream):
            return
        span.is_journaled, holder = True, span.holder
        details = {"writer": holder.writer, "key": key, "state": holder.state, "time": holder.time}
        self._journal.tell(HOLDING, "holding", now, {**details, "from": span.since})

    def _release(self, key: str, now: int, stream: Stream) -> None:
        span = self._held.pop(key)
        self._counts.released(key, now)
        if span.is_journaled or self._is_too_long(key, span, now, stream):
            holder = span.holder
            details = {"writer": holder.writer, "key": key, "state": holder.state, "time": holder.time}
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
            first = None
        if mark.excluded:
            self._newest[mark.key] = mark
            if first is None:
                self._incomplete[mark.key] = mark
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


def _earlier(first: Mark, entry: StoredEntry | None) -> Mark:
    """The first mark that leaves out the same writers: that of an entry, if it is the same span and earlier."""
    if entry is None or entry.kind != "incomplete":
        return first
    details, now = entry.details, _marks(first)
    same = all(details.get(name) == now[name] for name in ("excluded", "excluded_writers"))
    seq, time, since = (details.get(name) for name in ("from_seq", "from_time", "from"))
    if not (same and isinstance(seq, int) and isinstance(time, int) and isinstance(since, int) and 0 < seq < first.seq):
        return first
    return replace(first, seq=seq, time=time, created_at=since)


def _logged_since(entry: StoredEntry | None, holder: Holder, marked_at: int) -> int | None:
    """Since when a writer holds time back by an entry; None if that is about an earlier span."""
    if entry is None or entry.details.get("writer") != holder.writer:
        return None
    since = entry.details.get("from")
    return since if isinstance(since, int) and since >= marked_at else None


def _noted_since(stream: Stream, holders: Mapping[str, Holder], marked_at: Mapping[str, int]) -> dict[str, int]:
    """By key: of those that noted a later time than the holder since the newest mark, when the first was last heard."""
    found: dict[str, int] = {}
    for writer in stream.writers.values() if holders else ():
        if writer.excluded_at is not None:
            continue
        for key, key_state in writer.key_states.items():
            holder = holders.get(key)
            if holder is None or key_state.time is None or writer.heard_at <= marked_at.get(key, -1):
                continue
            if holder.time is None or key_state.time > holder.time:
                found[key] = min(writer.heard_at, found.get(key, writer.heard_at))
    return found


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
