"""Journals as rows and back. The newest entries of each topic are kept, so a flood of one displaces no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import asdict
from sqlalchemy import Connection, Table, bindparam, delete, select

from controller.storage import schema
from controller.storage.rows import AnyRow, Values, to_json
from controller.storage.unreadable import corrupt
from strandline.wire.journal import JournalEntry

JOURNAL_ENTRIES: Final = 500  # of each topic; older ones go
JOURNAL_BATCH: Final = 64  # with each so many entries of a journal: to find them takes longer than to write an entry


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

    def values(self, name: str, entry: JournalEntry) -> Values:
        return {self.owner: name, **asdict(entry), "details": to_json(entry.details)}


JOURNAL_OF_STREAM: Final = JournalTable(schema.journal, "stream")
JOURNAL_OF_GROUP: Final = JournalTable(schema.group_journal, "group")


def journal_entries(
    connection: Connection,
    journal: JournalTable,
    name: str,
    limit: int,
    *,
    after: int | None = None,
    topics: Sequence[str] = (),
    writer: str | None = None,
) -> list[JournalEntry]:
    """The newest entries, or those that follow a seq, oldest first: of some topics or all, about one writer or all."""
    query, given = (journal.newest, {}) if after is None else (journal.page, {"after": after})
    if topics:
        query = query.where(journal.table.c.topic.in_(topics))
    if writer is not None:
        # A superset: `excluded` is a list, and any text may hold the name in quotes. `_is_about` checks each entry.
        query = query.where(journal.table.c.details.contains(to_json(writer), autoescape=True))
    with connection.begin():
        rows = connection.execute(query, {"owner": name, "entries": limit, **given}).all()
    entries = [_entry(journal, row) for row in (rows if after is not None else reversed(rows))]
    return [each for each in entries if writer is None or _is_about(each, writer)]


def _is_about(entry: JournalEntry, writer: str) -> bool:
    details = entry.details
    return writer in (details.get("writer"), details.get("name")) or writer in details.get("excluded", ())


_details: Final = msgspec.json.Decoder(dict[str, Any])


def _entry(journal: JournalTable, row: AnyRow) -> JournalEntry:
    try:
        details = _details.decode(row.details)
    except ValueError as error:
        raise corrupt(journal.table, dict(row._mapping), f"it cannot be read: {error}") from error
    return JournalEntry(seq=row.seq, at=row.at, topic=row.topic, kind=row.kind, by=row.by, details=details)
