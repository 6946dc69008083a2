"""The usual time between the marks of one key, learned from the marks themselves, and how many come a second. Pure."""

from __future__ import annotations

from typing import Final, Self

import msgspec

STILL_LEAST_MS: Final = 5_000  # time that stands still for less than this is never trouble


NEW_STILL_MS: Final = 20_000  # for how long time may stand still before the second mark
STILL_PAUSES: Final = 3  # usual pauses between marks; time that stands still for longer is trouble
CADENCE_PAUSES: Final = 8  # pauses between marks after which a usual pause is mostly forgotten
TAUGHT_STILLS: Final = 4  # a pause counts as usual for at most so many times what was too long
RATE_MS: Final = 60_000  # marks a second are counted over so long, or up to twice as long


class Cadence(msgspec.Struct, frozen=True, array_like=True):
    """How long time usually stands still between two marks, and how long is too long.

    It is an average over time: a pause weighs as much as it lasts, so that a hundred marks in one second do not hide
    the minute in which there is none. About the last CADENCE_PAUSES pauses count. One that was too long counts for
    at most TAUGHT_STILLS times what was too long, so that an outage does not become usual, while a stream that has
    become slower is known after a few marks. A mark that a writer's silence made possible, which names it as the first
    one, teaches nothing.
    """

    moving_since: int | None = None  # the first mark after which no pause was too long
    usual_ms: float | None = None  # not before the second mark
    counted: tuple[int, int] = (0, 0)  # from this mark on, by its seq and its moment, marks a second are counted,
    then: tuple[int, int] = (0, 0)  # and after a while from this one on

    def after(self, seq: int, at: int, last: int | None, *, teaches: bool = True) -> Self:
        """The cadence with one more mark, after the `last` one was made at that moment."""
        if last is None:
            return type(self)(at, None, (seq, at), (seq, at))
        counted, then, moving_since, usual = self.counted, self.then, self.moving_since, self.usual_ms
        if at - then[1] >= RATE_MS:
            counted, then = then if at - last < RATE_MS else (seq, at), (seq, at)
        pause: float = at - last
        if pause > 0:  # else these are several marks of one moment, or the clock was set back
            limit = self.still_ms
            if pause > limit:
                moving_since = at
                pause = min(pause, TAUGHT_STILLS * limit)
            if teaches and usual is None:
                usual = float(pause)
            elif teaches and usual is not None:
                usual += (pause - usual) * pause / (pause + CADENCE_PAUSES * usual)
        return type(self)(moving_since, usual, counted, then)

    @property
    def still_ms(self) -> float:
        """For how long time may stand still, as far as the marks tell."""
        usual = self.usual_ms
        return NEW_STILL_MS if usual is None else max(STILL_LEAST_MS, STILL_PAUSES * usual)

    def too_long_ms(self, timeout_ms: int | None) -> int:
        """For how long time may stand still: no longer than writers may be silent, which `timeout_ms` says."""
        return round(self.still_ms if not timeout_ms else max(STILL_LEAST_MS, min(self.still_ms, timeout_ms)))

    def marks_per_second(self, seq: int, at: int, now: int) -> float:
        """The rate over the last minute or two, up to the newest mark; 0 if that is a minute old."""
        return 0.0 if now - at >= RATE_MS else (seq - self.counted[0]) * 1000 / max(1, now - self.counted[1])


NO_CADENCE: Final = Cadence()  # of a key without a mark
