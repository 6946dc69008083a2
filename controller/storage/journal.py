"""Journals as rows and back. The newest entries of each topic are kept, so a flood of one displaces no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Table, bindparam, delete, select

from controller.storage import schema
from controller.storage.rows import AnyRow, Values, to_json
from controller.storage.unreadable import corrupt

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
