"""Reads journals. Only durable entries are returned."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from controller.commit.store import Store
from controller.groups.service import Groups
from controller.limits import DEFAULT_LIMITS
from controller.storage.journal import (
    JOURNAL_OF_GROUP,
    JOURNAL_OF_STREAM,
    EntryPlace,
    JournalTable,
    StoredEntry,
    Wanted,
    entries_of_all,
    journal_entries,
    newest_entries,
)
from controller.streams.registry import Streams
from strandline.access import fits
from strandline.errors import Overloaded

JOURNAL_WORDS: Final = 8  # that the journals of all streams are searched for
JOURNAL_SEARCH_CHARACTERS: Final = 300  # of these words

JOURNAL_SEARCH_ROWS: Final = 20_000  # that one search looks at; then the caller goes on with the next page
JOURNAL_SEARCH_S: Final = 1.0  # for which one search goes on
JOURNAL_SEARCH_STEP_ROWS: Final = 500  # that it looks at while other reads of the store wait


@dataclass(frozen=True, slots=True)
class JournalSlice:
    """Entries, oldest first; `next` is the seq to continue after, or null. `omitted` counts the entries that came too
    fast, for refusals by code."""

    entries: Sequence[StoredEntry]
    next: int | None
    omitted: dict[str, int]


@dataclass(frozen=True, slots=True)
class JournalsSlice:
    """Entries of all streams, each with its stream, newest first; `next` is the place to continue after, null if no
    more follow."""

    entries: Sequence[tuple[str, StoredEntry]]
    next: EntryPlace | None


class JournalReads:
    """The journals of streams and of reader groups."""

    def __init__(
        self, streams: Streams, groups: Groups, store: Store, *, searches: int = DEFAULT_LIMITS.journal_searches
    ) -> None:
        self._streams = streams
        self._groups = groups
        self._store = store
        self._searching = asyncio.Lock()
        self._searches = 0  # that run or wait
        self._most_searches = searches

    async def of_stream(self, name: str, after: int, limit: int) -> JournalSlice:
        """Raises UnknownStream."""
        omitted = (await self._streams.get(name)).journal.omitted
        return await self._page(JOURNAL_OF_STREAM, name, after, limit, omitted)

    async def of_group(self, name: str, after: int, limit: int) -> JournalSlice:
        """Raises UnknownGroup."""
        omitted = (await self._groups.get(name)).journal.omitted
        return await self._page(JOURNAL_OF_GROUP, name, after, limit, omitted)

    async def newest_of_stream(
        self, name: str, limit: int, *, topics: Sequence[str] = (), writer: str | None = None
    ) -> Sequence[StoredEntry]:
        """The newest entries, of some topics or all, about one writer or all; oldest first. No entries for a stream
        that does not exist."""
        return await self._store.read(newest_entries, JOURNAL_OF_STREAM, name, limit, topics=topics, writer=writer)

    async def of_all(self, wanted: Wanted, before: EntryPlace | None, limit: int) -> JournalsSlice:
        """The newest entries of the journals of all streams, or those after a place: at most `limit`, and fewer if it
        has looked at enough. Raises StoreUnavailable, and Overloaded if too many searches wait.

        One search runs at a time, and other reads of the store run in between.
        """
        if self._searches >= self._most_searches:
            raise Overloaded(waiting=self._searches, limit=self._most_searches, what="searches of journals wait")
        self._searches += 1
        try:
            async with self._searching:
                return await self._search(wanted, before, limit)
        finally:
            self._searches -= 1

    async def _search(self, wanted: Wanted, before: EntryPlace | None, limit: int) -> JournalsSlice:
        entries: list[tuple[str, StoredEntry]] = []
        loop = asyncio.get_running_loop()
        until, rows, place = loop.time() + JOURNAL_SEARCH_S, 0, before
        while True:
            found, last = await self._store.read(entries_of_all, wanted, place, JOURNAL_SEARCH_STEP_ROWS)
            entries += [each for each in found if all(fits(pattern, each[0]) for pattern in wanted.patterns)]
            rows += JOURNAL_SEARCH_STEP_ROWS
            if len(entries) > limit:
                stream, entry = entries[limit - 1]
                return JournalsSlice(entries[:limit], EntryPlace(entry.at, stream, entry.seq))
            if last is None:
                return JournalsSlice(entries, None)
            moment = EntryPlace(last.at + 1, "", 0)  # it names no stream that the caller may not know
            if (rows >= JOURNAL_SEARCH_ROWS or loop.time() >= until) and (before is None or moment < before):
                return JournalsSlice([each for each in entries if each[1].at > last.at], moment)
            place = last

    async def newest_of_group(self, name: str, limit: int) -> Sequence[StoredEntry]:
        """The newest entries, oldest first. No entries for a group that does not exist."""
        return await self._store.read(newest_entries, JOURNAL_OF_GROUP, name, limit)

    async def _page(
        self, journal: JournalTable, name: str, after: int, limit: int, omitted: dict[str, int]
    ) -> JournalSlice:
        found = await self._store.read(journal_entries, journal, name, after, limit + 1)
        entries = found[:limit]
        return JournalSlice(entries, entries[-1].seq if len(found) > limit else None, omitted)
