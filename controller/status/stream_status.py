"""The status of a stream: computed in one place, for dashboard, metrics, `GET /v1/status`, `watch` and descriptions.

It is a function of a loaded stream and the clock, in steps, since a stream may have very many writers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from controller.format import is_epoch
from controller.limits import STALLED_MS
from controller.streams.loaded_stream import LoadedStream
from controller.yielding import Steps
from strandline.core.aggregate import Holder
from strandline.core.config import TimeDomain
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY
from strandline.core.segment import SegmentGraph
from strandline.core.writer import WriterState
from strandline.wire.groups import GroupWindow


class Trouble(IntEnum):
    """How urgently a stream needs attention."""

    NONE = 0
    INCOMPLETE = 1  # marks are made, and leave writers out
    HELD = 2  # time stands still: a writer that goes on noting is far behind, or too few have noted
    STUCK = 3  # time stands still, because of a writer that is silent


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStatus:
    """One time key of a stream.

    `time` is the time that readers get: that of the newest durable mark, or that of idle advance. Lags are None if the
    time does not count milliseconds since 1970, and once the stream is sealed. The holder is the writer with the least
    time that counts; it holds others back only if `trouble` says so. `held_since` is known then, unless the holder
    began before the stream was loaded. Incomplete marks, and `held_ms` by writer, are counted since this controller
    started.
    """

    key: str
    mark: Mark | None
    resting: int | None
    time: int | None
    lag_ms: int | None
    event_time_lag_ms: int | None  # of the greatest time that anyone noted, excluded writers aside
    marks_per_second: float
    incomplete_marks: int
    writers: Mapping[str, int]  # by state
    holder: Holder | None
    held_since: int | None
    held_ms: Mapping[str, int]
    trouble: Trouble
    since: int | None  # when the trouble began, where that is known

    @property
    def marked_at(self) -> int | None:
        return None if self.mark is None else self.mark.created_at

    @property
    def excluded(self) -> tuple[str, ...]:
        """The writers that the newest mark leaves out."""
        return () if self.mark is None else self.mark.excluded


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """A stream as it was at `seen_at`, by the clock. Notes and refusals are counted since this controller started."""

    name: str
    seen_at: int
    sealed: bool
    time_domain: TimeDomain
    segments: int
    writers: Mapping[str, int]  # by state; one with keys in several states counts in each of these
    writer_count: int
    heard_at: int | None  # when any writer was last heard, forgotten ones too
    notes: int
    late_notes: int
    refusals: Mapping[str, int]  # by code
    keys: tuple[KeyStatus, ...]
    worst: KeyStatus  # the key in the worst trouble; of equal ones, the one that is furthest behind

    @property
    def trouble(self) -> Trouble:
        return self.worst.trouble

    @property
    def time(self) -> int | None:
        """The least time of its keys."""
        return min((key.time for key in self.keys if key.time is not None), default=None)

    @property
    def lag_ms(self) -> int | None:
        """The greatest lag of its keys."""
        return max((key.lag_ms for key in self.keys if key.lag_ms is not None), default=None)


class WriterStatus(NamedTuple):  # one for each of very many writers
    """A writer in one time key. Late notes and refusals are counted since this controller started."""

    name: str
    state: WriterState
    time: int | None
    heard_at: int
    holds: bool
    late: int
    refused: int
    position: Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDetails:
    """A stream with its writers by key, those in trouble first, and by segment how far and when it was noted.

    `last_entry` is the seq of the newest entry of its journal, which may not be durable yet. There may be more writers
    than are listed: `KeyStatus.writers` counts all.
    """

    stream: StreamStatus
    last_entry: int
    writers: Mapping[str, Sequence[WriterStatus]]
    noted: Mapping[str, int]
    noted_at: Mapping[str, int]
    graph: SegmentGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """The status of a reader group."""

    name: str
    seen_at: int
    readers: int
    threshold_ms: int | None
    window: GroupWindow


class _Ranked(NamedTuple):  # compared as it is, which is why the status, which has no order, comes after the name
    rank: int
    time: int
    name: str
    status: WriterStatus


@dataclass(slots=True)
class _Writers:
    """The totals over all writers of a stream."""

    states: Counter[str] = field(default_factory=Counter)
    states_by_key: dict[str, Counter[str]] = field(default_factory=dict)
    peaks: dict[str, int] = field(default_factory=dict)  # by key, the greatest time that anyone noted, excluded aside
    heard_at: int | None = None
    noted: dict[str, int] = field(default_factory=dict)  # by segment
    ranked: dict[str, list[_Ranked]] = field(default_factory=dict)  # by key


_RANKS: Final = {
    WriterState.BEHIND: 1,
    WriterState.TIMED_OUT: 2,
    WriterState.EXCLUDED: 2,
    WriterState.JOINED: 3,
    WriterState.ACTIVE: 3,
    WriterState.IDLE: 4,
    WriterState.CLOSED: 5,
}


def status_steps(loaded: LoadedStream, now: int) -> Steps[StreamStatus]:
    """The status of a stream. Each writer is a step; nothing is changed."""
    writers = yield from _walk(loaded, None)
    return _status(loaded, writers, now)


def details_steps(loaded: LoadedStream, now: int) -> Steps[StreamDetails]:
    """The status of a stream with its writers."""
    held = {key: loaded.stream.held_by(key, now) for key in loaded.stream.keys}
    found = yield from _walk(loaded, {key: each.writer for key, each in held.items() if each is not None})
    writers = {}
    for key, of_key in found.ranked.items():
        of_key.sort()
        yield
        writers[key] = [each.status for each in of_key]
        yield
    return StreamDetails(
        stream=_status(loaded, found, now),
        last_entry=loaded.journal.last_seq,
        writers=writers,
        noted=found.noted,
        noted_at=dict(loaded.noted_at),
        graph=loaded.stream.graph,
    )


def _walk(loaded: LoadedStream, holders: Mapping[str, str | None] | None) -> Steps[_Writers]:
    """Reads each writer. With `holders`, by key, it also lists each writer."""
    stream, counts, found = loaded.stream, loaded.counts, _Writers()
    for writer in list(stream.writers.values()):
        found.heard_at = _greatest(found.heard_at, writer.heard_at)
        states = stream.states(writer)
        found.states.update(set(map(str, states.values())))
        for key, key_state in writer.key_states.items():
            state = states[key]
            found.states_by_key.setdefault(key, Counter())[state.value] += 1
            if key_state.time is not None and writer.excluded_at is None:
                found.peaks[key] = max(key_state.time, found.peaks.get(key, key_state.time))
            if holders is not None:
                name, time, holds = writer.name, key_state.value, holders.get(key) == writer.name
                late, refused = counts.late_by_writer[name], counts.refused_by_writer[name]
                status = WriterStatus(name, state, time, writer.heard_at, holds, late, refused, writer.position)
                rank = 0 if holds else _RANKS[state]
                found.ranked.setdefault(key, []).append(_Ranked(rank, -1 if time is None else time, name, status))
        if holders is not None:
            for segment, offset in writer.noted.items():
                found.noted[segment] = max(offset, found.noted.get(segment, 0))
        yield
    for remainder in stream.remainders.values():
        found.heard_at = _greatest(found.heard_at, remainder.heard_at)
    return found


def _status(loaded: LoadedStream, writers: _Writers, now: int) -> StreamStatus:
    stream, counts = loaded.stream, loaded.counts
    keys = tuple(_key(loaded, key, writers, now) for key in sorted(stream.keys or {DEFAULT_KEY}))
    return StreamStatus(
        name=loaded.name,
        seen_at=now,
        sealed=loaded.sealed,
        time_domain=stream.config.time_domain,
        segments=len(stream.graph),
        writers=dict(sorted(writers.states.items())),
        writer_count=len(stream.writers),
        heard_at=writers.heard_at,
        notes=counts.notes,
        late_notes=counts.late_notes,
        refusals=dict(counts.refusals),
        keys=keys,
        worst=max(keys, key=lambda each: (each.trouble, -1 if each.lag_ms is None else each.lag_ms)),
    )


def _key(loaded: LoadedStream, key: str, writers: _Writers, now: int) -> KeyStatus:
    stream, counts, sealed = loaded.stream, loaded.counts, loaded.sealed
    chain, peak, held = loaded.chains.get(key), writers.peaks.get(key), counts.held.get(key)
    mark = chain.last if chain is not None else None
    rest = stream.resting(now) if key == DEFAULT_KEY else None
    resting = rest.time if rest is not None else None
    time = _greatest(resting, mark.time if mark is not None else None)
    holder = None if sealed else stream.held_by(key, now)
    # A writer holds others back if another writer has noted a later time. It counts after a while: two writers that
    # note in turn hold each other back for a moment each time.
    holds = holder is not None and peak is not None and (holder.time is None or holder.time < peak)
    known = held is not None and holder is not None and held.holder == (holder.writer or "")
    since = held.since if held is not None and known else None
    began = since if since is not None else (mark.created_at if mark is not None else None)
    still = holds and (began is None or now - began >= STALLED_MS)
    trouble = Trouble.NONE
    if holder is not None and still:
        silent = holder.last_heard_ms_ago
        trouble = Trouble.STUCK if silent is not None and silent >= STALLED_MS else Trouble.HELD
    elif mark is not None and mark.excluded and not sealed:
        trouble = Trouble.INCOMPLETE
    return KeyStatus(
        key=key,
        mark=mark,
        resting=resting,
        time=time,
        lag_ms=None if sealed else _lag(time, now),
        event_time_lag_ms=None if sealed else _lag(peak, now),
        marks_per_second=counts.marks_per_second(key, now),
        incomplete_marks=counts.incomplete_marks[key],
        writers=writers.states_by_key.get(key, {}),
        holder=holder,
        held_since=since if still else None,
        held_ms=held.counted(now) if held is not None else {},
        trouble=trouble,
        since=loaded.incomplete_since(key) if trouble is Trouble.INCOMPLETE else since if still else None,
    )


def by_trouble(status: StreamStatus) -> tuple[bool, int, int, str]:
    """A sort key: streams in the worst trouble first, and among equals those furthest behind."""
    lag_ms = status.worst.lag_ms
    return status.sealed, -status.trouble, 1 if lag_ms is None else -lag_ms, status.name


def _lag(time: int | None, now: int) -> int | None:
    """The lag of a time; None if the time does not count milliseconds since 1970."""
    return now - time if time is not None and is_epoch(time) else None


def _greatest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)
