"""Where a reader group stands: worked out from its positions and the marks whenever it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from controller.services.clock import Clock
from controller.services.live_group import LiveGroup
from controller.services.reading import Reading
from controller.services.streams import Streams
from strandline.note import DEFAULT_KEY
from strandline.order import lag
from strandline.protocol.group_wire import GroupSettings, GroupWindow, KeyWindow, StreamWindow
from strandline.writer import WriterState


class GroupWindows:
    """Works out windows of groups."""

    def __init__(self, streams: Streams, reading: Reading, clock: Clock) -> None:
        self._streams = streams
        self._reading = reading
        self._clock = clock

    async def window(self, live: LiveGroup) -> GroupWindow:
        """Where a group stands, in each of its streams and over all of them."""
        settings = live.membership.settings
        now = self._clock.now()
        live.membership.let_silent_go(now)
        streams = {stream: await self._stream_window(live, stream, now) for stream in settings.streams}
        idle = tuple(
            [stream for stream, window in streams.items() if await self._is_idle(stream, window, now, settings)]
        )
        watermarks = _coalesce(streams, idle)
        lowest = watermarks.get(DEFAULT_KEY)
        return GroupWindow(
            streams=streams,
            watermarks=watermarks,
            lag_ms=None if lowest is None else now - lowest,
            backlog=live.in_backlog(lowest, now, asleep=len(idle) == len(streams)),
            idle=idle,
        )

    async def _stream_window(self, group: LiveGroup, stream: str, now: int) -> StreamWindow:
        live = await self._streams.get(stream)
        graph, keys = live.stream.graph, sorted(live.stream.keys | {DEFAULT_KEY})
        position = group.membership.position(stream, graph)
        frontier = graph.frontier(position)
        windows = {key: await self._reading.window(stream, key, frontier) for key in keys}
        chain = live.chains.get(DEFAULT_KEY)
        default = windows[DEFAULT_KEY]
        behind = lag(default.lower, chain.last.time if chain is not None and chain.last is not None else None, now)
        return StreamWindow(
            lower=default.lower,
            upper=default.upper,
            complete=default.complete,
            end_of_stream=default.end_of_stream,
            lag_ms=behind.lag_ms,
            behind_ms=behind.behind_ms,
            position=frontier,
            keys={key: KeyWindow(each.lower, each.upper, each.complete) for key, each in windows.items()},
        )

    async def _is_idle(self, stream: str, window: StreamWindow, now: int, settings: GroupSettings) -> bool:
        """Whether all writers said idle or closed, and everything marked was read."""
        live = await self._streams.get(stream)
        writers = live.stream.writers.values()
        if not writers:
            return False
        states = {state for writer in writers for state in live.stream.states(writer).values()}
        silent_since = max(writer.heard_at for writer in writers)
        timed_out = settings.idle_timeout_ms is not None and now - silent_since >= settings.idle_timeout_ms
        if not states <= {WriterState.IDLE, WriterState.CLOSED} and not timed_out:
            return False
        position = live.stream.graph.cut(window.position)
        return all(chain.last is None or chain.last.cut.le(position) for chain in live.chains.values())


def _coalesce(streams: Mapping[str, StreamWindow], idle: Sequence[str]) -> dict[str, int | None]:
    """The least lower bound per key over the streams that have it and are not idle; over all, where all are idle."""
    counted = {name: window for name, window in streams.items() if name not in idle} or dict(streams)
    found: dict[str, int | None] = {}
    for window in counted.values():
        for key, each in window.keys.items():
            lower = each.lower if key not in found else _least(found[key], each.lower)
            found[key] = lower
    return found


def _least(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else min(one, other)
