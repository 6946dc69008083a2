"""Queries that go to the driver directly, several of them in one round trip where that costs one."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import Boolean, Connection, Select, bindparam, literal_column

from controller.storage.dialect import StoreDialect, dialect_of
from controller.storage.statements import Prepared, StatementRunner, Values


class Query:
    """A query, and the shape of its rows: named tuples, with columns as names."""

    def __init__(self, statement: Select[Any], *, paged: bool = False) -> None:
        """`paged`: it returns no more rows than its parameter `rows` says."""
        if paged:  # without an offset, SQLAlchemy makes a parameter of its own for SQLite
            statement = statement.limit(bindparam("rows")).offset(literal_column("0"))
        columns = statement.selected_columns
        self.statement = statement
        named: Any = namedtuple  # its fields are known here, not before
        shape = named("Row", columns.keys())
        self._row: Any = type("Row", (shape,), {"__slots__": (), "_mapping": property(shape._asdict)})
        self._flags = [place for place, column in enumerate(columns) if isinstance(column.type, Boolean)]

    def shaped(self, found: Sequence[Any]) -> list[Any]:
        """The rows of a driver. SQLite has no booleans."""
        if self._flags:
            for row in (rows := [list(each) for each in found]):
                for place in self._flags:
                    row[place] = bool(row[place])
            found = rows
        return list(map(self._row._make, found))


@cache
def _prepared(query: Query, dialect: StoreDialect) -> Prepared:
    return dialect.prepared(query.statement)


class StoreReader:
    """Runs the queries of one transaction."""

    def __init__(self, connection: Connection) -> None:
        self._dialect = dialect_of(connection.dialect)
        self._runner = StatementRunner(connection, self._dialect.left_undone)

    def rows(self, query: Query, values: Values) -> list[Any]:
        return query.shaped(self._runner.rows(_prepared(query, self._dialect), values))

    def rows_together(self, asked: Sequence[tuple[Query, Values]]) -> list[list[Any]]:
        """The rows of each of several queries, of which none needs what another one finds."""
        given = [(_prepared(query, self._dialect), values) for query, values in asked]
        found = self._runner.rows_together(given)
        return [query.shaped(rows) for (query, _), rows in zip(asked, found, strict=True)]
