"""The one place that knows how databases differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import ClauseElement, Connection, CursorResult, Dialect, Table
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.postgresql.dml import Insert as PostgresqlInsert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert
from sqlalchemy.dialects.sqlite.dml import Insert as SqliteInsert
from sqlalchemy.sql.compiler import SQLCompiler


def upsert(dialect: Dialect, table: Table) -> SqliteInsert | PostgresqlInsert:
    """An insert of whole rows that overwrites the row with the same primary key."""
    key: Sequence[str] = [column.name for column in table.primary_key]
    rest = [column.name for column in table.columns if column.name not in key]
    statement: SqliteInsert | PostgresqlInsert
    match dialect.name:
        case "sqlite":
            statement = sqlite_insert(table)
        case "postgresql":
            statement = postgresql_insert(table)
        case other:
            raise ValueError(f"no upsert is known for {other!r}: sqlite and postgresql are supported")
    return statement.on_conflict_do_update(index_elements=key, set_={name: statement.excluded[name] for name in rest})


class Prepared:
    """A statement in the words of one database, made once. Its parameters go to the driver as they are.

    What SQLAlchemy does for each row costs more than the row does, and nothing of it is needed: all columns have types
    that drivers know, whole numbers, texts, floats and booleans.
    """

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        assert isinstance(compiled, SQLCompiler)
        self._sql = compiled.string
        self._names = list(compiled.positiontup or ()) if compiled.positional else None

    def run(self, connection: Connection, values: dict[str, Any]) -> CursorResult[Any]:
        return connection.exec_driver_sql(self._sql, self._parameters(values))

    def run_all(self, connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
        """Once for each row."""
        connection.exec_driver_sql(self._sql, [self._parameters(row) for row in rows])

    def _parameters(self, values: dict[str, Any]) -> Any:  # a tuple or a dict, as the driver wants it
        return values if self._names is None else tuple([values[name] for name in self._names])
