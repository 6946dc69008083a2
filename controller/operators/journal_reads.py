"""Reads journals. Only durable entries are returned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from controller.commit.store import Store
from controller.groups.service import Groups
from controller.storage.journal import (
    JOURNAL_OF_GROUP,
    JOURNAL_OF_STREAM,
    JournalTable,
    StoredEntry,
    journal_entries,
    newest_entries,
)
from controller.streams.registry import Streams


@dataclass(frozen=True, slots=True)
class JournalSlice:
    """Entries, oldest first; `next` is the seq to continue after, or null. `omitted` counts the entries that came too
    fast, for refusals by code."""

    entries: Sequence[StoredEntry]
    next: int | None
    omitted: dict[str, int]


class JournalReads:
    """The journals of streams and of reader groups."""

    def __init__(self, streams: Streams, groups: Groups, store: Store) -> None:
        self._streams = streams
        self._groups = groups
        self._store = store

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

    async def newest_of_group(self, name: str, limit: int) -> Sequence[StoredEntry]:
        """The newest entries, oldest first. No entries for a group that does not exist."""
        return await self._store.read(newest_entries, JOURNAL_OF_GROUP, name, limit)

    async def _page(
        self, journal: JournalTable, name: str, after: int, limit: int, omitted: dict[str, int]
    ) -> JournalSlice:
        found = await self._store.read(journal_entries, journal, name, after, limit + 1)
        entries = found[:limit]
        return JournalSlice(entries, entries[-1].seq if len(found) > limit else None, omitted)
