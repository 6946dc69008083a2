"""Feeds of marks for readers that stay connected: every mark after a seq, first from the store, then as it is made.

No queue is between marks and a reader: a new mark wakes the reader, which takes what it lacks from memory or the store.
So a slow reader delays nobody and misses nothing, and nothing grows.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias
from weakref import WeakKeyDictionary

from controller.commit.loop import CommitLoop
from controller.limits import DEFAULT_LIMITS
from controller.streams.loaded_stream import LoadedStream
from controller.streams.reads import REST_ANSWER_MS, Reads, marks_at_once, newest_seq
from controller.streams.registry import Streams
from strandline.core.mark import Mark
from strandline.core.note import check_key
from strandline.core.segment import SegmentGraph
from strandline.errors import Overloaded, UnknownSeq

EVENT_KEEP_ALIVE_S: Final = 15  # without an event; then a comment is sent
EVENT_MARKS: Final = 64  # read and sent at a time
EVENT_ENCODED_MARKS: Final = 16  # of each stream, kept as they were sent

Encode: TypeAlias = Callable[[Mark, SegmentGraph], bytes]


@dataclass(frozen=True, slots=True)
class NewMarks:
    """The next marks, each encoded."""

    encoded: list[bytes]


@dataclass(frozen=True, slots=True)
class Resting:
    """Only time has moved, in a stream at rest; sent at most once a second."""

    time: int


@dataclass(frozen=True, slots=True)
class StillHere:
    """Keeps the connection alive when nothing happened for a while."""


@dataclass(frozen=True, slots=True)
class FeedOver:
    """Nothing follows: the stream is sealed, or the controller stops."""

    reason: str


FeedEvent: TypeAlias = NewMarks | Resting | StillHere | FeedOver


class MarkFeed:
    """Serves a bounded number of connected readers."""

    def __init__(
        self, streams: Streams, reading: Reads, commits: CommitLoop, *, subscribers: int = DEFAULT_LIMITS.subscribers
    ) -> None:
        self._streams = streams
        self._reading = reading
        self._commits = commits
        self._limit = subscribers
        self._count = 0
        self._of_caller = Counter[str]()
        # Marks as they were sent: each is encoded once for all readers. Dropped together with the loaded stream.
        self._encoded: WeakKeyDictionary[LoadedStream, OrderedDict[tuple[str, int], bytes]] = WeakKeyDictionary()

    def enter(self, caller: str | None) -> None:
        """Adds a reader of a caller, None without tokens; raises Overloaded at the limit. Each reader must `leave`.

        A caller gets no more places than it leaves to others, so that no single one takes all.
        """
        if self._count >= self._limit:
            raise Overloaded(waiting=self._count, limit=self._limit, what="readers follow marks")
        if caller is not None and self._of_caller[caller] >= (free := self._limit - self._count):
            own = self._of_caller[caller]
            raise Overloaded(waiting=own, limit=own, what=f"readers of yours follow marks, and {free} places are left")
        self._count += 1
        if caller is not None:
            self._of_caller[caller] += 1

    def leave(self, caller: str | None) -> None:
        self._count -= 1
        if caller is not None:
            self._of_caller[caller] -= 1
            if not self._of_caller[caller]:
                del self._of_caller[caller]

    @property
    def limit(self) -> int:
        """The greatest number of readers."""
        return self._limit

    @property
    def readers(self) -> int:
        """The present number of readers."""
        return self._count

    async def check(self, stream: str, key: str, after: int) -> bool:
        """Whether more marks can follow: False at the end of a sealed stream.

        Raises UnknownStream, or UnknownSeq for a seq that no mark has yet.
        """
        check_key(key)
        loaded = await self._streams.get(stream, now=True)
        newest = newest_seq(loaded, key)
        if after > newest:
            raise UnknownSeq(key=key, seq=after, newest=newest)
        return not (loaded.stream.sealed and after == newest and await self._is_over(loaded, key))

    async def events(self, stream: str, key: str, after: int, encode: Encode) -> AsyncGenerator[FeedEvent, None]:
        """The events after a seq, until the sealed stream has no more marks, or the controller stops.

        Raises UnknownStream if the stream is deleted meanwhile, StreamRecreated if it is created again.
        """
        sent = identity = None
        while not self._reading.stopping.done():
            loaded = await self._streams.get(stream)
            loaded.check_identity(identity)
            identity = loaded.origin.identity
            newest = newest_seq(loaded, key)
            if after < newest:
                marks = await self._reading.after(loaded, key, after, min(EVENT_MARKS, marks_at_once(loaded)))
                if marks:
                    yield NewMarks(self._encode(loaded, marks, encode))
                    after = marks[-1].seq
                    await asyncio.sleep(0)  # yields to other tasks
                continue
            if loaded.stream.sealed and await self._is_over(loaded, key):
                yield FeedOver("sealed")
                return
            rest = self._reading.resting_time(loaded, key)
            if rest is not None and (sent is None or rest > sent):
                sent = rest
                yield Resting(rest)
            if loaded.discarded:
                continue
            seconds = EVENT_KEEP_ALIVE_S if rest is None else REST_ANSWER_MS / 1000
            if not await self._reading.wait(loaded.next_mark(key), seconds) and rest is None:
                yield StillHere()
        yield FeedOver("stopping")

    async def _is_over(self, loaded: LoadedStream, key: str) -> bool:
        """Waits until the seal is durable; returns whether no further mark of this key came."""
        newest = newest_seq(loaded, key)
        await self._commits.over(loaded.subject)
        return newest_seq(loaded, key) == newest

    def forget(self, stream: str) -> None:
        """Drops the encoded marks of a stream, after marks were changed: only dropping a segment does that."""
        loaded = self._streams.find_loaded(stream)
        if loaded is not None:
            self._encoded.pop(loaded, None)

    def _encode(self, loaded: LoadedStream, marks: Iterable[Mark], encode: Encode) -> list[bytes]:
        of_stream = self._encoded.setdefault(loaded, OrderedDict())
        graph, encoded = loaded.stream.graph, []
        for mark in marks:
            found = of_stream.get((mark.key, mark.seq))
            if found is None:
                found = of_stream[mark.key, mark.seq] = encode(mark, graph)
                if len(of_stream) > EVENT_ENCODED_MARKS:
                    of_stream.popitem(last=False)
            encoded.append(found)
        return encoded
