"""What an operator looks at first: every stream in a line, those in trouble first, and every reader group.

One look is shared by all who ask within a second, and made in small pieces between which notes are taken: however
many pages are open, it costs the same.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from controller.limits import (
    LOOK_GROUPS,
    LOOK_LOADS,
    LOOK_PAGE_NAMES,
    LOOK_PIECE_STREAMS,
    LOOK_STREAMS,
    LOOK_TTL_MS,
    RATE_MARKS,
    RATE_MS,
    STALLED_MS,
)
from controller.services.clock import Clock
from controller.services.groups import Groups
from controller.services.live import Live
from controller.services.reading import Reading
from controller.services.streams import Streams
from strandline.aggregate import Holder
from strandline.chain import MarkChain
from strandline.config import TimeDomain
from strandline.errors import UnknownGroup, UnknownStream
from strandline.note import DEFAULT_KEY
from strandline.protocol.group_wire import GroupWindow


class Trouble(IntEnum):
    """How much a stream needs someone to look at it."""

    NONE = 0
    INCOMPLETE = 1  # marks are made, and leave someone out
    HELD = 2  # time stands still: a writer that goes on noting is far behind, or too few have noted
    STUCK = 3  # time stands still, because of a writer that is silent


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLook:
    """One time key of a stream. `since`: from when on it has been held back, where that is known."""

    key: str
    time: int | None
    marked_at: int | None
    marks_per_second: float
    complete: bool
    excluded: tuple[str, ...]
    holder: Holder | None
    since: int | None
    trouble: Trouble


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamLook:
    """A stream in a line; `seen_at` is the clock."""

    name: str
    seen_at: int
    sealed: bool
    time_domain: TimeDomain
    writers: Mapping[str, int]
    keys: tuple[KeyLook, ...]

    @property
    def worst(self) -> KeyLook | None:
        """The key that needs someone most; of equal ones, the one that is furthest behind."""
        return max(self.keys, key=_urgency, default=None)

    @property
    def trouble(self) -> Trouble:
        worst = self.worst
        return worst.trouble if worst is not None else Trouble.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLook:
    """A reader group in a line."""

    name: str
    readers: int
    threshold_ms: int | None
    window: GroupWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Everything, as of one moment: `unread` streams have not been looked at yet, there being so many."""

    at: int
    streams: tuple[StreamLook, ...]
    groups: tuple[GroupLook, ...]
    unread: int


class Overview:
    """Looks at everything."""

    def __init__(self, streams: Streams, groups: Groups, reading: Reading, clock: Clock) -> None:
        self._streams = streams
        self._groups = groups
        self._reading = reading
        self._clock = clock
        self._last: Look | None = None
        self._looking: asyncio.Task[Look] | None = None

    async def look(self) -> Look:
        """Everything as it was at most a second ago. Raises StoreUnavailable."""
        if self._last is not None and self._clock.now() - self._last.at < LOOK_TTL_MS:
            return self._last
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="overview")
            self._looking.add_done_callback(self._looked)
        return await asyncio.shield(self._looking)

    def _looked(self, task: asyncio.Task[Look]) -> None:
        self._looking = None
        if not task.cancelled() and task.exception() is None:
            self._last = task.result()

    async def _look(self) -> Look:
        names = await self._names()
        seen, loads = [], LOOK_LOADS
        for number, name in enumerate(names):
            live = self._streams.at_hand(name)
            if live is None and loads:
                loads -= 1
                try:
                    live = await self._streams.get(name)
                except UnknownStream:
                    continue
            if live is not None:
                seen.append(self.of(live))
            if number % LOOK_PIECE_STREAMS == LOOK_PIECE_STREAMS - 1:
                await asyncio.sleep(0)
        seen.sort(key=_by_trouble)
        return Look(
            at=self._clock.now(), streams=tuple(seen), groups=await self._group_looks(), unread=len(names) - len(seen)
        )

    async def _names(self) -> list[str]:
        names: list[str] = []
        while len(names) < LOOK_STREAMS:
            page = await self._streams.names(names[-1] if names else "", LOOK_PAGE_NAMES)
            names += page
            if len(page) < LOOK_PAGE_NAMES:
                break
        return names

    async def _group_looks(self) -> tuple[GroupLook, ...]:
        looks = []
        for name in await self._groups.streams_by_name("", LOOK_GROUPS):
            try:
                looks.append(await self.of_group(name))
            except (UnknownGroup, UnknownStream):
                continue  # it was deleted, or a stream of its was
            await asyncio.sleep(0)
        return tuple(looks)

    async def of_group(self, name: str) -> GroupLook:
        """A reader group in a line."""
        window = await self._groups.window(name)
        membership = (await self._groups.get(name)).membership
        return GroupLook(
            name=name,
            readers=len(membership.readers),
            threshold_ms=membership.settings.backlog_threshold_ms,
            window=window,
        )

    def of(self, live: Live) -> StreamLook:
        """A stream in a line."""
        stream, now = live.stream, self._clock.now()
        states: Counter[str] = Counter()
        peaks: dict[str, int] = {}  # the greatest time that any writer noted
        for writer in stream.writers.values():
            states.update(set(map(str, stream.states(writer).values())))
            for key, standing in writer.standings.items():
                if standing.time is not None and writer.excluded_at is None:
                    peaks[key] = max(standing.time, peaks.get(key, standing.time))
        keys = stream.keys | {DEFAULT_KEY}
        if len(keys) > 1 and DEFAULT_KEY not in live.chains and DEFAULT_KEY not in stream.keys:
            keys.discard(DEFAULT_KEY)  # nobody uses it
        return StreamLook(
            name=live.name,
            seen_at=now,
            sealed=stream.sealed,
            time_domain=stream.config.time_domain,
            writers=dict(sorted(states.items())),
            keys=tuple(self._of_key(live, key, peaks.get(key), now) for key in sorted(keys)),
        )

    def _of_key(self, live: Live, key: str, peak: int | None, now: int) -> KeyLook:
        chain = live.chains.get(key)
        last = chain.last if chain is not None else None
        resting = self._reading.resting_time(live, key)
        times = [time for time in (resting, last.time if last is not None else None) if time is not None]
        excluded = last.excluded if last is not None else ()
        holder = live.stream.held_by(key, now)
        held = holder is not None and peak is not None and (holder.time is None or holder.time < peak)
        still = held and (last is None or now - last.created_at >= STALLED_MS)
        return KeyLook(
            key=key,
            time=max(times, default=None),
            marked_at=last.created_at if last is not None else None,
            marks_per_second=_rate(chain, now),
            complete=not excluded,
            excluded=excluded,
            holder=holder,
            since=live.held_since(key) if still else None,
            trouble=_trouble(holder, excluded, still=still) if not live.stream.sealed else Trouble.NONE,
        )


def _rate(chain: MarkChain | None, now: int) -> float:
    """Marks a second over the last minute, or over the last RATE_MARKS if these came faster."""
    if chain is None or chain.last is None:
        return 0.0
    first = max(chain.first_seq, chain.last_seq - RATE_MARKS)
    seqs = range(first, chain.last_seq + 1)
    since = now - RATE_MS
    recent = len(seqs) - bisect_left(seqs, since, key=lambda seq: chain[seq].created_at)
    elapsed = now - chain[first].created_at if recent == len(seqs) and first > chain.first_seq else RATE_MS
    return recent * 1000 / max(1, elapsed)


def _trouble(holder: Holder | None, excluded: tuple[str, ...], *, still: bool) -> Trouble:
    """`still`: there was no mark for a while, though someone has noted a later time than the holder."""
    if still and holder is not None:
        silent = holder.last_heard_ms_ago
        return Trouble.STUCK if silent is not None and silent >= STALLED_MS else Trouble.HELD
    return Trouble.INCOMPLETE if excluded else Trouble.NONE


def _urgency(look: KeyLook) -> tuple[int, int]:
    silent = look.holder.last_heard_ms_ago if look.holder is not None else None
    return look.trouble, silent or 0


def _by_trouble(look: StreamLook) -> tuple[bool, int, int, str]:
    worst = look.worst
    urgency, silent = _urgency(worst) if worst is not None else (0, 0)
    return look.sealed, -urgency, -silent, look.name
