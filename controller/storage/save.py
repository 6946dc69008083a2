"""What one commit writes, and the code that writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from sqlalchemy import Connection, RootTransaction, Table, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError

from controller.cluster.records import Kind
from controller.storage import schema
from controller.storage.checksums import CHECKSUMS, with_checksum
from controller.storage.dialect import RowStatement, StoreDialect, dialect_of
from controller.storage.load import greatest_deleted_epoch
from controller.storage.rows import Values, cut_json, cut_of
from controller.storage.statements import StatementRunner
from controller.storage.tenure import Tenure
from controller.storage.transaction import abandon, decided, transaction


@dataclass(slots=True)
class Claim:
    """That a stream or reader group is written under a tenure."""

    tenure: Tenure
    kind: Kind
    name: str
    stored_fence: int | None  # with which it was written last; None if it was never written, or that is not known


class ServingCheck(Protocol):
    """A controller's right to serve, as a commit finds it in the store."""

    def ask(self, runner: StatementRunner, dialect: StoreDialect, claims: Sequence[Claim]) -> Callable[[], None]:
        """Runs the statements that show whether the controller may write these claims, within `runner.together`.

        Call what it returns after `together`: it raises unless the controller may. If it may, that cannot change before
        the transaction ends.
        """

    def finish(self, runner: StatementRunner) -> None:
        """Runs the statements that follow the rows of the commit."""


@dataclass(slots=True)
class Commit:
    """Everything that one transaction changes. It removes rows before it puts and adds any."""

    serving: ServingCheck
    claims: list[Claim] = field(default_factory=list)
    logged: list[Values] = field(default_factory=list)  # logs of writers: stream, seq of the first row to keep
    pruned: list[Values] = field(default_factory=list)  # marks to remove: stream, key, seq of the first to keep
    dropped: list[tuple[str, str]] = field(default_factory=list)  # stream, segment that the log does not have
    deleted: dict[str, int] = field(default_factory=dict)  # streams that are deleted, with their greatest epochs
    removed: dict[tuple[Table, tuple[str, ...]], list[Values]] = field(default_factory=dict)  # by table and columns
    put: dict[Table, list[Values]] = field(default_factory=dict)
    added: dict[Table, list[Values]] = field(default_factory=dict)

    def under(self, tenure: Tenure, kind: Kind, name: str, stored_fence: int | None) -> None:
        """Says under which tenure a stream or reader group is written. Each says so once, before its rows."""
        self.claims.append(Claim(tenure, kind, name, stored_fence))

    def remove(self, table: Table, key: Values) -> None:
        """Removes the rows with these values: a primary key, or the first columns of one."""
        self.removed.setdefault((table, tuple(key)), []).append(key)

    def delete_stream(self, name: str, epochs: int) -> None:
        """Removes a stream with everything about it, and keeps its greatest epoch: a stream that is created under its
        name later gives out greater ones. Pass 0 if the store alone knows the epoch."""
        self.deleted[name] = epochs
        self.remove(schema.stream, {"name": name})

    def put_row(self, table: Table, values: Values) -> None:
        """Writes a whole row, over any with the same key. Adds its checksum to the values."""
        self.put.setdefault(table, []).append(with_checksum(table, values))

    def add_row(self, table: Table, values: Values) -> None:
        """Writes a new row: if its key is taken, the transaction fails. Adds its checksum to the values."""
        self.added.setdefault(table, []).append(with_checksum(table, values))


# Changes no value, but is a commit like any other: when it is durable, so is every earlier commit.
_TOUCH = (
    update(schema.served)
    .where(schema.served.c.fence == select(func.max(schema.served.c.fence)).scalar_subquery())
    .values(served_until=schema.served.c.served_until)
)


class _Statements:
    """The statements of a CommitWriter for one database, compiled once in a process."""

    def __init__(self, dialect: StoreDialect) -> None:
        self._dialect = dialect
        self.tables = schema.metadata.sorted_tables  # each after the tables that it refers to
        self.puts = {table: dialect.putting(table) for table in self.tables}
        self.adds = {table: dialect.adding(table) for table in self.tables}
        self.trim = dialect.removing(schema.writer_change, ["stream"], below="seq")
        self.prune = dialect.removing(schema.mark, ["stream", "key"], below="seq")
        self._removals: dict[tuple[Table, tuple[str, ...]], RowStatement] = {}

    def removal(self, table: Table, columns: tuple[str, ...]) -> RowStatement:
        """The statement that removes the rows with equal values in these columns."""
        found = self._removals.get((table, columns))
        if found is None:
            found = self._removals[table, columns] = self._dialect.removing(table, columns)
        return found


@cache
def _statements_of(dialect: StoreDialect) -> _Statements:
    return _Statements(dialect)


class CommitWriter:
    """Writes Commits to one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._dialect = dialect_of(connection.dialect)
        self._runner = StatementRunner(connection, self._dialect.left_undone)
        self._statements = _statements_of(self._dialect)

    def commit(self, commit: Commit, may_write: Callable[[], None] = lambda: None) -> None:
        """Writes everything; or writes nothing and raises what the check of serving does, or an error of SQLAlchemy.

        Raises CommitUnknown if either may be so. Reconnects once if the connection was lost before the commit began.
        `may_write` is called before anything is sent that may lead to a commit, and stops it by raising.
        """
        try:
            self._commit(commit, may_write)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            self._commit(commit, may_write)

    def settle(self) -> None:
        """Returns once every commit that was ever sent is durable or undone, so that a read shows which.

        Raises CommitUnknown or an error of SQLAlchemy if that cannot be found out now.
        """
        with transaction(self._connection):  # a lost connection is made again, and waits for the lock of the old one
            self._connection.execute(_TOUCH)

    def _commit(self, commit: Commit, may_write: Callable[[], None]) -> None:
        begun = self._begin(commit)
        with decided(self._connection, begun, self._runner):
            may_write()
            self._write(commit)

    def _begin(self, commit: Commit) -> RootTransaction:
        """Begins a transaction and checks that it may write this commit; else raises and changes nothing."""
        begun = self._connection.begin()
        try:
            with self._runner.together():
                confirm = commit.serving.ask(self._runner, self._dialect, commit.claims)
            confirm()
            for stream, segment in commit.dropped:
                self._drop_from_marks(stream, segment)
            for stream, epochs in commit.deleted.items():
                self._keep_epochs(stream, epochs)
        except BaseException:
            abandon(self._connection, begun)
            raise
        return begun

    def _write(self, commit: Commit) -> None:
        """Sends the rows and the COMMIT."""
        runner, statements = self._runner, self._statements
        with runner.together():
            self._remove(commit)
            for table in statements.tables:
                if table in commit.put:
                    statements.puts[table].run_all(runner, commit.put[table])
                if table in commit.added:
                    statements.adds[table].run_all(runner, commit.added[table])
            commit.serving.finish(runner)
            runner.commit()

    def _remove(self, commit: Commit) -> None:
        if commit.logged:
            self._statements.trim.run_all(self._runner, commit.logged)
        if commit.pruned:
            self._statements.prune.run_all(self._runner, commit.pruned)
        for (table, columns), keys in commit.removed.items():
            self._statements.removal(table, columns).run_all(self._runner, keys)

    def _keep_epochs(self, stream: str, epochs: int) -> None:
        """Remembers the greatest epoch of a stream that is deleted. Rare, so it may be slow."""
        of_stream, deleted = schema.stream.c, schema.deleted_stream
        known = self._connection.execute(select(of_stream.epochs).where(of_stream.name == stream)).scalar_one_or_none()
        greatest = max(epochs, known or 0, greatest_deleted_epoch(self._connection, stream))
        self._connection.execute(delete(deleted).where(deleted.c.name == stream))
        if greatest:
            self._connection.execute(insert(deleted).values(name=stream, epochs=greatest))

    def _drop_from_marks(self, stream: str, segment: str) -> None:
        """Rewrites the cuts that reach into a segment which the log does not have. Rare, so it may be slow.

        A damaged mark stays as it is: reading it raises StoreCorrupt.
        """
        mark = schema.mark
        reaching = select(mark).where(mark.c.stream == stream, mark.c.cut.contains(f'"{segment}":', autoescape=True))
        for row in self._connection.execute(reaching).all():
            if CHECKSUMS[mark].matches(row):
                values = with_checksum(mark, row._asdict() | {"cut": cut_json(cut_of(row.cut).without(segment))})
                of_row = (mark.c.stream == stream, mark.c.key == row.key, mark.c.seq == row.seq)
                self._connection.execute(update(mark).where(*of_row).values(values))
