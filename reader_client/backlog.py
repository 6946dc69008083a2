"""Backlog of a reader group (FLIP-328): by lag, by what remains to be read, and by the user's own strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from strandline.core.backlog import BacklogStrategy, BacklogWatch, RemainingOffsetsStrategy
from strandline.core.segment import SegmentGraph
from strandline.logs import LogReader
from strandline.wire.groups import GroupWindow


class _ByLag:
    """What the controller found by the group's `backlog_threshold_ms`: sticky, and false while the group is idle."""

    def __init__(self) -> None:
        self.backlog = False


class GroupBacklog:
    """Whether a group works off a backlog: any of the strategies says so.

    - by lag: the group was created with a `backlog_threshold_ms`, and is further behind the clock;
    - by size: more than `remaining_offsets` are still to be read;
    - `strategies` of the caller's own: anything with a `backlog`, `CallableStrategy` for one.

    `on_change` is called with the new status where it changed; at first it is not backlog. An `EventReader` that is
    given one looks at it with every report; others call `update`.
    """

    def __init__(
        self,
        *,
        remaining_offsets: int | None = None,
        strategies: Iterable[BacklogStrategy] = (),
        on_change: Callable[[bool], object] | None = None,
    ) -> None:
        self._by_lag = _ByLag()
        self._by_size = RemainingOffsetsStrategy(remaining_offsets)
        self._watch = BacklogWatch((self._by_lag, self._by_size, *strategies), on_change)

    @property
    def backlog(self) -> bool:
        """The status as of the last update."""
        return self._watch.backlog

    @property
    def counts_offsets(self) -> bool:
        """Whether `update` goes by what remains to be read."""
        return self._by_size.threshold_offsets is not None

    def update(self, window: GroupWindow, remaining: int | None = None) -> bool:
        """The status, now that the group stands there, and so many offsets remain (see `remaining_offsets`)."""
        self._by_lag.backlog = window.backlog
        self._by_size.update(remaining)
        return self._watch.look()


def remaining_offsets(window: GroupWindow, logs: Mapping[str, LogReader]) -> int:
    """How many offsets a group has still to read, over all of its streams' logs."""
    remaining = 0
    for stream, each in window.streams.items():
        log = logs[stream]
        read = SegmentGraph(log.segments(), open=True).cut(each.position)
        remaining += sum(max(0, end - read.offset(segment)) for segment, end in log.end_offsets().items())
    return remaining
