"""`ReaderGroup`, and `AsyncReaderGroup` for asyncio: several readers that share the segments of streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from reader_client.windows import PositionAt
from strandline.client import group_calls
from strandline.client.http import AsyncConnection, Connection, reach, reach_async
from strandline.core.coalesce import OnAllIdle
from strandline.core.note import DEFAULT_KEY
from strandline.errors import InvalidConfig
from strandline.limits import READER_TIMEOUT_DEFAULT_MS
from strandline.names import check_name
from strandline.wire.groups import (
    FromHead,
    GroupDescription,
    GroupLag,
    GroupSettings,
    GroupWindow,
    Positions,
    ReaderAnswer,
    Start,
)
from strandline.wire.streams import MarksAt

CHANGEABLE: Final = ("streams", "backlog_threshold_ms", "reader_timeout_ms", "idle_timeout_ms", "on_all_idle")


class _Ownership:
    """What a reader knows of itself: as of the last answer."""

    def __init__(self, group: str, name: str, answer: ReaderAnswer) -> None:
        self.group = group
        self.name = name
        self._answer = answer

    @property
    def epoch(self) -> int:
        return self._answer.epoch

    @property
    def owned(self) -> Positions:
        """The segments it owns, each where it stands, by stream."""
        return self._answer.owned

    @property
    def share(self) -> int:
        """How many segments each reader may have, when all share evenly what can be read or is owned."""
        return self._answer.share

    @property
    def window(self) -> GroupWindow:
        """Where the group stood then."""
        return self._answer.window


class GroupReader(_Ownership):
    """One registered reader of a group; `ReaderGroup.register` makes it."""

    def __init__(self, connection: Connection, group: str, name: str, answer: ReaderAnswer) -> None:
        super().__init__(group, name, answer)
        self._connection = connection

    def report(self, positions: Positions, settled: Positions | None = None) -> GroupWindow:
        """This reader has read this far; returns where the group stands. Raises Fenced where another one took over.

        `settled` is what was dealt with of it; without it, all. Bounds follow what was read, and whoever reads these
        segments next goes on from what was settled.
        """
        self._answer = self._connection.run(group_calls.report(self.group, self.name, self.epoch, positions, settled))
        return self.window

    def get_time_window(self) -> GroupWindow:
        """Where the group stands now."""
        return self._connection.run(group_calls.group_window(self.group))

    def acquire(self, most: int = 1) -> Positions:
        """Takes up to `most` free segments, those furthest behind first; returns all that it owns.

        Raises OutcomeUnknown where the answer was lost: a report of no positions tells then what it owns.
        """
        self._answer = self._connection.run(group_calls.acquire(self.group, self.name, self.epoch, most))
        return self.owned

    def release(self, positions: Positions, settled: Positions | None = None) -> Positions:
        """Gives segments up, each at a position, or at what is settled of it; returns what it still owns."""
        self._answer = self._connection.run(group_calls.release(self.group, self.name, self.epoch, positions, settled))
        return self.owned


class ReaderGroup:
    """A group of readers, as the controller combines it."""

    def __init__(
        self,
        controller: str | Connection,
        group: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        """`controller` is a URL, or a connection that is shared, which brings its own token and stays open. What is not
        given of the others comes from the environment, see `Connection`."""
        self._group = check_name("group", group)
        self._connection, self._leave = reach(controller, token=token, token_file=token_file, ca_file=ca_file)

    def create(
        self,
        streams: Iterable[str],
        *,
        start: Start | None = None,
        backlog_threshold_ms: int | None = None,
        reader_timeout_ms: int | None = READER_TIMEOUT_DEFAULT_MS,
        idle_timeout_ms: int | None = None,
        on_all_idle: str = OnAllIdle.HOLD,
    ) -> bool:
        """Creates the group, to start at the head of its streams or as told; returns whether it is new.

        Raises GroupExists where there is one of that name with other settings: `change` changes them.
        """
        settings = _settings(streams, start, backlog_threshold_ms, reader_timeout_ms, idle_timeout_ms, on_all_idle)
        return self._connection.run(group_calls.create_group(self._group, settings))

    def change(self, *, start: Start | None = None, **settings: object) -> GroupDescription:
        """Changes what is given of `streams`, `backlog_threshold_ms`, `reader_timeout_ms`, `idle_timeout_ms` and
        `on_all_idle`; returns what the group is then.

        Streams that are added begin at `start`, or else at their heads. They count from there, and the group's
        watermark never goes back for them. Readers lose the segments of streams that are removed.
        """
        return self._connection.run(group_calls.change_group(self._group, _changes(settings), start))

    def register(self, reader: str, positions: Positions | None = None) -> GroupReader:
        """Registers a reader; it takes over the segments that it names, at these positions."""
        taken = positions if positions is not None else {}
        answer = self._connection.run(group_calls.register_reader(self._group, reader, taken))
        return GroupReader(self._connection, self._group, reader, answer)

    def get_time_window(self) -> GroupWindow:
        """Where the group stands: in each of its streams by key, and over all of them.

        `watermarks` are coalesced, so they go by the least of the streams that are not idle; a join reads each stream's
        own in `streams`.
        """
        return self._connection.run(group_calls.group_window(self._group))

    def offline(self, reader: str, positions: Positions) -> GroupWindow:
        """A reader died: its segments go back to where its events were processed, which the caller knows, and are free.
        Returns where the group stands then; its window may go back."""
        return self._connection.run(group_calls.offline(self._group, reader, positions))

    def position_at(self, time: int, key: str = DEFAULT_KEY) -> dict[str, PositionAt]:
        """Where reading from a time begins, in each stream of the group."""
        return _positions_at(self._connection.run(group_calls.group_position_at(self._group, time, key)))

    def lag(self) -> GroupLag:
        """How far behind in time the group is, and each segment that can be read now."""
        return self._connection.run(group_calls.group_lag(self._group))

    def describe(self) -> GroupDescription:
        """What the group reads, and who reads it."""
        return self._connection.run(group_calls.describe_group(self._group))

    def delete(self) -> None:
        """Deletes the group: nobody's positions are kept any more."""
        self._connection.run(group_calls.delete_group(self._group))

    def close(self) -> None:
        """Lets go of the connection, unless it is shared; the group stays."""
        self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncGroupReader(_Ownership):
    """`GroupReader` for asyncio."""

    def __init__(self, connection: AsyncConnection, group: str, name: str, answer: ReaderAnswer) -> None:
        super().__init__(group, name, answer)
        self._connection = connection

    async def report(self, positions: Positions, settled: Positions | None = None) -> GroupWindow:
        """See `GroupReader.report`."""
        told = group_calls.report(self.group, self.name, self.epoch, positions, settled)
        self._answer = await self._connection.run(told)
        return self.window

    async def get_time_window(self) -> GroupWindow:
        """See `GroupReader.get_time_window`."""
        return await self._connection.run(group_calls.group_window(self.group))

    async def acquire(self, most: int = 1) -> Positions:
        """See `GroupReader.acquire`."""
        self._answer = await self._connection.run(group_calls.acquire(self.group, self.name, self.epoch, most))
        return self.owned

    async def release(self, positions: Positions, settled: Positions | None = None) -> Positions:
        """See `GroupReader.release`."""
        left = group_calls.release(self.group, self.name, self.epoch, positions, settled)
        self._answer = await self._connection.run(left)
        return self.owned


class AsyncReaderGroup:
    """`ReaderGroup` for asyncio."""

    def __init__(
        self,
        controller: str | AsyncConnection,
        group: str,
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
    ) -> None:
        """See `ReaderGroup`."""
        self._group = check_name("group", group)
        self._connection, self._leave = reach_async(controller, token=token, token_file=token_file, ca_file=ca_file)

    async def create(
        self,
        streams: Iterable[str],
        *,
        start: Start | None = None,
        backlog_threshold_ms: int | None = None,
        reader_timeout_ms: int | None = READER_TIMEOUT_DEFAULT_MS,
        idle_timeout_ms: int | None = None,
        on_all_idle: str = OnAllIdle.HOLD,
    ) -> bool:
        """See `ReaderGroup.create`."""
        settings = _settings(streams, start, backlog_threshold_ms, reader_timeout_ms, idle_timeout_ms, on_all_idle)
        return await self._connection.run(group_calls.create_group(self._group, settings))

    async def change(self, *, start: Start | None = None, **settings: object) -> GroupDescription:
        """See `ReaderGroup.change`."""
        return await self._connection.run(group_calls.change_group(self._group, _changes(settings), start))

    async def register(self, reader: str, positions: Positions | None = None) -> AsyncGroupReader:
        """See `ReaderGroup.register`."""
        taken = positions if positions is not None else {}
        answer = await self._connection.run(group_calls.register_reader(self._group, reader, taken))
        return AsyncGroupReader(self._connection, self._group, reader, answer)

    async def get_time_window(self) -> GroupWindow:
        """See `ReaderGroup.get_time_window`."""
        return await self._connection.run(group_calls.group_window(self._group))

    async def offline(self, reader: str, positions: Positions) -> GroupWindow:
        """See `ReaderGroup.offline`."""
        return await self._connection.run(group_calls.offline(self._group, reader, positions))

    async def position_at(self, time: int, key: str = DEFAULT_KEY) -> dict[str, PositionAt]:
        """See `ReaderGroup.position_at`."""
        return _positions_at(await self._connection.run(group_calls.group_position_at(self._group, time, key)))

    async def lag(self) -> GroupLag:
        """See `ReaderGroup.lag`."""
        return await self._connection.run(group_calls.group_lag(self._group))

    async def describe(self) -> GroupDescription:
        """See `ReaderGroup.describe`."""
        return await self._connection.run(group_calls.describe_group(self._group))

    async def delete(self) -> None:
        """See `ReaderGroup.delete`."""
        await self._connection.run(group_calls.delete_group(self._group))

    async def close(self) -> None:
        """Lets go of the connection, unless it is shared; the group stays."""
        await self._leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _positions_at(found: Mapping[str, MarksAt]) -> dict[str, PositionAt]:
    return {stream: PositionAt(at.start, at.exact) for stream, at in found.items()}


def _settings(
    streams: Iterable[str],
    start: Start | None,
    backlog_threshold_ms: int | None,
    reader_timeout_ms: int | None,
    idle_timeout_ms: int | None,
    on_all_idle: str,
) -> GroupSettings:
    return GroupSettings(
        streams=tuple(streams),
        start=start if start is not None else FromHead(),
        backlog_threshold_ms=backlog_threshold_ms,
        reader_timeout_ms=reader_timeout_ms,
        idle_timeout_ms=idle_timeout_ms,
        on_all_idle=OnAllIdle(on_all_idle),
    )


def _changes(settings: Mapping[str, object]) -> dict[str, object]:
    """What goes over the wire; raises InvalidConfig for a name that is no setting of a group."""
    for name, value in settings.items():
        if name not in CHANGEABLE:
            raise InvalidConfig(
                name=name, value=value, wanted=f"left out: what can be changed is {', '.join(CHANGEABLE)}"
            )
    streams = settings.get("streams")
    return {**settings, "streams": list(streams)} if isinstance(streams, Iterable) else dict(settings)
