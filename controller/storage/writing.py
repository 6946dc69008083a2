"""What one commit writes, and the writing of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, Table, and_, bindparam, delete, insert, select, update

from controller.storage import schema
from controller.storage.dialect import Prepared, upsert
from controller.storage.rows import Values, cut_json, cut_of


class OwnershipLost(Exception):
    """Another controller took over streams that this one wanted to write."""

    def __init__(self, streams: Sequence[str]) -> None:
        super().__init__(streams)
        self.streams = streams

    def __str__(self) -> str:
        return f"another controller owns {', '.join(map(repr, self.streams))}"


@dataclass(frozen=True, slots=True)
class Spell:
    """One time of serving, from the start of a controller to its end. A later spell has a greater fence."""

    fence: int
    owner: str
    started_at: int


@dataclass(slots=True)
class Writing:
    """Everything that one transaction changes. Removals come before what is put and added."""

    spell: Spell
    served_until: int
    clock_bound: int
    owned: set[str] = field(default_factory=set)  # streams that must be this controller's own
    taken: dict[str, int] = field(default_factory=dict)  # streams that it takes over, with the fence they had
    passed: list[Values] = field(default_factory=list)  # histories that a mark has left behind: stream, key, time
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
    .values(served_until=bindparam("until"), clock_bound=bindparam("bound"))
)
_TAKE = (
    update(schema.stream)
    .where(schema.stream.c.name == bindparam("at_name"), schema.stream.c.fence == bindparam("at_fence"))
    .values(owner=bindparam("new_owner"), fence=bindparam("new_fence"))
)
_OWN = (
    select(schema.stream.c.name)
    .where(schema.stream.c.name == bindparam("at_name"), schema.stream.c.fence == bindparam("at_fence"))
    .with_for_update()
)
_PASS = delete(schema.note_history).where(
    schema.note_history.c.stream == bindparam("stream"),
    schema.note_history.c.key == bindparam("key"),
    schema.note_history.c.time < bindparam("time"),
)
_PRUNE = delete(schema.mark).where(
    schema.mark.c.stream == bindparam("stream"),
    schema.mark.c.key == bindparam("key"),
    schema.mark.c.seq < bindparam("seq"),
)


class Scribe:
    """Writes Writings to one connection, its statements made once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        dialect = connection.dialect
        self._tables = schema.metadata.sorted_tables  # each after those that it refers to
        self._puts = {table: Prepared(upsert(dialect, table), dialect) for table in self._tables}
        self._adds = {table: Prepared(insert(table), dialect) for table in self._tables}
        self._removals: dict[tuple[Table, tuple[str, ...]], Prepared] = {}
        self._keep_serving = Prepared(_KEEP_SERVING, dialect)
        self._take = Prepared(_TAKE, dialect)
        self._own = Prepared(_OWN, dialect)
        self._pass = Prepared(_PASS, dialect)
        self._prune = Prepared(_PRUNE, dialect)

    def commit(self, writing: Writing) -> None:
        """Writes it all, or nothing and raises: OwnershipLost, or what SQLAlchemy has."""
        connection = self._connection
        with connection.begin():
            self._keep(writing)
            self._remove(writing)
            for table in self._tables:
                if table in writing.put:
                    self._puts[table].run_all(connection, writing.put[table])
                if table in writing.added:
                    self._adds[table].run_all(connection, writing.added[table])

    def _keep(self, writing: Writing) -> None:
        connection, spell = self._connection, writing.spell
        kept = {"at_fence": spell.fence, "until": writing.served_until, "bound": writing.clock_bound}
        self._keep_serving.run(connection, kept)
        for name, fence in writing.taken.items():
            taken = {"at_name": name, "at_fence": fence, "new_owner": spell.owner, "new_fence": spell.fence}
            if self._take.run(connection, taken).rowcount != 1:
                raise OwnershipLost([name])
        for name in sorted(writing.owned):
            if self._own.run(connection, {"at_name": name, "at_fence": spell.fence}).one_or_none() is None:
                raise OwnershipLost([name])

    def _remove(self, writing: Writing) -> None:
        if writing.passed:
            self._pass.run_all(self._connection, writing.passed)
        if writing.pruned:
            self._prune.run_all(self._connection, writing.pruned)
        for stream, segment in writing.dropped:
            self._drop_from_marks(stream, segment)
        for (table, columns), keys in writing.removed.items():
            removal = self._removals.get((table, columns))
            if removal is None:
                where = and_(*(table.c[name] == bindparam(name) for name in columns))
                removal = self._removals[table, columns] = Prepared(
                    delete(table).where(where), self._connection.dialect
                )
            removal.run_all(self._connection, keys)

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
