"""What one commit writes, and the code that writes it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, RootTransaction, Table, bindparam, func, select, update
from sqlalchemy.exc import DBAPIError

from controller.storage import schema
from controller.storage.checksums import CHECKSUMS, with_checksum
from controller.storage.diagnosis import Cause, StoreTrouble
from controller.storage.dialect import RowStatement, StoreDialect, dialect_of
from controller.storage.rows import Values, cut_json, cut_of
from controller.storage.statements import StatementRunner
from controller.storage.transaction import abandon, decided, transaction

# Owners of terms in which no controller served. Names of controllers have a colon, so these two differ from all.
RESTORE: Final = "restore"
REWIND: Final = "rewind"
CLUSTER: Final = "cluster"  # from here on controllers serve together, each with shards of its own


class OwnershipLost(StoreTrouble):
    """Another controller owns streams that this one wanted to write."""

    def __init__(self, streams: Sequence[str]) -> None:
        super().__init__(streams)
        self.streams = streams

    def __str__(self) -> str:
        return f"another controller owns {', '.join(map(repr, self.streams))}"


class TermOver(StoreTrouble):
    """Another controller began to serve this store after this one did. `owner` is its name."""

    cause = Cause.TAKEN_OVER

    def __init__(self, fence: int, newest: int, owner: str) -> None:
        super().__init__(fence, newest, owner)
        self.fence = fence
        self.newest = newest
        self.owner = owner

    def __str__(self) -> str:
        fences = f"its fence is {self.newest}, this controller's {self.fence}"
        if self.owner == RESTORE:
            return f"the store was restored from a backup while this controller served it: {fences}"
        if self.owner == REWIND:
            return f"the store's clock was set back while this controller served it: {fences}"
        if self.owner == CLUSTER:
            return f"controllers that serve the store together took it over: {fences}"
        return f"controller {self.owner} took the store over: {fences}"


class TermGone(StoreTrouble):
    """The store lacks the entry of this controller's term: it was restored to an earlier moment."""

    cause = Cause.MOVED

    def __init__(self, fence: int) -> None:
        super().__init__(fence)
        self.fence = fence

    def __str__(self) -> str:
        return (
            f"the store no longer has this controller's entry (fence {self.fence}): it was restored to an earlier "
            f"moment, or changed by hand"
        )


@dataclass(frozen=True, slots=True)
class Term:
    """One term of serving, from the start of a controller to its end. A later term has a greater fence."""

    fence: int
    owner: str
    started_at: int
    unserved_ms: int = 0  # how long, before this term, no caller could be heard


@dataclass(slots=True)
class Commit:
    """Everything that one transaction changes. It removes rows before it puts and adds any."""

    term: Term
    served_until: int
    clock_bound: int
    unserved_ms: int = 0
    owned: set[str] = field(default_factory=set)  # streams that this controller must own
    taken: dict[str, int] = field(default_factory=dict)  # streams that it takes over and puts, with their old fence
    logged: list[Values] = field(default_factory=list)  # logs of writers: stream, seq of the first row to keep
    pruned: list[Values] = field(default_factory=list)  # marks to remove: stream, key, seq of the first to keep
    dropped: list[tuple[str, str]] = field(default_factory=list)  # stream, segment that the log does not have
    removed: dict[tuple[Table, tuple[str, ...]], list[Values]] = field(default_factory=dict)  # by table and columns
    put: dict[Table, list[Values]] = field(default_factory=dict)
    added: dict[Table, list[Values]] = field(default_factory=dict)

    def remove(self, table: Table, key: Values) -> None:
        """Removes the rows with these values: a primary key, or the first columns of one."""
        self.removed.setdefault((table, tuple(key)), []).append(key)

    def put_row(self, table: Table, values: Values) -> None:
        """Writes a whole row, over any with the same key. Adds its checksum to the values."""
        self.put.setdefault(table, []).append(with_checksum(table, values))

    def add_row(self, table: Table, values: Values) -> None:
        """Writes a new row: if its key is taken, the transaction fails. Adds its checksum to the values."""
        self.added.setdefault(table, []).append(with_checksum(table, values))


_KEEP_SERVING = (
    update(schema.served)
    .where(schema.served.c.fence == bindparam("at_fence"))
    .values(served_until=bindparam("until"), clock_bound=bindparam("bound"), unserved_ms=bindparam("unserved"))
)
_TAKE = (
    update(schema.stream)
    .where(schema.stream.c.name == bindparam("at_name"), schema.stream.c.fence == bindparam("at_fence"))
    .values(owner=bindparam("new_owner"), fence=bindparam("new_fence"))
)
_NEWEST = select(func.max(schema.served.c.fence))
# Changes no value, but is a commit like any other: when it is durable, so is every earlier commit.
_TOUCH = (
    update(schema.served)
    .where(schema.served.c.fence == _NEWEST.scalar_subquery())
    .values(served_until=schema.served.c.served_until)
)
_OWNER = select(schema.served.c.owner).where(schema.served.c.fence == bindparam("at_fence"))


class _Statements:
    """The statements of a CommitWriter for one database, compiled once in a process."""

    def __init__(self, dialect: StoreDialect) -> None:
        self._dialect = dialect
        self.tables = schema.metadata.sorted_tables  # each after the tables that it refers to
        self.puts = {table: dialect.putting(table) for table in self.tables}
        self.adds = {table: dialect.adding(table) for table in self.tables}
        self.keep_serving = dialect.prepared(_KEEP_SERVING)
        self.newest = dialect.prepared(_NEWEST)
        self.owner = dialect.prepared(_OWNER)
        self.take = dialect.prepared(_TAKE)
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
def _statements_of(dialect: Any) -> _Statements:
    return _Statements(dialect)


class CommitWriter:
    """Writes Commits to one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        dialect: Any = dialect_of(connection.dialect)  # mypy does not accept a protocol as hashable
        self._dialect: StoreDialect = dialect
        self._runner = StatementRunner(connection, dialect.left_undone)
        self._statements = _statements_of(dialect)

    def commit(self, commit: Commit, may_write: Callable[[], None] = lambda: None) -> None:
        """Writes everything; or writes nothing and raises OwnershipLost, TermOver, TermGone or an error of SQLAlchemy.

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
            self._keep(commit)
            for stream, segment in commit.dropped:
                self._drop_from_marks(stream, segment)
        except BaseException:
            abandon(self._connection, begun)
            raise
        return begun

    def _keep(self, commit: Commit) -> None:
        """Raises unless this term is still the newest, and owns the streams that it must own.

        A new term begins by locking the rows of the terms before it. So either it waits for this commit, and then sees
        what it wrote, or this commit waits for the new term, and then sees it: it reads the newest fence after it has
        locked its own row.
        """
        runner, term = self._runner, commit.term
        names = sorted(commit.owned)
        with runner.together():
            kept = {
                "at_fence": term.fence,
                "until": commit.served_until,
                "bound": commit.clock_bound,
                "unserved": commit.unserved_ms,
            }
            runner.run(self._statements.keep_serving, kept)
            newest = runner.run(self._statements.newest, {})
            takings = {}
            for name, fence in commit.taken.items():
                taken = {"at_name": name, "at_fence": fence, "new_owner": term.owner, "new_fence": term.fence}
                takings[name] = runner.run(self._statements.take, taken)
            owned = self._dialect.owned(runner, names, term.fence) if names else None
        ((fence,),) = newest.fetchall()
        if fence != term.fence:
            raise self._over(term, fence)
        untaken = [name for name, cursor in takings.items() if cursor.rowcount != 1]
        ours = {name for (name,) in owned.fetchall()} if owned is not None else set()
        lost = sorted({*untaken, *(name for name in names if name not in ours)})
        if lost:
            raise OwnershipLost(lost)

    def _over(self, term: Term, newest: int | None) -> TermOver | TermGone:
        """The error for a term that is not the newest."""
        if newest is None or newest < term.fence:
            return TermGone(term.fence)
        with self._runner.together():
            asked = self._runner.run(self._statements.owner, {"at_fence": newest})
        ((owner,),) = asked.fetchall()
        return TermOver(term.fence, newest, owner)

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
            runner.commit()

    def _remove(self, commit: Commit) -> None:
        if commit.logged:
            self._statements.trim.run_all(self._runner, commit.logged)
        if commit.pruned:
            self._statements.prune.run_all(self._runner, commit.pruned)
        for (table, columns), keys in commit.removed.items():
            self._statements.removal(table, columns).run_all(self._runner, keys)

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
