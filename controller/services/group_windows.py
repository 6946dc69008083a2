"""Where a reader group stands: worked out from its positions and the marks whenever it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller.services.clock import Clock
from controller.services.live_group import LiveGroup
from controller.services.reading import Reading
from controller.services.streams import Streams
from strandline.note import DEFAULT_KEY
from strandline.order import lag
from strandline.protocol.group_wire import GroupSettings, GroupWindow, KeyWindow, StreamWindow
from strandline.writer import WriterState

_AT_REST: Final = (WriterState.IDLE, WriterState.CLOSED)


class GroupWindows:
    """Works out windows of groups."""

    def __init__(self, streams: Streams, reading: Reading, clock: Clock) -> None:
        self._streams = streams
        self._reading = reading
        self._clock = clock

    async def window(self, live: LiveGroup) -> GroupWindow:
        """Where a group stands, in each of its streams and over all of them."""
        settings = live.membership.settings
        moment = self._clock.moment()
        now = moment.now
        live.membership.let_silent_go(moment)
        streams = {stream: await self._stream_window(live, stream, now) for stream in settings.streams}
        idle = tuple(
            [stream for stream, window in streams.items() if await self._is_idle(stream, window, now, settings)]
        )
        watermarks, live.membership.held = coalesce(streams, idle, live.membership.held)
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
        position = live.stream.graph.cut(window.position)
        if not writers or not all(chain.last is None or chain.last.cut.le(position) for chain in live.chains.values()):
            return False
        if settings.idle_timeout_ms is not None:
            silent_ms = min(live.stream.silent_ms(writer, now) for writer in writers)
            if silent_ms >= settings.idle_timeout_ms:
                return True
        # The first writer that goes on decides, of however many.
        return all(state in _AT_REST for writer in writers for state in live.stream.states(writer).values())


def coalesce(
    streams: Mapping[str, StreamWindow], idle: Sequence[str], held: Mapping[str, int]
) -> tuple[dict[str, int | None], dict[str, int]]:
    """One watermark for each key, and what has to be kept for the next time.

    It is the least lower bound of the streams that are not idle; null where one of them has none. It never goes back:
    not where an idle stream wakes with an older time, nor where the last one goes idle too. So what was told is kept,
    by key, for as long as it is above the least bound of *all* streams, which by itself never goes back.
    """
    counted = [window for name, window in streams.items() if name not in idle]
    watermarks: dict[str, int | None] = {}
    kept: dict[str, int] = {}
    for key in sorted({key for window in streams.values() for key in window.keys} | set(held)):
        proven = _least(key, streams.values())
        active = _least(key, counted) if counted else None
        known = [time for time in (proven, active, held.get(key)) if time is not None]
        watermark = watermarks[key] = max(known, default=None)
        if watermark is not None and (proven is None or watermark > proven):
            kept[key] = watermark
    return watermarks, kept


def _least(key: str, windows: Iterable[StreamWindow]) -> int | None:
    """Null where one of them does not have the key, or no bound for it yet."""
    lowers = [window.keys[key].lower if key in window.keys else None for window in windows]
    known = [lower for lower in lowers if lower is not None]
    return min(known) if len(known) == len(lowers) else None
