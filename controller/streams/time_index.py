"""The time index of a segment: offsets and times, from the marks in memory or, for older ones, in the store."""

from __future__ import annotations

from typing import Final

from controller.commit.store import Store
from controller.storage.marks import MarksGone, StoredMarks
from controller.storage.session import StoreConnection
from controller.streams.loaded_stream import LoadedStream
from controller.streams.reads import newest_seq
from controller.streams.registry import Streams
from strandline.core.note import check_key
from strandline.core.time_index import IndexEntry, time_index
from strandline.errors import UnknownSeq

READ_AHEAD_MARKS: Final = 64  # when marks are read in sequence


class TimeIndexes:
    """Reads the time index of any segment."""

    def __init__(self, streams: Streams, store: Store) -> None:
        self._streams = streams
        self._store = store

    async def time_index(
        self, stream: str, segment: str, key: str, from_offset: int, token: int | None, limit: int
    ) -> tuple[list[IndexEntry], int]:
        """The entries from an offset on, or from a token of an earlier call, and the token to continue with.

        Raises UnknownStream, UnknownSegment, and UnknownSeq for a token that no call can have returned.
        """
        check_key(key)
        while True:
            loaded = await self._streams.get(stream)
            try:
                return await self._looked_up(loaded, segment, key, from_offset, token, limit)
            except MarksGone as gone:
                await self._streams.check_again(loaded, key, gone.seq)

    async def _looked_up(
        self, loaded: LoadedStream, segment: str, key: str, from_offset: int, token: int | None, limit: int
    ) -> tuple[list[IndexEntry], int]:
        _ = loaded.stream.graph[segment]  # raises UnknownSegment
        chain = loaded.chains.get(key)
        newest = newest_seq(loaded, key)
        if token is not None and token > newest:
            raise UnknownSeq(key=key, seq=token, newest=newest)
        if chain is None:
            return [], 0
        oldest = loaded.oldest_seqs[key]
        begins_at = chain.offset_at(chain.first_seq, segment)
        here = token + 1 >= chain.first_seq if token is not None else 0 < from_offset >= begins_at
        if here or oldest == chain.first_seq:
            return time_index(chain, segment, from_offset, token, limit)
        return await self._store.read(_in_store, loaded.name, key, segment, oldest, newest, from_offset, token, limit)


def _in_store(
    connection: StoreConnection,
    stream: str,
    key: str,
    segment: str,
    oldest: int,
    newest: int,
    from_offset: int,
    token: int | None,
    limit: int,
) -> tuple[list[IndexEntry], int]:
    with connection.begin():
        marks = _Column(StoredMarks(connection, stream, key), segment, oldest, newest)
        return time_index(marks, segment, from_offset, token, limit)


class _Column:
    """One segment's offsets and times in stored marks, read ahead a little. `time_index` takes it as a chain."""

    def __init__(self, marks: StoredMarks, segment: str, first_seq: int, last_seq: int) -> None:
        self.first_seq = first_seq
        self.last_seq = last_seq
        self._marks = marks
        self._segment = segment
        self._seen: dict[int, tuple[int, int]] = {}  # offset and time, by seq

    def offset_at(self, seq: int, segment: str) -> int:
        assert segment == self._segment
        return self._at(seq)[0]

    def time_at(self, seq: int) -> int:
        return self._at(seq)[1]

    def _at(self, seq: int) -> tuple[int, int]:
        if seq not in self._seen:
            ahead = READ_AHEAD_MARKS if seq - 1 in self._seen else 1
            for mark in self._marks.between(seq, min(seq + ahead - 1, self.last_seq)):
                self._seen[mark.seq] = (mark.cut.offset(self._segment), mark.time)
            if seq not in self._seen:
                raise MarksGone(seq)
        return self._seen[seq]
