"""Detects that a source works off a backlog, so that its readers can trade latency for throughput.

Strategies combine by OR: the source is in backlog while one of them finds so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from strandline.core.checks import check_time, check_whole
from strandline.errors import InvalidConfig
from strandline.limits import TIME_BOUND_MS


class BacklogStrategy(Protocol):
    """Says whether the source is in backlog now."""

    @property
    def backlog(self) -> bool: ...


class BacklogDetector:
    """Backlog by watermark lag: in backlog while `now - watermark` is more than `threshold_ms`.

    A threshold of None means never in backlog. With a threshold, a source without a watermark is in backlog,
    because its progress is unknown. A lag of exactly the threshold is not backlog.

    **Sticky.** An active source that was found not to be in backlog stays so, however large its lag becomes. The
    job changes its way of working with the status, and repeated changes do not help a job that cannot keep up.

    **Idle.** An idle source is not in backlog, because nothing waits to be read. This says nothing about its lag:
    `woke` checks the lag again, and the source may be in backlog even if it was not before it went idle. So the
    sticky status lasts from one waking to the next sleep. It does not last longer, because most sources that go
    idle had caught up, and for these the check on waking would have no effect. Nor is it needed longer: the sleep
    has ended the stretch of work that a change of status would disturb.

    Only `woke` ends the sleep. `update` on an idle source changes nothing, because the watermark of an
    idle stream may go on rising by itself (ingestion domain). `woke` on an active source is an `update`.

    Raises InvalidConfig if the threshold is not a whole number above 0, or a time is not valid.
    """

    __slots__ = ("_caught_up", "_idle", "_threshold_ms")

    def __init__(self, threshold_ms: int | None) -> None:
        self._threshold_ms = _threshold("threshold_ms", threshold_ms)
        self._caught_up = False
        self._idle = False

    @property
    def threshold_ms(self) -> int | None:
        return self._threshold_ms

    @property
    def backlog(self) -> bool:
        return self._threshold_ms is not None and not self._idle and not self._caught_up

    def update(self, watermark: int | None, now: int) -> bool:
        """Takes the source's watermark at the time `now`, None while it has none; returns the new status."""
        self._caught_up = self._within(watermark, now) or self._caught_up
        return self.backlog

    def went_idle(self) -> bool:
        """Records that the source is idle: it is not in backlog until it wakes."""
        self._idle = True
        return self.backlog

    def woke(self, watermark: int | None, now: int) -> bool:
        """Records that the source is active again, and checks its lag."""
        within = self._within(watermark, now)
        self._caught_up = within or (self._caught_up and not self._idle)
        self._idle = False
        return self.backlog

    def _within(self, watermark: int | None, now: int) -> bool:
        check_time("now", now)
        if watermark is not None:
            check_time("watermark", watermark)
        if self._threshold_ms is None or watermark is None:
            return False
        return now - watermark <= self._threshold_ms


class RemainingOffsetsStrategy:
    """Backlog by size: in backlog while more than `threshold_offsets` offsets remain to be read.

    A threshold of None means never. With a threshold, an unknown remainder counts as backlog. The status is
    not sticky: the remainder is a count, not an estimate, and shows when the work is done.

    Raises InvalidConfig if the threshold is not a whole number above 0, or the remainder is not one from 0 up.
    """

    __slots__ = ("_remaining", "_threshold_offsets")

    def __init__(self, threshold_offsets: int | None) -> None:
        self._threshold_offsets = _threshold("threshold_offsets", threshold_offsets)
        self._remaining: int | None = None

    @property
    def threshold_offsets(self) -> int | None:
        return self._threshold_offsets

    @property
    def backlog(self) -> bool:
        if self._threshold_offsets is None:
            return False
        return self._remaining is None or self._remaining > self._threshold_offsets

    def update(self, remaining: int | None) -> bool:
        """Takes the number of offsets still to be read in all segments, None if unknown; returns the new status."""
        self._remaining = None if remaining is None else check_whole("remaining", remaining, least=0)
        return self.backlog


@dataclass(frozen=True, slots=True)
class CallableStrategy:
    """Backlog as the application reports it: calls `is_backlog` each time."""

    is_backlog: Callable[[], bool]

    @property
    def backlog(self) -> bool:
        return self.is_backlog()


class AnyBacklog:
    """In backlog while one of the strategies is; without strategies, never. It is a strategy, so they nest."""

    __slots__ = ("_strategies",)

    def __init__(self, strategies: Iterable[BacklogStrategy]) -> None:
        self._strategies = tuple(strategies)

    @property
    def backlog(self) -> bool:
        return any(strategy.backlog for strategy in self._strategies)


class BacklogWatch:
    """Checks strategies, combined by OR, and reports changes of the status. The first status is: not in backlog.

    `check` calls `on_change` with the new status. An error in `on_change` comes out of `check`; the change then counts
    as reported.
    """

    __slots__ = ("_on_change", "_strategies", "backlog")

    def __init__(
        self, strategies: Iterable[BacklogStrategy], on_change: Callable[[bool], object] | None = None
    ) -> None:
        self._strategies = AnyBacklog(strategies)
        self._on_change = on_change
        self.backlog = False

    def check(self) -> bool:
        """Checks the strategies; returns the status."""
        before, self.backlog = self.backlog, self._strategies.backlog
        if self.backlog is not before and self._on_change is not None:
            self._on_change(self.backlog)
        return self.backlog


def _threshold(name: str, value: object) -> int | None:
    if value is None:
        return None
    if type(value) is not int or not 0 < value < TIME_BOUND_MS:
        raise InvalidConfig(name=name, value=value, wanted="a whole number above 0, or null for never")
    return value
