"""The usual time between the marks of one key, learned from the marks themselves. Pure."""

from __future__ import annotations

from typing import Final

STILL_LEAST_MS: Final = 5_000  # time that stands still for less than this is never trouble


NEW_STILL_MS: Final = 20_000  # for how long time may stand still before the second mark
STILL_PAUSES: Final = 3  # usual pauses between marks; time that stands still for longer is trouble
CADENCE_PAUSES: Final = 8  # pauses between marks after which a usual pause is mostly forgotten
TAUGHT_STILLS: Final = 4  # a pause counts as usual for at most so many times what was too long


class Cadence:
    """How long time usually stands still between two marks, and how long is too long.

    It is an average over time: a pause weighs as much as it lasts, so that a hundred marks in one second do not hide
    the minute in which there is none. About the last CADENCE_PAUSES pauses count. One that was too long counts for
    at most TAUGHT_STILLS times what was too long, so that an outage does not become usual, while a stream that has
    become slower is known after a few marks. A mark that a writer's silence made possible, which names it as the first
    one, teaches nothing.
    """

    __slots__ = ("_excluded", "_first", "_last", "moving_since", "usual_ms")

    def __init__(self) -> None:
        self.usual_ms: float | None = None  # not before the second mark
        self.moving_since: int | None = None  # the first mark after which no pause was too long
        self._first: int | None = None
        self._last: int | None = None
        self._excluded: tuple[str, ...] = ()  # by the last mark

    def mark(self, at: int, excluded: tuple[str, ...] = ()) -> None:
        """Takes the next mark: the moment when it was made, and the writers that it leaves out."""
        last, self._last = self._last, at
        before, self._excluded = self._excluded, excluded
        if last is None:
            self.moving_since = self._first = at
            return
        pause: float = at - last
        if pause <= 0:
            return  # several marks of one moment, or the clock was set back
        limit = self.still_ms
        if pause > limit:
            self.moving_since = at
            pause = min(pause, TAUGHT_STILLS * limit)
        if excluded and excluded != before:
            return
        usual = self.usual_ms
        self.usual_ms = pause if usual is None else usual + (pause - usual) * pause / (pause + CADENCE_PAUSES * usual)

    def resume(self, moving_since: int) -> None:
        """Since when time moves by marks older than those that were taken, if these had no pause."""
        if self.moving_since is not None and self.moving_since == self._first:
            self.moving_since = min(moving_since, self.moving_since)

    @property
    def still_ms(self) -> float:
        """For how long time may stand still, as far as the marks tell."""
        usual = self.usual_ms
        return NEW_STILL_MS if usual is None else max(STILL_LEAST_MS, STILL_PAUSES * usual)

    def too_long_ms(self, timeout_ms: int | None) -> int:
        """For how long time may stand still: no longer than writers may be silent, which `timeout_ms` says."""
        return round(self.still_ms if not timeout_ms else max(STILL_LEAST_MS, min(self.still_ms, timeout_ms)))


NO_CADENCE: Final = Cadence()  # of a key without a mark
