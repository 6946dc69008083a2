"""Backlog of a reader group (FLIP-328): by lag, by the number of unread events, and by the user's own strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from strandline.core.backlog import BacklogStrategy, BacklogWatch, CallableStrategy, RemainingOffsetsStrategy
from strandline.core.segment import SegmentGraph
from strandline.logs import LogReader
from strandline.wire.groups import GroupWindow


class GroupBacklog:
    """Whether a group is in backlog: it is if any of these says so.

    - by lag: the group has a `backlog_threshold_ms`, and is further behind the clock;
    - by size: more than `remaining_offsets` offsets remain to be read;
    - `strategies` of the caller: objects with a `backlog`, such as `CallableStrategy`.

    `on_change` is called with each new status; the first status is False. An `EventReader` updates its `backlog` with
    every report; otherwise call `update`.
    """

    def __init__(
        self,
        *,
        remaining_offsets: int | None = None,
        strategies: Iterable[BacklogStrategy] = (),
        on_change: Callable[[bool], object] | None = None,
    ) -> None:
        self._behind = False  # the controller's answer: sticky, and False while the group is idle
        self._by_size = RemainingOffsetsStrategy(remaining_offsets)
        self._watch = BacklogWatch((CallableStrategy(lambda: self._behind), self._by_size, *strategies), on_change)

    @property
    def backlog(self) -> bool:
        """The status as of the last update."""
        return self._watch.backlog

    @property
    def counts_offsets(self) -> bool:
        """Whether `update` uses the number of remaining offsets."""
        return self._by_size.threshold_offsets is not None

    def update(self, window: GroupWindow, remaining: int | None = None) -> bool:
        """Updates and returns the status, from the group's window and the number of offsets that remain to be read (see
        `remaining_offsets`)."""
        self._behind = window.backlog
        self._by_size.update(remaining)
        return self._watch.check()


def remaining_offsets(window: GroupWindow, logs: Mapping[str, LogReader]) -> int:
    """Returns how many offsets a group has still to read, over the logs of all its streams."""
    remaining = 0
    for stream, each in window.streams.items():
        log = logs[stream]
        read = SegmentGraph(log.segments(), open=True).cut(each.position)
        remaining += sum(max(0, end - read.offset(segment)) for segment, end in log.end_offsets().items())
    return remaining
