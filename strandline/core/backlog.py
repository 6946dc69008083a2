"""Whether a source works off a backlog, so that those who read it may trade latency for throughput.

Several strategies combine by OR: the source is in backlog while any of them says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from strandline.core.checks import check_time, check_whole
from strandline.errors import InvalidConfig
from strandline.limits import TIME_BOUND_MS


class BacklogStrategy(Protocol):
    """Anything that can say whether the source is in backlog at the moment."""

    @property
    def backlog(self) -> bool: ...


class BacklogDetector:
    """Backlog by watermark lag: in backlog while `now - watermark` is more than `threshold_ms`.

    A threshold of None means never in backlog. With a threshold, a source without a watermark is in backlog:
    it has shown nothing of how far it is. A lag of exactly the threshold is not backlog.

    **Sticky.** Found not to be in backlog, an active source stays so, however large its lag becomes. Whoever
    acts on the status changes its way of working with it, and a job that cannot keep up is not helped by
    being told, again and again, that it has fallen behind.

    **Idle.** A source that went idle is not in backlog, since nothing waits to be read. That is no finding
    about its lag, and it does not outlast the sleep: on waking the lag is looked at afresh, and the source
    may be in backlog, also one that was not before it went idle. Stickiness thus holds from one waking to the
    next sleep. It could not hold beyond: the sources that go idle are mostly those that had caught up, and
    for all of them the look on waking would be empty. Nor is it needed: the sleep has ended the stretch of
    work that a change of mind would disturb.

    Only `woke` ends the sleep. `update` while idle changes nothing, because the watermark of an idle stream
    may go on rising by itself (ingestion domain). `woke` on a source that is awake is an `update`.

    Raises InvalidConfig where the threshold is not a whole number above 0, or a time is not a time.
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
        """The watermark of the source at the time `now`, None while it has none; the status that follows."""
        self._caught_up = self._within(watermark, now) or self._caught_up
        return self.backlog

    def went_idle(self) -> bool:
        """The source said that it is idle: not in backlog until it wakes."""
        self._idle = True
        return self.backlog

    def woke(self, watermark: int | None, now: int) -> bool:
        """The source is active again: its lag is looked at afresh."""
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

    None for the threshold means never; with one, a remainder that is not known yet counts as backlog. It is
    not sticky: the remainder is a count, not an estimate, and it says by itself when the work is done.

    Raises InvalidConfig where the threshold is not a whole number above 0, or the remainder not one from 0
    up.
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
        """The offsets still to be read, over all segments, None while unknown; the status that follows."""
        self._remaining = None if remaining is None else check_whole("remaining", remaining, least=0)
        return self.backlog


@dataclass(frozen=True, slots=True)
class CallableStrategy:
    """Backlog as the application says: asks `is_backlog` each time."""

    is_backlog: Callable[[], bool]

    @property
    def backlog(self) -> bool:
        return self.is_backlog()


class AnyBacklog:
    """In backlog while any of the strategies is; with none, never. It is a strategy itself, so they nest."""

    __slots__ = ("_strategies",)

    def __init__(self, strategies: Iterable[BacklogStrategy]) -> None:
        self._strategies = tuple(strategies)

    @property
    def backlog(self) -> bool:
        return any(strategy.backlog for strategy in self._strategies)


class BacklogWatch:
    """Looks at strategies, combined by OR, and tells when the status changes: at first it is not backlog.

    `on_change` is called with the new status, within `look`. What it raises comes out of `look`; the change counts as
    told then.
    """

    __slots__ = ("_on_change", "_strategies", "backlog")

    def __init__(
        self, strategies: Iterable[BacklogStrategy], on_change: Callable[[bool], object] | None = None
    ) -> None:
        self._strategies = AnyBacklog(strategies)
        self._on_change = on_change
        self.backlog = False

    def look(self) -> bool:
        """The status now."""
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
