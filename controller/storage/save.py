"""What one commit writes, and the code that writes it."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    Connection,
    Delete,
    Table,
    bindparam,
    delete,
    func,
    insert,
    select,
    update,
)

from controller.storage import schema
from controller.storage.heads import Head, head_values
from controller.storage.journal import JournalTable
from controller.storage.kinds import KINDS
from controller.storage.load import greatest_deleted_epoch
from controller.storage.rows import Values, cut_json, mark_of
from controller.storage.subjects import Kind, Subject
from controller.storage.unreadable import decoded
from strandline.errors import StoreCorrupt


@dataclass(slots=True)
class Commit:
    """Everything that one transaction changes. It removes rows before it puts and adds any; of several rows that it
    puts under one key, the last one counts."""

    stamp: int  # of this commit, and of no other
    versions: dict[Subject, int] = field(default_factory=dict)  # that streams and groups have with it
    logged: list[Values] = field(default_factory=list)  # logs of writers: stream, seq of the first row to keep
    pruned: list[Values] = field(default_factory=list)  # marks to remove: stream, key, seq of the first to keep
    dropped: list[tuple[str, str]] = field(default_factory=list)  # stream, segment that the log does not have
    deleted: dict[tuple[Kind, str], int] = field(default_factory=dict)  # what is deleted, with its greatest epoch
    shortened: dict[JournalTable, list[Values]] = field(default_factory=dict)  # topics: owner, topic
    removed: dict[tuple[Table, tuple[str, ...]], list[Values]] = field(default_factory=dict)  # by table and columns
    put: dict[Table, list[Values]] = field(default_factory=dict)
    added: dict[Table, list[Values]] = field(default_factory=dict)

    @property
    def is_plain(self) -> bool:
        """Whether nothing is read to write it, and nothing is gone after it."""
        return not (self.dropped or self.deleted)

    def put_head(self, subject: Subject, head: Head, standing: str = "") -> None:
        """Writes the head that a stream or a group has with this commit, and how a stream stands."""
        self.versions[subject] = head.version
        self.put.setdefault(schema.head, []).append(head_values(subject, head, standing))

    def remove(self, table: Table, key: Values) -> None:
        """Removes the rows with these values: a primary key, or the first columns of one."""
        self.removed.setdefault((table, tuple(key)), []).append(key)

    def delete(self, kind: Kind, name: str, epochs: int) -> None:
        """Removes a stream or a reader group with everything about it, and keeps its greatest epoch: a later one of its
        name gives out greater ones."""
        self.deleted[kind, name] = epochs
        self.remove(_TABLE_OF[kind], {"name": name})
        self.remove(schema.head, {"kind": kind.value, "name": name})

    def shorten(self, journal: JournalTable, name: str, topics: Iterable[str]) -> None:
        """Removes the oldest entries of each topic that has too many with those of this commit."""
        self.shortened.setdefault(journal, []).extend({"owner": name, "topic": topic} for topic in topics)

    def put_row(self, table: Table, values: Values) -> None:
        """Writes a whole row, over any with the same key."""
        self.put.setdefault(table, []).append(values)

    def add_row(self, table: Table, values: Values) -> None:
        """Writes a new row: if its key is taken, the transaction fails."""
        self.added.setdefault(table, []).append(values)


_TABLE_OF: Final = {Kind.STREAM: schema.stream, Kind.GROUP: schema.reader_group}


def _putting(statement: Any, table: Table) -> Any:  # an insert of either database
    """The insert, which also overwrites rows with the same key."""
    fixed = set(table.primary_key.columns.keys())
    replaced = {each.name: statement.excluded[each.name] for each in table.columns if each.name not in fixed}
    return statement.on_conflict_do_update(index_elements=table.primary_key.columns, set_=replaced)


# Built once: building a statement costs more than running it.
_TABLES: Final = schema.metadata.sorted_tables  # each after the tables that it refers to
_ADDING: Final = {
    kind.name: {table: (name := f"added_to_{table}", kind.insert(table, name)) for table in _TABLES}
    for kind in KINDS.values()
}
_PUTTING: Final = {
    kind.name: {table: (name := f"put_in_{table}", _putting(kind.insert(table, name), table)) for table in _TABLES}
    for kind in KINDS.values()
}


@cache
def _removing(table: Table, columns: tuple[str, ...], below: str | None = None) -> Delete:
    """Deletes the rows with equal values in these columns and, if `below` names a column, a lesser value there."""
    statement = delete(table).where(*(table.c[name] == bindparam(name) for name in columns))
    return statement if below is None else statement.where(table.c[below] < bindparam(below))


_TRIM: Final = _removing(schema.writer_change, ("stream",), below="seq")
_PRUNE: Final = _removing(schema.mark, ("stream", "key"), below="seq")
_oldest: Final = schema.mark.alias()
_PRUNE_EXCLUDED: Final = _removing(schema.excluded, ("stream", "key"), below="seq").where(
    # What the oldest mark that stays still names stays with it.
    schema.excluded.c.seq
    != func.coalesce(
        select(_oldest.c.excluded_since)
        .where(
            _oldest.c.stream == bindparam("stream"),
            _oldest.c.key == bindparam("key"),
            _oldest.c.seq == bindparam("seq"),
        )
        .scalar_subquery(),
        bindparam("seq"),
    )
)


def write_rows(connection: Connection, commit: Commit) -> None:
    """Writes everything, within the transaction that has locked the heads."""
    for stream, segment in commit.dropped:
        _drop_from_marks(connection, stream, segment)
    for (deleted_kind, name), epochs in commit.deleted.items():
        _keep_epochs(connection, deleted_kind, name, epochs)
    if commit.logged:
        connection.execute(_TRIM, commit.logged)
    if commit.pruned:
        connection.execute(_PRUNE, commit.pruned)
        connection.execute(_PRUNE_EXCLUDED, commit.pruned)
    for (table, columns), keys in commit.removed.items():
        connection.execute(_removing(table, columns), keys)
    kind = KINDS[connection.dialect.name]
    adding, putting = _ADDING[kind.name], _PUTTING[kind.name]
    inserts: list[tuple[str, Any, list[Values]]] = []
    for table in _TABLES:
        if table in commit.put:
            rows = commit.put[table]
            inserts.append((*putting[table], rows if len(rows) == 1 else _last_of_each(table, rows)))
        if table in commit.added:
            inserts.append((*adding[table], commit.added[table]))
    if inserts:
        kind.insert_all(connection, inserts)
    for journal, topics in commit.shortened.items():
        connection.execute(journal.shorten, topics)


def _last_of_each(table: Table, rows: list[Values]) -> list[Values]:
    """Of rows with the same key the last one: one statement of PostgreSQL overwrites no row twice."""
    key = table.primary_key.columns.keys()
    return list({tuple([row[name] for name in key]): row for row in rows}.values())


def _keep_epochs(connection: Connection, kind: Kind, name: str, epochs: int) -> None:
    """Remembers the greatest epoch of what is deleted. Rare, so it may be slow."""
    its, deleted = _TABLE_OF[kind].c, schema.deleted
    known = connection.execute(select(its.epochs).where(its.name == name)).scalar_one_or_none()
    known = known if isinstance(known, int) else 0  # where its rows cannot be read it may be anything
    greatest = max(epochs, known, greatest_deleted_epoch(connection, kind, name))
    connection.execute(delete(deleted).where(deleted.c.kind == kind.value, deleted.c.name == name))
    if greatest:
        connection.execute(insert(deleted).values(kind=kind.value, name=name, epochs=greatest))


def _drop_from_marks(connection: Connection, stream: str, segment: str) -> None:
    """Rewrites the cuts that reach into a segment which the log does not have. Rare, so it may be slow.

    A mark that cannot be read stays as it is: reading it raises StoreCorrupt, which here would fail other streams too.
    """
    mark = schema.mark
    reaching = select(mark).where(mark.c.stream == stream, mark.c.cut.contains(f'"{segment}":', autoescape=True))
    for row in connection.execute(reaching).all():
        with suppress(StoreCorrupt):
            cut = decoded(mark, row, mark_of).cut.without(segment)
            of_row = (mark.c.stream == stream, mark.c.key == row.key, mark.c.seq == row.seq)
            connection.execute(update(mark).where(*of_row).values(cut=cut_json(cut)))
