"""Runs compiled statements on the driver, without SQLAlchemy.

SQLAlchemy's work for each statement and row costs more than the statement, and the hot path needs none of it: all
columns have types that drivers know, integers, texts, floats and booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import itemgetter
from typing import Any, Final, Protocol, TypeAlias

from sqlalchemy import ClauseElement, Connection, Dialect
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

from controller.storage.pipeline import Fate, Pipeline

Values: TypeAlias = dict[str, Any]

_PIPELINE: Final = "strandline_pipeline"


class Prepared:
    """A statement compiled for one database, with positional parameters."""

    def __init__(self, statement: ClauseElement, dialect: Dialect) -> None:
        """`dialect` must have a positional paramstyle."""
        compiled = statement.compile(dialect=dialect)
        assert isinstance(compiled, SQLCompiler) and compiled.positional
        self.sql = compiled.string
        self.parameters = _picking(compiled.positiontup or ())


def _picking(names: Sequence[str]) -> Callable[[Values], tuple[Any, ...]]:
    """A function that takes these values out, in order."""
    if len(names) > 1:
        return itemgetter(*names)  # of one name it would make no tuple
    return lambda values: tuple([values[name] for name in names])


class StatementResult(Protocol):
    """The result of a statement, available after `together`."""

    @property
    def rowcount(self) -> int: ...

    def fetchall(self) -> list[Any]: ...


class StatementRunner:
    """Runs statements on the connection that SQLAlchemy keeps. Every call must be inside `together`."""

    def __init__(self, connection: Connection, left_undone: Callable[[BaseException], bool]) -> None:
        """`left_undone` says whether a COMMIT that failed with this error of the driver certainly changed nothing."""
        self._connection = connection
        self._left_undone = left_undone
        self._fate = Fate.UNDONE
        self._pipelined = connection.dialect.driver == "psycopg"
        self._driver: Any = None  # the driver's connection
        self._pipeline: Any = None

    @contextmanager
    def together(self) -> Iterator[None]:
        """Sends the statements inside without waiting for each answer, if the driver can. Answers are there on exit.

        Raises what SQLAlchemy would raise, inside or on exit.
        """
        driver: Any = self._connection.connection.driver_connection
        if driver is not self._driver:
            self._driver = driver
            self._pipeline = self._pipeline_of(driver) if self._pipelined else None
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

    def _pipeline_of(self, driver: Any) -> Pipeline:
        """One for a session, whoever runs statements in it: it names those that it has prepared."""
        info = self._connection.info  # of the session: a new one has its own
        if _PIPELINE not in info:
            info[_PIPELINE] = Pipeline(driver)
        found: Pipeline = info[_PIPELINE]
        return found

    def run(self, statement: Prepared, values: Values) -> StatementResult:
        """Runs a statement. Read its answer after `together`."""
        given = statement.parameters(values)
        if self._pipeline is not None:
            answer: StatementResult = self._pipeline.put(statement.sql, given)
            return answer
        cursor: StatementResult = self._driver.execute(statement.sql, given)
        return cursor

    def rows(self, statement: Prepared, values: Values) -> list[Any]:
        """Runs one query by itself and returns its rows. Not inside `together`."""
        with self.together():
            answer = self.run(statement, values)
            if self._pipeline is None:
                return answer.fetchall()  # the driver may fail here as well
        return answer.fetchall()

    def rows_together(self, asked: Sequence[tuple[Prepared, Values]]) -> list[list[Any]]:
        """The same for several queries."""
        with self.together():
            if self._pipeline is None:
                return [self.run(statement, values).fetchall() for statement, values in asked]
            answers = [self.run(statement, values) for statement, values in asked]
        return [answer.fetchall() for answer in answers]

    def run_each(self, statement: Prepared, rows: Sequence[Values]) -> None:
        """Runs a statement once for each row."""
        assert self._pipeline is None
        self._driver.executemany(statement.sql, list(map(statement.parameters, rows)))

    def commit(self) -> None:
        """Commits. It must be the last call inside `together`. SQLAlchemy's transaction must be committed as well."""
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
        """The outcome of the transaction whose statements ran last."""
        return self._fate if self._pipeline is None else self._pipeline.fate
