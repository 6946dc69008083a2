"""Journals as rows and back. The newest entries of each topic are kept, so a flood of one displaces no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import msgspec
from sqlalchemy import (
    ColumnElement,
    Connection,
    Table,
    and_,
    bindparam,
    delete,
    literal,
    or_,
    select,
    true,
    tuple_,
)

from controller.storage import schema
from controller.storage.rows import AnyRow, Values, to_json
from controller.storage.unreadable import corrupt
from strandline.access import EVERYTHING
from strandline.errors import StoreCorrupt

JOURNAL_ENTRIES: Final = 500  # of each topic; with a further one the oldest goes


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """A journal entry. `by` is the name of the caller's token; None without tokens, or if no caller caused it."""

    seq: int
    at: int
    topic: str
    kind: str
    by: str | None
    details: dict[str, Any]


class EntryPlace(NamedTuple):
    """An entry's place in the journals of all streams, newest first. `stream` is "" after all entries of a moment."""

    at: int
    stream: str
    seq: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which entries of the journals of all streams: of streams whose names fit every pattern, on some topics or all, in
    which each of the words occurs somewhere, and that were made from `since` on and before `until`."""

    patterns: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    since: int | None = None
    until: int | None = None


class JournalTable:
    """One of the two journals, and its queries, which are built once."""

    def __init__(self, table: Table, owner: str) -> None:
        """`owner` is the column with the name of the stream or group."""
        self.table = table
        self.owner = owner
        column, whose = table.c, table.c[owner] == bindparam("owner")
        oldest = (
            select(column.seq)
            .where(whose, column.topic == bindparam("topic"))
            .order_by(column.seq.desc())
            .offset(JOURNAL_ENTRIES)
            .limit(1)
        )
        # Without such an entry the comparison is with NULL, and nothing is deleted.
        self.shorten = delete(table).where(whose, column.topic == bindparam("topic"))
        self.shorten = self.shorten.where(column.seq <= oldest.scalar_subquery())
        after = column.seq > bindparam("after")
        self.newest = select(table).where(whose).order_by(column.seq.desc()).limit(bindparam("entries"))
        self.page = select(table).where(whose, after).order_by(column.seq).limit(bindparam("entries"))

    def values(self, name: str, entry: StoredEntry) -> Values:
        return {
            self.owner: name,
            "seq": entry.seq,
            "topic": entry.topic,
            "at": entry.at,
            "kind": entry.kind,
            "by": entry.by,
            "details": to_json(entry.details),
        }


JOURNAL_OF_STREAM: Final = JournalTable(schema.journal, "stream")
JOURNAL_OF_GROUP: Final = JournalTable(schema.group_journal, "group")


def journal_entries(
    connection: Connection, journal: JournalTable, name: str, after: int, limit: int
) -> Sequence[StoredEntry]:
    """The entries that follow a seq, oldest first."""
    with connection.begin():
        rows = connection.execute(journal.page, {"owner": name, "after": after, "entries": limit}).all()
    return [_entry(row) for row in rows]


def newest_entries(
    connection: Connection,
    journal: JournalTable,
    name: str,
    limit: int,
    *,
    topics: Sequence[str] = (),
    writer: str | None = None,
) -> Sequence[StoredEntry]:
    """The newest entries, oldest first. `topics` and `writer` narrow the selection."""
    query = journal.newest
    given: dict[str, Any] = {"owner": name, "entries": limit}
    if topics:
        query = query.where(journal.table.c.topic.in_(topics))
    if writer is not None:
        # A superset: `excluded` is a list, and any text may hold the name in quotes. `_is_about` checks each entry.
        query = query.where(journal.table.c.details.contains(to_json(writer), autoescape=True))
    with connection.begin():
        rows = connection.execute(query, given).all()
    entries = [_entry(row) for row in reversed(rows)]
    return [each for each in entries if writer is None or _is_about(each, writer)]


def entries_of_all(
    connection: Connection, wanted: Wanted, before: EntryPlace | None, rows: int
) -> tuple[Sequence[tuple[str, StoredEntry]], EntryPlace | None]:
    """Looks at so many entries of the journals of all streams after a place, newest first, and returns those that are
    wanted, each with its stream; and the place of the last one that was looked at, None if no more follow.

    An entry that cannot be read is shown as such in its place.
    """
    entry = schema.journal.c
    place = tuple_(entry.at, entry.stream, entry.seq)
    query = select(schema.journal, _is_wanted(wanted).label("wanted"))
    query = query.order_by(entry.at.desc(), entry.stream.desc(), entry.seq.desc()).limit(rows)
    if wanted.since is not None:
        query = query.where(entry.at >= wanted.since)
    if wanted.until is not None:
        query = query.where(entry.at < wanted.until)
    if before is not None:
        query = query.where(entry.at <= before.at, place < tuple_(*(literal(each) for each in before)))
    with connection.begin():
        found = connection.execute(query).all()
    entries = [(row.stream, _entry_or_damage(row)) for row in found if row.wanted]
    last = found[-1] if len(found) == rows else None
    return entries, None if last is None else EntryPlace(last.at, last.stream, last.seq)


def _is_wanted(wanted: Wanted) -> ColumnElement[bool]:
    """Whether an entry fits but for its moment. More may fit than is wanted, where the database takes A for a in names
    of streams."""
    entry = schema.journal.c
    conditions: list[ColumnElement[bool]] = [true()]
    for pattern in wanted.patterns:
        if pattern != EVERYTHING:
            like = pattern.replace("/", "//").replace("_", "/_").replace("%", "/%").replace("*", "%")
            conditions.append(entry.stream.like(like, escape="/"))
    if wanted.topics:
        conditions.append(entry.topic.in_(wanted.topics))
    for word in wanted.words:
        texts = (entry.stream, entry.topic, entry.kind, entry.by, entry.details)
        conditions.append(or_(*(text.icontains(word, autoescape=True) for text in texts)))
    return and_(*conditions)


def _entry_or_damage(row: AnyRow) -> StoredEntry:
    try:
        return _entry(row)
    except StoreCorrupt as error:
        details = {"reason": error.reason}
        return StoredEntry(seq=row.seq, at=row.at, topic=row.topic, kind="damaged_entry", by=row.by, details=details)


def _is_about(entry: StoredEntry, writer: str) -> bool:
    details = entry.details
    return writer in (details.get("writer"), details.get("name")) or writer in details.get("excluded", ())


_details: Final = msgspec.json.Decoder(dict[str, Any])


def _entry(row: AnyRow) -> StoredEntry:
    try:
        details = _details.decode(row.details)
    except ValueError as error:
        table = schema.journal if "stream" in row._mapping else schema.group_journal
        raise corrupt(table, dict(row._mapping), f"it cannot be read: {error}") from error
    return StoredEntry(seq=row.seq, at=row.at, topic=row.topic, kind=row.kind, by=row.by, details=details)
