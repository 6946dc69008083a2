"""How one stream does, for an operator: in a line, or with all of its writers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, NamedTuple

from controller.limits import STALLED_MS
from controller.streams.loaded_stream import LoadedStream
from controller.yielding import Yielding
from strandline.core.aggregate import Holder
from strandline.core.config import TimeDomain
from strandline.core.cut import Cut
from strandline.core.note import DEFAULT_KEY
from strandline.core.segment import SegmentGraph
from strandline.core.writer import WriterState
from strandline.wire.groups import GroupWindow


class Trouble(IntEnum):
    """How much a stream needs someone to look at it."""

    NONE = 0
    INCOMPLETE = 1  # marks are made, and leave someone out
    HELD = 2  # time stands still: a writer that goes on noting is far behind, or too few have noted
    STUCK = 3  # time stands still, because of a writer that is silent


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStatus:
    """One time key of a stream. `since`: from when on it has been held back, where that is known."""

    key: str
    time: int | None
    marked_at: int | None
    marks_per_second: float
    incomplete_marks: int
    excluded: tuple[str, ...]
    holder: Holder | None
    since: int | None
    trouble: Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """A stream in a line; `seen_at` is the clock. Notes and refusals are counted since this controller started."""

    name: str
    seen_at: int
    sealed: bool
    time_domain: TimeDomain
    writers: Mapping[str, int]
    notes: int
    late_notes: int
    refusals: Mapping[str, int]
    keys: tuple[KeyStatus, ...]
    worst: KeyStatus | None  # the key that needs someone most; of equal ones, the one that is furthest behind

    @property
    def trouble(self) -> Trouble:
        return self.worst.trouble if self.worst is not None else Trouble.NONE


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
    """A stream with its writers by key, those first who need a look, and how far its segments are noted."""

    stream: StreamStatus
    writers: Mapping[str, Sequence[WriterStatus]]
    noted: Mapping[str, int]
    graph: SegmentGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """A reader group in a line."""

    name: str
    seen_at: int
    readers: int
    threshold_ms: int | None
    window: GroupWindow


@dataclass(slots=True)
class _Census:
    """What there is to know about all writers of a stream."""

    states: Counter[str] = field(default_factory=Counter)
    peaks: dict[str, int] = field(default_factory=dict)  # by key, the greatest time that anyone noted, excluded aside
    noted: dict[str, int] = field(default_factory=dict)  # by segment
    ranked: dict[str, list[_Ranked]] = field(default_factory=dict)  # by key


class _Ranked(NamedTuple):  # compared as it is, which is why the look, which has no order, comes after the name
    rank: int
    time: int
    name: str
    look: WriterStatus


_RANKS: Final = {
    WriterState.BEHIND: 1,
    WriterState.TIMED_OUT: 2,
    WriterState.EXCLUDED: 2,
    WriterState.JOINED: 3,
    WriterState.ACTIVE: 3,
    WriterState.IDLE: 4,
    WriterState.CLOSED: 5,
}


async def status_of(
    loaded: LoadedStream, resting: Mapping[str, int | None], now: int, slices: Yielding
) -> StreamStatus:
    """A stream in a line. `resting` has the times that keys have reached at rest."""
    return _line(loaded, await _census(loaded, {}, slices, ranked=False), resting, now)


async def details_of(
    loaded: LoadedStream, resting: Mapping[str, int | None], now: int, slices: Yielding
) -> StreamDetails:
    """A stream with its writers."""
    held = {key: loaded.stream.held_by(key, now) for key in loaded.stream.keys}
    holders = {key: holder.writer for key, holder in held.items() if holder is not None}
    census = await _census(loaded, holders, slices, ranked=True)
    writers = {}
    for key, of_key in census.ranked.items():
        of_key.sort()
        await slices.turn()
        writers[key] = [each.look for each in of_key]
        await slices.turn()
    line = _line(loaded, census, resting, now)
    return StreamDetails(stream=line, writers=writers, noted=census.noted, graph=loaded.stream.graph)


async def _census(
    loaded: LoadedStream, holders: Mapping[str, str | None], slices: Yielding, *, ranked: bool
) -> _Census:
    stream, counts, census = loaded.stream, loaded.counts, _Census()
    for writer in list(stream.writers.values()):
        states = stream.states(writer)
        census.states.update(set(map(str, states.values())))
        for key, key_state in writer.key_states.items():
            if key_state.time is not None and writer.excluded_at is None:
                census.peaks[key] = max(key_state.time, census.peaks.get(key, key_state.time))
            if ranked:
                name, state, time = writer.name, states[key], key_state.value
                late, refused = counts.late_by_writer[name], counts.refused_by_writer[name]
                holds = holders.get(key) == name
                look = WriterStatus(name, state, time, writer.heard_at, holds, late, refused, writer.position)
                rank = 0 if holds else _RANKS[state]
                rows = census.ranked.setdefault(key, [])
                rows.append(_Ranked(rank, -1 if time is None else time, name, look))
        if ranked:
            for segment, offset in writer.noted.items():
                census.noted[segment] = max(offset, census.noted.get(segment, 0))
        await slices.turn()
    return census


def _line(loaded: LoadedStream, census: _Census, resting: Mapping[str, int | None], now: int) -> StreamStatus:
    stream, counts = loaded.stream, loaded.counts
    keys = stream.keys | {DEFAULT_KEY}
    if len(keys) > 1 and DEFAULT_KEY not in loaded.chains and DEFAULT_KEY not in stream.keys:
        keys.discard(DEFAULT_KEY)  # nobody uses it
    looks = tuple(_of_key(loaded, key, census.peaks.get(key), resting.get(key), now) for key in sorted(keys))
    return StreamStatus(
        name=loaded.name,
        seen_at=now,
        sealed=stream.sealed,
        time_domain=stream.config.time_domain,
        writers=dict(sorted(census.states.items())),
        notes=counts.notes,
        late_notes=counts.late_notes,
        refusals=dict(counts.refusals),
        keys=looks,
        worst=max(looks, key=_urgency, default=None),
    )


def _of_key(loaded: LoadedStream, key: str, peak: int | None, resting: int | None, now: int) -> KeyStatus:
    chain = loaded.chains.get(key)
    last = chain.last if chain is not None else None
    times = [time for time in (resting, last.time if last is not None else None) if time is not None]
    excluded = last.excluded if last is not None else ()
    holder = loaded.stream.held_by(key, now)
    held = holder is not None and peak is not None and (holder.time is None or holder.time < peak)
    still = held and (last is None or now - last.created_at >= STALLED_MS)
    return KeyStatus(
        key=key,
        time=max(times, default=None),
        marked_at=last.created_at if last is not None else None,
        marks_per_second=loaded.counts.marks_per_second(key, now),
        incomplete_marks=loaded.counts.incomplete_marks[key],
        excluded=excluded,
        holder=holder,
        since=loaded.held_since(key) if still else None,
        trouble=_trouble(holder, excluded, still=still) if not loaded.stream.sealed else Trouble.NONE,
    )


def _trouble(holder: Holder | None, excluded: tuple[str, ...], *, still: bool) -> Trouble:
    """`still`: there was no mark for a while, though someone has noted a later time than the holder."""
    if still and holder is not None:
        silent = holder.last_heard_ms_ago
        return Trouble.STUCK if silent is not None and silent >= STALLED_MS else Trouble.HELD
    return Trouble.INCOMPLETE if excluded else Trouble.NONE


def _urgency(look: KeyStatus) -> tuple[int, int]:
    silent = look.holder.last_heard_ms_ago if look.holder is not None else None
    return look.trouble, silent or 0


def by_trouble(look: StreamStatus) -> tuple[bool, int, int, str]:
    """What to sort by, so that those come first that need someone most."""
    worst = look.worst
    urgency, silent = _urgency(worst) if worst is not None else (0, 0)
    return look.sealed, -urgency, -silent, look.name
