"""Statements as the driver takes them, and the way that they go.

What SQLAlchemy does for each statement and row costs more than the statement does, and on the hot path nothing of it is
needed: all columns have types that drivers know, whole numbers, texts, floats and booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeAlias

from sqlalchemy import ClauseElement, Connection, Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

from controller.storage.pipeline import Fate, Pipeline

Values: TypeAlias = dict[str, Any]


class Prepared:
    """A statement in the words of one database, made once, its parameters in the order in which they stand."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        """Takes a dialect whose parameters stand in an order."""
        compiled = statement.compile(dialect=dialect)
        assert isinstance(compiled, SQLCompiler) and compiled.positional
        self.sql = compiled.string
        self._names = list(compiled.positiontup or ())

    def parameters(self, values: Values) -> tuple[Any, ...]:
        return tuple([values[name] for name in self._names])


class StatementResult(Protocol):
    """To a statement: there when the way back is done."""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> list[Any]: ...


class StatementRunner:
    """The way to a database, over the connection that SQLAlchemy keeps. Everything is run inside `together`."""

    def __init__(self, connection: Connection, left_undone: Callable[[BaseException], bool]) -> None:
        """`left_undone` says whether a COMMIT that failed with an error of the driver's has changed nothing."""
        self._connection = connection
        self._left_undone = left_undone
        self._fate = Fate.UNDONE
        self._pipelined = connection.dialect.driver == "psycopg"
        self._driver: Any = None  # the driver's connection
        self._pipeline: Any = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is run inside is sent without a wait for each answer, where the driver can: answers are there after it.

        Raises what SQLAlchemy would, then or earlier.
        """
        driver: Any = self._connection.connection.driver_connection
        if driver is not self._driver:
            self._driver = driver
            self._pipeline = Pipeline(driver) if self._pipelined else None
        dialect = self._connection.dialect
        self._fate = Fate.UNDONE
        try:
            if self._pipeline is None:
                yield
            else:
                with self._pipeline.filled():
                    yield
        except dialect.loaded_dbapi.Error as error:
            lost = dialect.is_disconnect(error, driver, None)
            if lost:
                self._connection.invalidate(error)
            raise DBAPIError.instance(
                None, None, error, dialect.loaded_dbapi.Error, connection_invalidated=lost, dialect=dialect
            ) from error

    def run(self, statement: Prepared, values: Values) -> StatementResult:
        """Its answer is to be asked for rows after `together`."""
        given = statement.parameters(values)
        if self._pipeline is not None:
            answer: StatementResult = self._pipeline.put(statement.sql, given)
            return answer
        cursor: StatementResult = self._driver.execute(statement.sql, given)
        return cursor

    def run_each(self, statement: Prepared, rows: Sequence[Values]) -> None:
        """Once for each row."""
        assert self._pipeline is None
        self._driver.executemany(statement.sql, [statement.parameters(row) for row in rows])

    def commit(self) -> None:
        """Commits what was run `together` last, as the last thing inside; SQLAlchemy has to be told all the same."""
        if self._pipeline is not None:
            self._pipeline.put_commit()
            return
        try:
            self._driver.commit()
        except Exception as error:
            self._fate = Fate.UNDONE if self._left_undone(error) else Fate.UNKNOWN
            raise
        self._fate = Fate.DONE

    @property
    def fate(self) -> Fate:
        """What became of the transaction that ran `together` last."""
        return self._fate if self._pipeline is None else self._pipeline.fate
