"""What one commit writes, and the code that writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final, Protocol

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
from sqlalchemy.exc import DBAPIError

from controller.cluster.records import Kind
from controller.storage import schema
from controller.storage.kinds import KINDS, kind_of
from controller.storage.load import greatest_deleted_epoch
from controller.storage.rows import Values, cut_json, mark_of
from controller.storage.tenure import Tenure
from controller.storage.transaction import transaction
from controller.storage.unreadable import decoded
from strandline.errors import StoreCorrupt


@dataclass(slots=True)
class Claim:
    """That a stream or reader group is written under a tenure."""

    tenure: Tenure
    kind: Kind
    name: str
    stored_fence: int | None  # with which it was written last; None if it was never written, or that is not known


class ServingCheck(Protocol):
    """A controller's right to serve, as a commit finds it in the store."""

    def check(self, connection: Connection, claims: Sequence[Claim]) -> None:
        """Raises unless the controller may write these claims. If it may, that cannot change before the transaction of
        the connection ends."""

    def finish(self, connection: Connection) -> None:
        """Writes what follows the rows of the commit."""


@dataclass(slots=True)
class Commit:
    """Everything that one transaction changes. It removes rows before it puts and adds any; of several rows that it
    puts under one key, the last one counts."""

    serving: ServingCheck
    claims: list[Claim] = field(default_factory=list)
    logged: list[Values] = field(default_factory=list)  # logs of writers: stream, seq of the first row to keep
    pruned: list[Values] = field(default_factory=list)  # marks to remove: stream, key, seq of the first to keep
    dropped: list[tuple[str, str]] = field(default_factory=list)  # stream, segment that the log does not have
    deleted: dict[tuple[Kind, str], int] = field(default_factory=dict)  # what is deleted, with its greatest epoch
    removed: dict[tuple[Table, tuple[str, ...]], list[Values]] = field(default_factory=dict)  # by table and columns
    put: dict[Table, list[Values]] = field(default_factory=dict)
    added: dict[Table, list[Values]] = field(default_factory=dict)

    def under(self, tenure: Tenure, kind: Kind, name: str, stored_fence: int | None) -> None:
        """Says under which tenure a stream or reader group is written. Each says so once, before its rows."""
        self.claims.append(Claim(tenure, kind, name, stored_fence))

    def remove(self, table: Table, key: Values) -> None:
        """Removes the rows with these values: a primary key, or the first columns of one."""
        self.removed.setdefault((table, tuple(key)), []).append(key)

    def delete(self, kind: Kind, name: str, epochs: int) -> None:
        """Removes a stream or a reader group with everything about it, and keeps its greatest epoch: a later one of its
        name gives out greater ones."""
        self.deleted[kind, name] = epochs
        self.remove(_TABLE_OF[kind], {"name": name})

    def put_row(self, table: Table, values: Values) -> None:
        """Writes a whole row, over any with the same key."""
        self.put.setdefault(table, []).append(values)

    def add_row(self, table: Table, values: Values) -> None:
        """Writes a new row: if its key is taken, the transaction fails."""
        self.added.setdefault(table, []).append(values)


_TABLE_OF: Final = {Kind.STREAM: schema.stream, Kind.GROUP: schema.reader_group}

# Changes no value, but is a commit like any other: when it is durable, so is every earlier commit.
_TOUCH: Final = (
    update(schema.served)
    .where(schema.served.c.fence == select(func.max(schema.served.c.fence)).scalar_subquery())
    .values(served_until=schema.served.c.served_until)
)


def _putting(statement: Any, table: Table) -> Any:  # an insert of either database
    """The insert, which also overwrites rows with the same key."""
    fixed = {*table.primary_key.columns.keys(), schema.SHARD}
    replaced = {each.name: statement.excluded[each.name] for each in table.columns if each.name not in fixed}
    return statement.on_conflict_do_update(index_elements=table.primary_key.columns, set_=replaced)


# Built once: building a statement costs more than running it.
_TABLES: Final = schema.metadata.sorted_tables  # each after the tables that it refers to
_ADDING: Final = {name: {table: kind.insert(table) for table in _TABLES} for name, kind in KINDS.items()}
_PUTTING: Final = {
    name: {table: _putting(kind.insert(table), table) for table in _TABLES} for name, kind in KINDS.items()
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


def write_commit(connection: Connection, commit: Commit, may_commit: Callable[[], None] = lambda: None) -> None:
    """Writes everything; or writes nothing and raises what the check of serving does, or an error of SQLAlchemy.

    Raises CommitUnknown if either may be so. Reconnects once if the connection was lost before COMMIT was sent.
    `may_commit` is called before that, and prevents it by raising.
    """
    try:
        _write(connection, commit, may_commit)
    except DBAPIError as error:
        if not error.connection_invalidated:
            raise
        _write(connection, commit, may_commit)


def settle(connection: Connection) -> None:
    """Returns once every commit that was ever sent is durable or undone, so that a read shows which.

    Raises CommitUnknown or an error of SQLAlchemy if that cannot be found out now.
    """
    with transaction(connection):  # a lost connection is made again, and waits for the lock of the old one
        connection.execute(_TOUCH)


def _write(connection: Connection, commit: Commit, may_commit: Callable[[], None]) -> None:
    with transaction(connection, may_commit):
        commit.serving.check(connection, commit.claims)
        _write_rows(connection, commit)
        commit.serving.finish(connection)


def _write_rows(connection: Connection, commit: Commit) -> None:
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
    kind = kind_of(connection)
    adding, putting = _ADDING[kind.name], _PUTTING[kind.name]
    for table in _TABLES:
        if table in commit.put:
            connection.execute(putting[table], kind.rows(_last_of_each(table, commit.put[table])))
        if table in commit.added:
            connection.execute(adding[table], kind.rows(commit.added[table]))


def _last_of_each(table: Table, rows: list[Values]) -> list[Values]:
    """Of rows with the same key the last one: one statement of PostgreSQL overwrites no row twice."""
    if len(rows) == 1:
        return rows
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
