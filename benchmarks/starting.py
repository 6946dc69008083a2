"""Queries, and requests to Spark, that are repeated where a Python was too slow to start.

Spark gives each Python that it starts for a source ten seconds, and no setting changes that. On a busy machine this is
too short, and says nothing of the source. Whatever else goes wrong is raised at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

Value = TypeVar("Value")

TOO_SLOW: Final = "Python worker failed to connect back"  # Spark's words
STARTS: Final = 5


def patiently(ask: Callable[[], Value]) -> Value:
    """Asks Spark for something, at most STARTS times. Raises what it fails with otherwise, or at last."""
    for _ in range(STARTS - 1):
        try:
            return ask()
        except Exception as error:  # pyspark's errors of the driver and of a query have no root in common
            if TOO_SLOW not in str(error):
                raise
    return ask()


class RestartingQuery:
    """A query that is started at most STARTS times, with its checkpoint; `now` is its last start."""

    def __init__(self, start: Callable[[], StreamingQuery]) -> None:
        self._start = start
        self.starts = [start()]

    @property
    def now(self) -> StreamingQuery:
        return self.starts[-1]

    def go_on(self) -> None:
        """Starts it again where a Python was too slow. Raises what it failed with otherwise, or at last."""
        error = self.now.exception()
        if error is None:
            return
        if TOO_SLOW not in str(error) or len(self.starts) >= STARTS:
            raise error
        self.starts.append(self._start())

    def until_at_rest(self) -> None:
        """Waits until everything that is there now is read. Raises what the query fails with."""
        self._until(lambda query: query.processAllAvailable())

    def until_ended(self, timeout_s: int) -> bool:
        """Waits until it ends by itself; whether it did. Raises what the query fails with."""
        return self._until(lambda query: bool(query.awaitTermination(timeout_s)))

    def stop(self) -> None:
        self.now.stop()

    def _until(self, wait: Callable[[StreamingQuery], Value]) -> Value:
        from pyspark.errors import StreamingQueryException

        while True:
            self.go_on()
            try:
                return wait(self.now)
            except StreamingQueryException as error:
                if TOO_SLOW not in str(error):
                    raise
