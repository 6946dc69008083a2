"""Windows of reader groups, computed from positions and marks on each request."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from controller.clock import Clock
from controller.groups.loaded_group import LoadedGroup
from controller.streams.reads import Reads
from controller.streams.registry import Streams
from strandline.core.coalesce import OnAllIdle, combine, holder
from strandline.core.note import DEFAULT_KEY
from strandline.core.order import lag
from strandline.core.writer import WriterState
from strandline.wire.groups import GroupWindow, KeyWindow, StreamWindow

_AT_REST: Final = (WriterState.IDLE, WriterState.CLOSED)


class GroupStanding(Enum):
    """Whether a stream counts in a group's watermark, and if not, why."""

    COUNTED = auto()
    IDLE = auto()  # left out: the group has read all marks, and all writers are idle, closed or silent for too long
    SET_ASIDE = auto()  # left out: the same, but some writers are excluded, so the group's window is incomplete
    ENDED = auto()  # left out: sealed and read to its end


class GroupWindows:
    """Computes windows of groups."""

    def __init__(self, streams: Streams, reading: Reads, clock: Clock) -> None:
        self._streams = streams
        self._reading = reading
        self._clock = clock

    async def window(self, loaded: LoadedGroup) -> GroupWindow:
        """The window of a group, in each of its streams and over all of them."""
        settings = loaded.membership.settings
        moment = loaded.tenure.moment(self._clock.now())
        now = moment.now
        loaded.membership.time_out_silent(moment)
        streams = {stream: await self._stream_window(loaded, stream, now) for stream in settings.streams}
        standing = {
            stream: await self._standing(stream, window, now, settings.idle_timeout_ms)
            for stream, window in streams.items()
        }
        left_out = tuple([stream for stream, stands in standing.items() if stands is not GroupStanding.COUNTED])
        bounds = {stream: {key: each.lower for key, each in window.keys.items()} for stream, window in streams.items()}
        # If all streams have ended, none is idle, and the last bounds are final: no jump.
        jump = settings.on_all_idle is OnAllIdle.JUMP and any(
            each is not GroupStanding.ENDED for each in standing.values()
        )
        watermarks, loaded.membership.held = combine(bounds, left_out, loaded.membership.held, jump=jump)
        lowest = watermarks.get(DEFAULT_KEY)
        return GroupWindow(
            streams=streams,
            watermarks=watermarks,
            held_by={key: holder(bounds, left_out, key) for key in watermarks},
            complete=all(
                window.complete and standing[stream] is not GroupStanding.SET_ASIDE
                for stream, window in streams.items()
            ),
            lag_ms=None if lowest is None else now - lowest,
            backlog=loaded.in_backlog(lowest, now, asleep=len(left_out) == len(streams)),
            idle=left_out,
        )

    async def _stream_window(self, group: LoadedGroup, stream: str, now: int) -> StreamWindow:
        loaded = await self._streams.get(stream)
        graph, keys = loaded.stream.graph, sorted(loaded.stream.keys | {DEFAULT_KEY})
        position = group.membership.position(stream, graph)
        frontier = graph.frontier(position)
        windows = {key: await self._reading.window(stream, key, frontier) for key in keys}
        chain = loaded.chains.get(DEFAULT_KEY)
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

    async def _standing(
        self, stream: str, window: StreamWindow, now: int, idle_timeout_ms: int | None
    ) -> GroupStanding:
        """Whether a stream counts in the group's watermark, and if not, why."""
        if window.end_of_stream:
            return GroupStanding.ENDED
        loaded = await self._streams.get(stream)
        writers, forgotten = loaded.stream.writers.values(), loaded.stream.remainders.values()
        position = loaded.stream.graph.cut(window.position)
        if not all(chain.last is None or chain.last.cut.le(position) for chain in loaded.chains.values()):
            return GroupStanding.COUNTED
        if idle_timeout_ms is not None and (writers or forgotten):
            silent_ms = [loaded.stream.silent_ms(each, now) for each in writers]
            silent_ms += [loaded.stream.silent_ms(each, now) for each in forgotten]
            if min(silent_ms) >= idle_timeout_ms:
                return GroupStanding.IDLE
        if not writers and not any(each.closed for each in forgotten):
            return GroupStanding.COUNTED
        stands = GroupStanding.IDLE
        for writer in writers:  # the first writer that is neither excluded nor at rest decides
            for state in loaded.stream.states(writer).values():
                if state is WriterState.EXCLUDED:
                    stands = GroupStanding.SET_ASIDE
                elif state not in _AT_REST:
                    return GroupStanding.COUNTED
        return stands
