"""`ReaderGroup`, and `AsyncReaderGroup` for asyncio: readers that share the segments of streams."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Unpack

from reader_client.jobs import AnyConnection, AsyncClient, Awaiting, Blocking, BlockingClient, Client, Job
from reader_client.windows import PositionAt
from strandline.client import group_calls
from strandline.client.calls import Call
from strandline.client.http import AsyncConnection, Connection, Reaching, new_registration
from strandline.client.loop import remote
from strandline.core.coalesce import OnAllIdle
from strandline.core.config import checked
from strandline.core.note import DEFAULT_KEY
from strandline.core.time_units import Instant, milliseconds
from strandline.errors import InvalidConfig
from strandline.names import check_name
from strandline.wire.groups import (
    GROUP_SETTINGS,
    READER_TIMEOUT_DEFAULT_MS,
    FromHead,
    GroupDescription,
    GroupLag,
    GroupSettings,
    GroupWindow,
    ReaderAnswer,
    Start,
)
from strandline.wire.shapes import Positions

CHANGEABLE: Final = ("streams", *GROUP_SETTINGS)


class _Ownership(Client[AnyConnection]):
    """The state of a registered reader, as of the last answer."""

    def __init__(self, connection: AnyConnection, group: str, name: str, answer: ReaderAnswer) -> None:
        self._connection = connection
        self.group = group
        self.name = name
        self._answer = answer

    @property
    def epoch(self) -> int:
        return self._answer.epoch

    @property
    def owned(self) -> Positions:
        """The segments that this reader owns, with its position in each, by stream."""
        return self._answer.owned

    @property
    def share(self) -> int:
        """How many segments each reader may own, if all readers share evenly."""
        return self._answer.share

    @property
    def window(self) -> GroupWindow:
        """The group's time window, as of the last answer."""
        return self._answer.window

    def _answered(self, call: Call[ReaderAnswer]) -> Job[ReaderAnswer]:
        self._answer = yield from remote(call)
        return self._answer


class GroupReader(_Ownership[Connection], Blocking):
    """One registered reader of a group. `ReaderGroup.register` returns it."""

    def report(self, positions: Positions, settled: Positions | None = None) -> GroupWindow:
        """Reports how far this reader has read; returns the group's time window.

        `settled` is how far its events are processed; by default, all of them. Bounds follow what was read. The next
        reader of these segments continues at the settled positions. Raises Fenced if another reader took over.
        """
        call = group_calls.report(self.group, self.name, self.epoch, positions, settled)
        return self._run(self._answered(call)).window

    def get_time_window(self) -> GroupWindow:
        """Returns the group's time window as of now."""
        return self._call(group_calls.group_window(self.group))

    def acquire(self, most: int = 1) -> Positions:
        """Acquires up to `most` free segments, those furthest behind first; returns all segments that it owns.

        Raises OutcomeUnknown if the answer was lost: `report({})` then updates `owned`.
        """
        return self._run(self._answered(group_calls.acquire(self.group, self.name, self.epoch, most))).owned

    def release(self, positions: Positions, settled: Positions | None = None) -> Positions:
        """Releases segments, each at a position or at its settled one; returns the segments that it still owns."""
        call = group_calls.release(self.group, self.name, self.epoch, positions, settled)
        return self._run(self._answered(call)).owned


class _OfGroup(Client[AnyConnection]):
    def __init__(
        self,
        controller: str | Sequence[str] | AnyConnection,
        group: str,
        **reaching: Unpack[Reaching],
    ) -> None:
        """`controller` is one or several URLs, or a shared connection, which has its own token and stays open. For
        `token`, `token_file`, `ca_file` and `patience` see `Connection`."""
        self._group = check_name("group", group)
        self._connect(controller, reaching)

    def _changing(self, start: Start | None, settings: Mapping[str, object]) -> Call[GroupDescription]:
        return group_calls.change_group(self._group, _changes(settings), _start(start))

    def _positions_at(self, time: Instant, key: str) -> Job[dict[str, PositionAt]]:
        found = yield from remote(group_calls.group_position_at(self._group, milliseconds("time", time), key))
        return {stream: PositionAt(at.start, at.exact) for stream, at in found.items()}


class ReaderGroup(_OfGroup[Connection], BlockingClient):
    """A reader group: readers that share the segments of streams, with one watermark for all of them.

    For example:

        with ReaderGroup("http://127.0.0.1:8433", "billing") as group:
            group.create(["orders"], start=FromTime(datetime(2026, 1, 1, tzinfo=UTC)))
            group.lag().lag_ms
    """

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
        """Creates the group; returns False if it exists already with the same settings.

        - `start`: where it begins to read; by default at the head of its streams.
        - `backlog_threshold_ms`: it is in backlog while its watermark is further behind the clock. None: never.
        - `reader_timeout_ms`: a reader that is silent for longer loses its segments. None: never.
        - `idle_timeout_ms`: a fully read stream that is silent for longer is taken for idle. None: never.
        - `on_all_idle`: "hold" keeps the watermark while all streams are idle; "jump" moves it to their greatest bound.

        Raises GroupExists if a group of that name has other settings: `change` changes them.
        """
        settings = _settings(streams, start, backlog_threshold_ms, reader_timeout_ms, idle_timeout_ms, on_all_idle)
        return self._call(group_calls.create_group(self._group, settings))

    def change(self, /, *, start: Start | None = None, **settings: object) -> GroupDescription:
        """Changes any of `streams`, `backlog_threshold_ms`, `reader_timeout_ms`, `idle_timeout_ms` and `on_all_idle`;
        returns the changed group.

        Added streams begin at `start`, by default at their heads; the group's watermark never goes back for them.
        Readers lose the segments of removed streams.
        """
        return self._call(self._changing(start, settings))

    def register(self, reader: str, positions: Positions | None = None) -> GroupReader:
        """Registers a reader, which takes over the segments in `positions`, at these positions."""
        answer = self._call(group_calls.register_reader(self._group, reader, positions or {}, new_registration()))
        return GroupReader(self._connection, self._group, reader, answer)

    def get_time_window(self) -> GroupWindow:
        """Returns the group's time window: for each of its streams by key, and over all of them.

        `watermarks` has the least of the streams that are not idle; a join uses each stream's own in `streams`.
        """
        return self._call(group_calls.group_window(self._group))

    def offline(self, reader: str, positions: Positions) -> GroupWindow:
        """Removes a dead reader, and frees its segments at `positions`: up to there the caller knows that its events
        were processed. Returns the group's time window, which may go back."""
        return self._call(group_calls.offline(self._group, reader, positions))

    def position_at(self, time: Instant, key: str = DEFAULT_KEY) -> dict[str, PositionAt]:
        """Returns where reading from a time begins, in each stream of the group."""
        return self._run(self._positions_at(time, key))

    def lag(self) -> GroupLag:
        """Returns how far behind in time the group is, and each segment that can be read now."""
        return self._call(group_calls.group_lag(self._group))

    def describe(self) -> GroupDescription:
        """Returns the group's settings, streams and readers."""
        return self._call(group_calls.describe_group(self._group))

    def delete(self) -> None:
        """Deletes the group and all its positions."""
        self._call(group_calls.delete_group(self._group))


class AsyncGroupReader(_Ownership[AsyncConnection], Awaiting):
    """`GroupReader` for asyncio."""

    async def report(self, positions: Positions, settled: Positions | None = None) -> GroupWindow:
        """See `GroupReader.report`."""
        call = group_calls.report(self.group, self.name, self.epoch, positions, settled)
        return (await self._run(self._answered(call))).window

    async def get_time_window(self) -> GroupWindow:
        """See `GroupReader.get_time_window`."""
        return await self._call(group_calls.group_window(self.group))

    async def acquire(self, most: int = 1) -> Positions:
        """See `GroupReader.acquire`."""
        return (await self._run(self._answered(group_calls.acquire(self.group, self.name, self.epoch, most)))).owned

    async def release(self, positions: Positions, settled: Positions | None = None) -> Positions:
        """See `GroupReader.release`."""
        call = group_calls.release(self.group, self.name, self.epoch, positions, settled)
        return (await self._run(self._answered(call))).owned


class AsyncReaderGroup(_OfGroup[AsyncConnection], AsyncClient):
    """`ReaderGroup` for asyncio."""

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
        return await self._call(group_calls.create_group(self._group, settings))

    async def change(self, /, *, start: Start | None = None, **settings: object) -> GroupDescription:
        """See `ReaderGroup.change`."""
        return await self._call(self._changing(start, settings))

    async def register(self, reader: str, positions: Positions | None = None) -> AsyncGroupReader:
        """See `ReaderGroup.register`."""
        answer = await self._call(group_calls.register_reader(self._group, reader, positions or {}, new_registration()))
        return AsyncGroupReader(self._connection, self._group, reader, answer)

    async def get_time_window(self) -> GroupWindow:
        """See `ReaderGroup.get_time_window`."""
        return await self._call(group_calls.group_window(self._group))

    async def offline(self, reader: str, positions: Positions) -> GroupWindow:
        """See `ReaderGroup.offline`."""
        return await self._call(group_calls.offline(self._group, reader, positions))

    async def position_at(self, time: Instant, key: str = DEFAULT_KEY) -> dict[str, PositionAt]:
        """See `ReaderGroup.position_at`."""
        return await self._run(self._positions_at(time, key))

    async def lag(self) -> GroupLag:
        """See `ReaderGroup.lag`."""
        return await self._call(group_calls.group_lag(self._group))

    async def describe(self) -> GroupDescription:
        """See `ReaderGroup.describe`."""
        return await self._call(group_calls.describe_group(self._group))

    async def delete(self) -> None:
        """See `ReaderGroup.delete`."""
        await self._call(group_calls.delete_group(self._group))


def _settings(
    streams: Iterable[str],
    start: Start | None,
    backlog_threshold_ms: int | None,
    reader_timeout_ms: int | None,
    idle_timeout_ms: int | None,
    on_all_idle: str,
) -> GroupSettings:
    return GroupSettings(
        streams=tuple(_streams(streams)),
        start=_start(start) or FromHead(),
        backlog_threshold_ms=backlog_threshold_ms,
        reader_timeout_ms=reader_timeout_ms,
        idle_timeout_ms=idle_timeout_ms,
        on_all_idle=checked(GROUP_SETTINGS["on_all_idle"], on_all_idle),
    )


def _streams(streams: Iterable[str]) -> Iterable[str]:
    if isinstance(streams, str):
        raise InvalidConfig(name="streams", value=streams, wanted=f"a list of names, such as [{streams!r}]")
    return streams


def _start(start: Start | None) -> Start | None:
    if not isinstance(start, Start | None):
        raise InvalidConfig(name="start", value=start, wanted="FromHead(), FromTime(…) or FromPositions(…)")
    return start


def _changes(settings: Mapping[str, object]) -> dict[str, object]:
    """Returns the settings in wire form; raises InvalidConfig for a name that is no setting of a group."""
    for name, value in settings.items():
        if name not in CHANGEABLE:
            raise InvalidConfig(
                name=name, value=value, wanted=f"left out: what can be changed is {', '.join(CHANGEABLE)}"
            )
    streams = settings.get("streams")
    return {**settings, "streams": list(_streams(streams))} if isinstance(streams, Iterable) else dict(settings)
