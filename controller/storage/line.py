"""Statements as the driver takes them, and the way that they go.

What SQLAlchemy does for each statement and row costs more than the statement does, and on the hot path nothing of it is
needed: all columns have types that drivers know, whole numbers, texts, floats and booleans.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from sqlalchemy import ClauseElement, Connection, Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

Values: TypeAlias = dict[str, Any]


class Prepared:
    """A statement in the words of one database, made once."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        compiled = statement.compile(dialect=dialect)
        assert isinstance(compiled, SQLCompiler)
        self.sql = compiled.string
        self._names = list(compiled.positiontup or ()) if compiled.positional else None

    def parameters(self, values: Values) -> Any:  # a tuple or a dict, as the driver wants it
        return values if self._names is None else tuple([values[name] for name in self._names])


class Line:
    """The way to a database, over the connection that SQLAlchemy keeps. Everything is run inside `together`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pipelined = connection.dialect.driver == "psycopg"
        self._driver: Any = None  # the driver's connection

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is run inside is sent without a wait for each answer, where the driver can: answers are there after it.

        Raises what SQLAlchemy would, then or earlier.
        """
        driver: Any = self._connection.connection.driver_connection
        self._driver = driver
        dialect = self._connection.dialect
        try:
            if self._pipelined:
                with driver.pipeline():
                    yield
            else:
                yield
        except dialect.loaded_dbapi.Error as error:
            lost = dialect.is_disconnect(error, driver, None)
            if lost:
                self._connection.invalidate(error)
            raise DBAPIError.instance(
                None, None, error, dialect.loaded_dbapi.Error, connection_invalidated=lost, dialect=dialect
            ) from error

    def run(self, statement: Prepared, values: Values) -> Any:
        """Returns the driver's cursor, to be asked for its rows after `together`."""
        return self._driver.execute(statement.sql, statement.parameters(values))

    def run_each(self, statement: Prepared, rows: Sequence[Values]) -> None:
        """Once for each row."""
        self._driver.executemany(statement.sql, [statement.parameters(row) for row in rows])

    def commit(self) -> None:
        """As the last thing that is sent, where that spares a wait; the transaction has to be committed all the same,
        which then costs nothing."""
        if self._pipelined:
            self._driver.commit()
