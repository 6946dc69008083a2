"""Readers that stay: every mark from a seq on, first those of the store, then each as it is made.

There is no queue between a mark and a reader: a reader is woken, and takes from memory or the store what it has not
yet had. So a slow one holds up nobody and misses nothing, and nothing grows.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakKeyDictionary

from controller.limits import (
    EVENT_ENCODED_MARKS,
    EVENT_KEEP_ALIVE_S,
    EVENT_MARKS,
    EVENT_SUBSCRIBERS,
    REST_TELLING_MS,
)
from controller.streams.loaded_stream import LoadedStream
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from strandline.core.mark import Mark
from strandline.core.note import check_key
from strandline.core.segment import SegmentGraph
from strandline.errors import Overloaded, UnknownSeq

Encode: TypeAlias = Callable[[Mark, SegmentGraph], bytes]


@dataclass(frozen=True, slots=True)
class NewMarks:
    """Marks that follow on the last ones, each encoded."""

    encoded: list[bytes]


@dataclass(frozen=True, slots=True)
class Resting:
    """Only time has moved, in a stream at rest: told at most once a second."""

    time: int


@dataclass(frozen=True, slots=True)
class StillHere:
    """Nothing happened for a while."""


@dataclass(frozen=True, slots=True)
class FeedOver:
    """Nothing follows: the stream is sealed, or the controller stops."""

    reason: str


Event: TypeAlias = NewMarks | Resting | StillHere | FeedOver


class MarkFeed:
    """Serves a bounded number of readers that stay."""

    def __init__(self, streams: Streams, reading: Reads, *, subscribers: int = EVENT_SUBSCRIBERS) -> None:
        self._streams = streams
        self._reading = reading
        self._limit = subscribers
        self._count = 0
        # As they were sent, so that a mark is encoded once for all who wait for it. They go with the stream in memory.
        self._encoded: WeakKeyDictionary[LoadedStream, OrderedDict[tuple[str, int], bytes]] = WeakKeyDictionary()

    def enter(self) -> None:
        """One more reader; raises Overloaded where there are as many as may be. Each has to `leave`."""
        if self._count >= self._limit:
            raise Overloaded(waiting=self._count, limit=self._limit, what="readers follow marks")
        self._count += 1

    def leave(self) -> None:
        self._count -= 1

    @property
    def limit(self) -> int:
        """How many there may be."""
        return self._limit

    @property
    def readers(self) -> int:
        """How many there are."""
        return self._count

    async def check(self, stream: str, key: str, after: int) -> bool:
        """Whether there is anything to wait for; not at the end of a sealed stream.

        Raises UnknownStream, or UnknownSeq for a seq that no mark has yet.
        """
        check_key(key)
        loaded = await self._streams.get(stream)
        newest = _newest(loaded, key)
        if after > newest:
            raise UnknownSeq(key=key, seq=after, newest=newest)
        return not (loaded.stream.sealed and after == newest and await self._is_over(loaded, key))

    async def events(self, stream: str, key: str, after: int, encode: Encode) -> AsyncGenerator[Event, None]:
        """What follows a seq, until the stream is sealed and all was told, or the controller stops.

        Raises UnknownStream where the stream is deleted meanwhile.
        """
        told = None
        while not self._reading.stopping.done():
            loaded = await self._streams.get(stream)
            newest = _newest(loaded, key)
            if after < newest:
                marks = await self._reading.after(loaded, key, after, EVENT_MARKS)
                if marks:
                    yield NewMarks(self._encode(loaded, marks, encode))
                    after = marks[-1].seq
                continue
            if loaded.stream.sealed and await self._is_over(loaded, key):
                yield FeedOver("sealed")
                return
            rest = self._reading.resting_time(loaded, key)
            if rest is not None and (told is None or rest > told):
                told = rest
                yield Resting(rest)
            if loaded.discarded:
                continue
            seconds = EVENT_KEEP_ALIVE_S if rest is None else REST_TELLING_MS / 1000
            if not await self._reading.wait(loaded.next_mark(key), seconds) and rest is None:
                yield StillHere()
        yield FeedOver("stopping")

    async def _is_over(self, loaded: LoadedStream, key: str) -> bool:
        """Whether a stream that is sealed in memory is so in the store, without another mark of this key."""
        newest = _newest(loaded, key)
        await self._streams.touch(loaded)
        return _newest(loaded, key) == newest

    def forget(self, stream: str) -> None:
        """After marks were changed, which happens only where a segment turned out not to exist."""
        loaded = self._streams.find_loaded(stream)
        if loaded is not None:
            self._encoded.pop(loaded, None)

    def _encode(self, loaded: LoadedStream, marks: Iterable[Mark], encode: Encode) -> list[bytes]:
        kept = self._encoded.setdefault(loaded, OrderedDict())
        graph, encoded = loaded.stream.graph, []
        for mark in marks:
            found = kept.get((mark.key, mark.seq))
            if found is None:
                found = kept[mark.key, mark.seq] = encode(mark, graph)
                if len(kept) > EVENT_ENCODED_MARKS:
                    kept.popitem(last=False)
            encoded.append(found)
        return encoded


def _newest(loaded: LoadedStream, key: str) -> int:
    chain = loaded.chains.get(key)
    return chain.last_seq if chain is not None else 0
