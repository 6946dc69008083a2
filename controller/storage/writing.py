"""What one commit writes, and the writing of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, RootTransaction, Table, bindparam, func, select, update
from sqlalchemy.exc import DBAPIError

from controller.storage import schema
from controller.storage.dialect import RowStatement, words_of
from controller.storage.line import Line
from controller.storage.rows import Values, cut_json, cut_of


class OwnershipLost(Exception):
    """Another controller took over streams that this one wanted to write."""

    def __init__(self, streams: Sequence[str]) -> None:
        super().__init__(streams)
        self.streams = streams

    def __str__(self) -> str:
        return f"another controller owns {', '.join(map(repr, self.streams))}"


class SpellOver(Exception):
    """Another controller began to serve this store after this one did."""

    def __init__(self, fence: int, newest: int) -> None:
        super().__init__(fence, newest)
        self.fence = fence
        self.newest = newest

    def __str__(self) -> str:
        return f"another controller has served this store since: its fence is {self.newest}, ours {self.fence}"


class CommitUnknown(Exception):
    """The store was told to commit and did not answer: it did, or it did not, or will yet."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"whether the store committed is not known: {self.reason}"


@dataclass(frozen=True, slots=True)
class Spell:
    """One time of serving, from the start of a controller to its end. A later spell has a greater fence."""

    fence: int
    owner: str
    started_at: int
    unserved_ms: int = 0  # in which nobody could be heard before it


@dataclass(slots=True)
class Writing:
    """Everything that one transaction changes. Removals come before what is put and added."""

    spell: Spell
    served_until: int
    clock_bound: int
    unserved_ms: int = 0
    owned: set[str] = field(default_factory=set)  # streams that must be this controller's own
    taken: dict[str, int] = field(default_factory=dict)  # streams that it takes over, with the fence they had
    logged: list[Values] = field(default_factory=list)  # logs of writers: stream, seq of the first row to stay
    pruned: list[Values] = field(default_factory=list)  # marks that may go: stream, key, seq of the first to stay
    dropped: list[tuple[str, str]] = field(default_factory=list)  # stream, segment that the log does not have
    removed: dict[tuple[Table, tuple[str, ...]], list[Values]] = field(default_factory=dict)  # by table and columns
    put: dict[Table, list[Values]] = field(default_factory=dict)
    added: dict[Table, list[Values]] = field(default_factory=dict)

    def remove(self, table: Table, key: Values) -> None:
        """Removes the rows with these values: a primary key, or the first columns of one."""
        self.removed.setdefault((table, tuple(key)), []).append(key)

    def put_row(self, table: Table, values: Values) -> None:
        """Writes a row over the one with the same key."""
        self.put.setdefault(table, []).append(values)

    def add_row(self, table: Table, values: Values) -> None:
        """Writes a row that must be new: if its key is taken, the whole transaction fails."""
        self.added.setdefault(table, []).append(values)


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


class Scribe:
    """Writes Writings to one connection, its statements made once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._line = Line(connection)
        self._words = words_of(connection.dialect)
        self._tables = schema.metadata.sorted_tables  # each after those that it refers to
        self._puts = {table: self._words.putting(table) for table in self._tables}
        self._adds = {table: self._words.adding(table) for table in self._tables}
        self._removals: dict[tuple[Table, tuple[str, ...]], RowStatement] = {}
        self._keep_serving = self._words.prepared(_KEEP_SERVING)
        self._newest = self._words.prepared(_NEWEST)
        self._take = self._words.prepared(_TAKE)
        self._trim = self._words.removing(schema.writer_change, ["stream"], below="seq")
        self._prune = self._words.removing(schema.mark, ["stream", "key"], below="seq")

    def commit(self, writing: Writing) -> None:
        """Writes it all, or nothing and raises: OwnershipLost, SpellOver, or what SQLAlchemy has.

        Raises CommitUnknown where it cannot tell which. A connection that was lost before the commit began is made
        anew, once.
        """
        try:
            transaction = self._begin(writing)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            transaction = self._begin(writing)
        try:
            self._write(writing)
        except DBAPIError as error:
            transaction.rollback()
            if error.connection_invalidated:  # the commit may have gone with the rest
                raise CommitUnknown(type(error.orig).__name__) from error
            raise
        except BaseException:
            transaction.rollback()
            raise
        try:
            transaction.commit()
        except DBAPIError as error:
            transaction.close()
            if self._words.left_undone(error.orig):
                raise
            raise CommitUnknown(type(error.orig).__name__) from error

    def _begin(self, writing: Writing) -> RootTransaction:
        """Begins a transaction that may write this; else nothing is changed."""
        transaction = self._connection.begin()
        try:
            self._keep(writing)
            for stream, segment in writing.dropped:
                self._drop_from_marks(stream, segment)
        except BaseException:
            transaction.rollback()
            raise
        return transaction

    def _keep(self, writing: Writing) -> None:
        """Raises unless this spell is the newest still and owns what it must.

        A spell begins with a lock on the rows of those before it. So either it waits for us here, and then sees what
        we wrote, or we wait for it, and then see it: we take a look of our own, after the row is ours.
        """
        line, spell = self._line, writing.spell
        names = sorted(writing.owned)
        with line.together():
            kept = {
                "at_fence": spell.fence,
                "until": writing.served_until,
                "bound": writing.clock_bound,
                "unserved": writing.unserved_ms,
            }
            line.run(self._keep_serving, kept)
            newest = line.run(self._newest, {})
            takings = {}
            for name, fence in writing.taken.items():
                taken = {"at_name": name, "at_fence": fence, "new_owner": spell.owner, "new_fence": spell.fence}
                takings[name] = line.run(self._take, taken)
            owned = self._words.owned(line, names, spell.fence) if names else None
        ((fence,),) = newest.fetchall()
        if fence != spell.fence:
            raise SpellOver(spell.fence, fence)
        untaken = [name for name, cursor in takings.items() if cursor.rowcount != 1]
        ours = {name for (name,) in owned.fetchall()} if owned is not None else set()
        lost = sorted({*untaken, *(name for name in names if name not in ours)})
        if lost:
            raise OwnershipLost(lost)

    def _write(self, writing: Writing) -> None:
        """Writes it, and where that can go along, commits it."""
        line = self._line
        with line.together():
            self._remove(writing)
            for table in self._tables:
                if table in writing.put:
                    self._puts[table].run_all(line, writing.put[table])
                if table in writing.added:
                    self._adds[table].run_all(line, writing.added[table])
            line.commit()

    def _remove(self, writing: Writing) -> None:
        if writing.logged:
            self._trim.run_all(self._line, writing.logged)
        if writing.pruned:
            self._prune.run_all(self._line, writing.pruned)
        for (table, columns), keys in writing.removed.items():
            removal = self._removals.get((table, columns))
            if removal is None:
                removal = self._removals[table, columns] = self._words.removing(table, columns)
            removal.run_all(self._line, keys)

    def _drop_from_marks(self, stream: str, segment: str) -> None:
        """Rewrites the cuts that reach into a segment which never was. Rare, so it may take its time."""
        mark = schema.mark
        reaching = select(mark.c.key, mark.c.seq, mark.c.cut).where(
            mark.c.stream == stream, mark.c.cut.contains(f'"{segment}":', autoescape=True)
        )
        for row in self._connection.execute(reaching).all():
            self._connection.execute(
                update(mark)
                .where(mark.c.stream == stream, mark.c.key == row.key, mark.c.seq == row.seq)
                .values(cut=cut_json(cut_of(row.cut).without(segment)))
            )
