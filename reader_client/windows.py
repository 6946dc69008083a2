"""`TimeWindows`, and `AsyncTimeWindows` for asyncio: position in, window out."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Self

from strandline.names import check_name
from strandline.note import DEFAULT_KEY
from strandline.protocol import calls
from strandline.protocol.transport import AsyncConnection, Connection
from strandline.protocol.wire import MarksAt, MarksPage
from strandline.window import TimeWindow


class TimeWindows:
    """The time windows and the marks of one stream. Threads may share one."""

    def __init__(
        self,
        controller: str | Connection,
        stream: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        """`controller` is a URL, or a connection that is shared, which brings its own token and stays open. What is not
        given of the others comes from the environment, see `Connection`."""
        self._stream = check_name("stream", stream)
        self._owns_connection = isinstance(controller, str)
        if isinstance(controller, str):
            controller = Connection(controller, token=token, token_file=token_file, ca_file=ca_file)
        self._connection = controller

    def get_time_window(self, position: Mapping[str, int], key: str = DEFAULT_KEY) -> TimeWindow:
        """Where a position stands: everything older than its `lower` has been read. Null bounds are not known."""
        return self._connection.run(calls.time_window(self._stream, position, key=key))

    def marks(self, *, after: int = 0, key: str = DEFAULT_KEY, limit: int | None = None, wait_ms: int = 0) -> MarksPage:
        """The marks after a seq, oldest first. With `wait_ms` (at most 30 000) it waits for the next one, and comes
        back without any where none is made in that time."""
        return self._connection.run(calls.marks(self._stream, key=key, after=after, limit=limit, wait_ms=wait_ms))

    def marks_at(self, time: int, key: str = DEFAULT_KEY) -> MarksAt:
        """The marks around a time, and where reading from that time begins."""
        return self._connection.run(calls.marks_at(self._stream, time, key=key))

    def close(self) -> None:
        """Lets go of the connection, unless it is shared."""
        if self._owns_connection:
            self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncTimeWindows:
    """`TimeWindows` for asyncio."""

    def __init__(
        self,
        controller: str | AsyncConnection,
        stream: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        """See `TimeWindows`."""
        self._stream = check_name("stream", stream)
        self._owns_connection = isinstance(controller, str)
        if isinstance(controller, str):
            controller = AsyncConnection(controller, token=token, token_file=token_file, ca_file=ca_file)
        self._connection = controller

    async def get_time_window(self, position: Mapping[str, int], key: str = DEFAULT_KEY) -> TimeWindow:
        """See `TimeWindows.get_time_window`."""
        return await self._connection.run(calls.time_window(self._stream, position, key=key))

    async def marks(
        self, *, after: int = 0, key: str = DEFAULT_KEY, limit: int | None = None, wait_ms: int = 0
    ) -> MarksPage:
        """See `TimeWindows.marks`."""
        return await self._connection.run(calls.marks(self._stream, key=key, after=after, limit=limit, wait_ms=wait_ms))

    async def marks_at(self, time: int, key: str = DEFAULT_KEY) -> MarksAt:
        """See `TimeWindows.marks_at`."""
        return await self._connection.run(calls.marks_at(self._stream, time, key=key))

    async def close(self) -> None:
        """Lets go of the connection, unless it is shared."""
        if self._owns_connection:
            await self._connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
