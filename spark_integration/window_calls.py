"""Calls to the controller from Spark, repeated while it is away."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, TypeVar

from spark_integration.errors import NoWindow
from spark_integration.listener import is_classic
from spark_integration.options import StreamAccess
from strandline.client.backoff import backoff_ms, spread_ms
from strandline.core.window import TimeWindow
from strandline.errors import StrandlineError, Unavailable, Undecided, UnknownSegment, UnknownStream
from strandline.limits import PAGE_ENTRIES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strandline.client.calls import Call
    from strandline.client.http import Seams, Transport
    from strandline.wire.streams import MarksAt, StreamDescription, WireMark

WINDOW_FIRST_PAUSE_MS: Final = 50  # between two of these requests at first, then twice as long each time
WINDOW_PAUSE_BOUND_MS: Final = 2_000  # the longest of these pauses

STREAM_CHECK_MS: Final = 2_000  # for the answer whether a stream is there, before a query begins
WINDOW_ATTEMPT_MS: Final = 10_000  # one request for a time window

Value = TypeVar("Value")


def check_call(spark: SparkSession, access: StreamAccess) -> None:
    """Raises UnknownStream if the controller answers at once that it has no such stream.

    A mistyped name is so an error of the caller's line, not of a query that has started. Any other answer, or none, is
    left to the query, which waits for a controller that is away. With Spark Connect the server may be the only one that
    reaches the controller: nothing is asked.
    """
    if not is_classic(spark):
        return
    from strandline.client import calls
    from strandline.client.http import Connection
    from strandline.client.retry import Patience

    patience = Patience(attempts=1, attempt_ms=STREAM_CHECK_MS, deadline_ms=STREAM_CHECK_MS)
    try:
        with Connection(
            access.controller,
            token=access.token,
            token_file=access.token_file,
            ca_file=access.ca_file,
            patience=patience,
        ) as connection:
            connection.run(calls.describe(access.stream))
    except UnknownStream:
        raise
    except StrandlineError:
        return


class ControllerWindows:
    """Calls the controller until it answers, or until `wait_ms` have passed. All calls are safe to repeat.

    A call raises NoWindow after that time, and a refusal at once. Use it from one thread.
    """

    def __init__(self, access: StreamAccess, *, transport: Transport | None = None, seams: Seams | None = None) -> None:
        # Imported here, since executors only unpickle the reader and need no HTTP client.
        from strandline.client.http import Connection, Seams
        from strandline.client.retry import Patience

        self._access = access
        self._seams = Seams() if seams is None else seams
        # One attempt a call: `ask` repeats calls itself, since it waits for more than an answer.
        patience = Patience(attempts=1, attempt_ms=WINDOW_ATTEMPT_MS, deadline_ms=WINDOW_ATTEMPT_MS)
        self._connection = Connection(
            access.controller,
            token=access.token,
            token_file=access.token_file,
            ca_file=access.ca_file,
            patience=patience,
            transport=transport,
            seams=seams,
        )

    def time_window(self, position: Mapping[str, int]) -> TimeWindow:
        return self.window_of(position, None)[0]

    def window_of(self, position: Mapping[str, int], identity: str | None) -> tuple[TimeWindow, str]:
        """Returns the window of a position, and the identity of its stream. Raises StreamRecreated if that is not the
        given one."""
        from strandline.client import calls

        access = self._access
        return self.ask(lambda: calls.window_of(access.stream, position, key=access.time_key, identity=identity))

    def marks_at(self, time: int) -> MarksAt:
        """Returns the marks around a time, and where reading from that time begins."""
        from strandline.client import calls

        return self.ask(lambda: calls.marks_at(self._access.stream, time, key=self._access.time_key))

    def marks(self, after: int, *, limit: int = PAGE_ENTRIES) -> tuple[WireMark, ...]:
        """Returns a page of the marks after a seq, oldest first."""
        from strandline.client import calls

        access = self._access
        return self.ask(lambda: calls.marks(access.stream, key=access.time_key, after=after, limit=limit)).marks

    def marks_after(self, after: int) -> Iterator[WireMark]:
        """Yields all marks after a seq, oldest first."""
        while page := self.marks(after):
            yield from page
            after = page[-1].seq

    def describe(self) -> StreamDescription:
        from strandline.client import calls

        return self.ask(lambda: calls.describe(self._access.stream))

    def ask(self, call: Callable[[], Call[Value]]) -> Value:
        """Makes a call that is safe to repeat, until it is answered."""
        now_ms = self._seams.now_ms
        started_ms = now_ms()
        failures = 0
        while True:
            try:
                return self._connection.run(call())
            except StrandlineError as error:
                if not _may_pass(error):
                    raise
                waited_ms = now_ms() - started_ms
                left_ms = self._access.wait_ms - waited_ms
                if left_ms <= 0:
                    raise NoWindow(
                        controller=self._access.controller, waited_ms=round(waited_ms), reason=str(error)
                    ) from error
            failures += 1
            pause_ms = backoff_ms(failures, first_ms=WINDOW_FIRST_PAUSE_MS, bound_ms=WINDOW_PAUSE_BOUND_MS)
            self.pause(min(pause_ms, left_ms))

    def pause(self, pause_ms: float) -> None:
        """Waits for a random time up to `pause_ms`, so that concurrent callers do not repeat at the same time."""
        self._seams.sleep(spread_ms(pause_ms, self._seams.random()) / 1000)

    def now_ms(self) -> float:
        """Returns the time of a monotonic clock."""
        return self._seams.now_ms()

    def close(self) -> None:
        self._connection.close()


def _may_pass(error: StrandlineError) -> bool:
    """Whether the call may succeed later.

    This includes a segment that the log has and the controller does not: the log was scaled before the stream.
    """
    return isinstance(error, Unavailable | Undecided | UnknownSegment)
