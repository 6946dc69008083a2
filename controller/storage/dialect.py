"""The one place that knows how the statements for the databases differ.

SQLite       a statement is run once for each row: there is no round trip
PostgreSQL   a statement is run once for all rows, sent as one JSON document: a round trip costs more than rows
"""

from __future__ import annotations

import sqlite3
from collections.abc import Hashable, Iterable, Sequence
from functools import cache
from typing import Any, Final, Protocol

import msgspec
from sqlalchemy import (
    JSON,
    ClauseElement,
    Column,
    Dialect,
    Table,
    and_,
    bindparam,
    cast,
    delete,
    func,
    insert,
    select,
)
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from controller.storage import schema
from controller.storage.pipeline import undone
from controller.storage.statements import Prepared, StatementResult, StatementRunner, Values

_encoder: Final = msgspec.json.Encoder()
_stream: Final = schema.stream.c
_SYNCS: Final = (sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC)


class RowStatement(Protocol):
    """A statement for any number of rows."""

    def run_all(self, runner: StatementRunner, rows: Sequence[Values]) -> None: ...


class StoreDialect(Hashable, Protocol):
    """The statements of one database, and the meaning of its errors."""

    def left_undone(self, error: BaseException | None) -> bool:
        """Whether a COMMIT that failed with this error of the driver certainly changed nothing."""

    def adding(self, table: Table) -> RowStatement:
        """Inserts whole rows; fails if a key is taken."""

    def putting(self, table: Table) -> RowStatement:
        """Inserts whole rows; each replaces the one with the same primary key."""

    def removing(self, table: Table, columns: Sequence[str], below: str | None = None) -> RowStatement:
        """Deletes the rows with equal values in these columns and, if `below` names a column, a lesser value there."""

    def prepared(self, statement: ClauseElement) -> Prepared:
        """Compiles any other statement."""

    def owned(self, runner: StatementRunner, names: Sequence[str], fence: int) -> StatementResult:
        """Returns which of these streams have this fence, and locks them until the transaction ends."""


def dialect_of(dialect: Dialect) -> StoreDialect:
    """One for all connections of a process: compiling statements costs as much as creating a store."""
    kind: Any = type(dialect)
    return _dialect_of_kind(kind)


@cache
def _dialect_of_kind(kind: Any) -> StoreDialect:
    match kind.name:
        case "sqlite":
            return SqliteDialect(kind(paramstyle="qmark"))
        case "postgresql":
            return PostgresqlDialect(kind(paramstyle="numeric_dollar"))
        case other:
            raise ValueError(f"the database {other!r} is not supported: use sqlite or postgresql")


class SqliteDialect:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        given = func.json_each(bindparam("names")).table_valued("value")
        where = (_stream.name.in_(select(given.c.value)), _stream.fence == bindparam("at_fence"))
        self._owned = Prepared(select(_stream.name).where(*where), dialect)

    def prepared(self, statement: ClauseElement) -> Prepared:
        return Prepared(statement, self._dialect)

    def left_undone(self, error: BaseException | None) -> bool:
        """True, unless a sync failed: the commit was written then, and may be there after a crash."""
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_IOERR_FSYNC) not in _SYNCS

    def adding(self, table: Table) -> RowStatement:
        return _OnceForEach(Prepared(insert(table), self._dialect))

    def putting(self, table: Table) -> RowStatement:
        statement = sqlite_insert(table)
        key, rest = _key_and_rest(table)
        overwriting = statement.on_conflict_do_update(
            index_elements=key, set_={name: statement.excluded[name] for name in rest}
        )
        return _OnceForEach(Prepared(overwriting, self._dialect))

    def removing(self, table: Table, columns: Sequence[str], below: str | None = None) -> RowStatement:
        where = [table.c[name] == bindparam(name) for name in columns]
        if below is not None:
            where.append(table.c[below] < bindparam(below))
        return _OnceForEach(Prepared(delete(table).where(and_(*where)), self._dialect))

    def owned(self, runner: StatementRunner, names: Sequence[str], fence: int) -> StatementResult:
        return runner.run(self._owned, {"names": _encoder.encode(names).decode(), "at_fence": fence})


class _OnceForEach:
    def __init__(self, statement: Prepared) -> None:
        self._statement = statement

    def run_all(self, runner: StatementRunner, rows: Sequence[Values]) -> None:
        runner.run_each(self._statement, rows)


class PostgresqlDialect:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        given = _given(schema.stream, ["name"])
        where = (_stream.name == given.c.name, _stream.fence == bindparam("at_fence"))
        # In order, so that two controllers never deadlock.
        query = select(_stream.name).where(*where).order_by(_stream.name).with_for_update(of=schema.stream)
        self._owned = self.prepared(query)

    def prepared(self, statement: ClauseElement) -> Prepared:
        return Prepared(statement, self._dialect)

    def left_undone(self, error: BaseException | None) -> bool:
        return error is not None and undone(error)

    def adding(self, table: Table) -> RowStatement:
        names = table.columns.keys()
        given = _given(table, names)
        statement = postgresql_insert(table).from_select(names, select(*given.c))
        return _OnceForAll(Prepared(statement, self._dialect))

    def putting(self, table: Table) -> RowStatement:
        names = table.columns.keys()
        given = _given(table, names)
        statement = postgresql_insert(table).from_select(names, select(*given.c))
        key, rest = _key_and_rest(table)
        overwriting = statement.on_conflict_do_update(
            index_elements=key, set_={name: statement.excluded[name] for name in rest}
        )
        return _OnceForAll(Prepared(overwriting, self._dialect), key)

    def removing(self, table: Table, columns: Sequence[str], below: str | None = None) -> RowStatement:
        given = _given(table, [*columns, *([] if below is None else [below])])
        where = [table.c[name] == given.c[name] for name in columns]
        if below is not None:
            where.append(table.c[below] < given.c[below])
        return _OnceForAll(Prepared(delete(table).where(and_(*where)), self._dialect))

    def owned(self, runner: StatementRunner, names: Sequence[str], fence: int) -> StatementResult:
        return runner.run(self._owned, {"rows": _json([{"name": name} for name in names]), "at_fence": fence})


class _OnceForAll:
    """One statement cannot overwrite a row twice: of rows with the same key, only the last one is sent."""

    def __init__(self, statement: Prepared, key: Sequence[str] = ()) -> None:
        self._statement = statement
        self._key = key

    def run_all(self, runner: StatementRunner, rows: Sequence[Values]) -> None:
        chosen: Iterable[Values] = rows
        if self._key and len(rows) > 1:
            chosen = {tuple([row[name] for name in self._key]): row for row in rows}.values()
        runner.run(self._statement, {"rows": _json(chosen)})


def _given(table: Table, names: Sequence[str]) -> Any:  # a table-valued alias
    """The parameter `rows` as a table with these columns, which have the types of `table`."""
    columns: list[Column[Any]] = [Column(name, table.c[name].type) for name in names]
    function = func.json_to_recordset(cast(bindparam("rows"), JSON))
    return function.table_valued(*columns).render_derived(name="given", with_types=True)


def _json(rows: Iterable[Values]) -> str:
    return _encoder.encode(list(rows)).decode()


def _key_and_rest(table: Table) -> tuple[list[str], list[str]]:
    """The names of the columns of the primary key, and of those that overwriting a row replaces."""
    key = [column.name for column in table.primary_key]
    fixed = [*key, schema.SHARD]
    return key, [column.name for column in table.columns if column.name not in fixed]
