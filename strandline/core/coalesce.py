"""Combines the watermarks of several inputs into one for each key: the least of the active inputs.

                 idle()                      done()
        active ──────────▶ idle      either ──────────▶ done
        active ◀────────── idle
            event(), observe()

An input is idle in all keys or in none: an event carries all its times, so an input with an event is active in
every key, and an input without events is idle in every key, also in keys that appear later. An idle input keeps
its times, and goes on from them.

`Coalescer` takes every change. `combine` has the same rules for a caller that polls, and keeps only the watermarks that
would otherwise go back.

A merge and a join are two operators: which events of one side of a join may be dropped depends on the time of the
other.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum, auto
from heapq import heappop, heappush, heapreplace
from typing import ClassVar, Final, assert_never

from strandline.core.checks import check_time, check_whole
from strandline.core.note import check_key
from strandline.errors import InputDone, InvalidConfig, TooMany, UnknownInput, WatermarkWentBack
from strandline.limits import KEYS_PER_STREAM, STREAMS_PER_GROUP

KEYS_PER_COALESCER: Final = KEYS_PER_STREAM * STREAMS_PER_GROUP  # its inputs are at most the streams of a group


@dataclass(frozen=True, slots=True)
class Watermark:
    """No event older than `value` follows, in the time named `key`."""

    key: str
    value: int

    def __post_init__(self) -> None:
        check_key(self.key)
        check_time("value", self.value)


@dataclass(frozen=True, slots=True)
class Idle:
    """Every input that is not done is idle: no event comes until one of them wakes."""


Emission = Watermark | Idle


class OnAllIdle(StrEnum):
    """What happens when the last active input goes idle or done while others are idle."""

    HOLD = "hold"  # the watermark stays where the active inputs had brought it
    JUMP = "jump"  # it goes to the greatest time of all inputs


class _InputState(Enum):
    ACTIVE = auto()
    IDLE = auto()
    DONE = auto()


class _KeyTimes:
    """The times of the inputs for one key.

    `_queue` is a heap with at most one entry for each input. Times only rise, so an outdated entry is a lower
    bound; `least` corrects it when it reaches the top. A call costs O(log inputs), amortized.
    """

    __slots__ = ("_queue", "_queued", "counted", "emitted", "greatest", "last")

    def __init__(self) -> None:
        self.last: dict[int, int] = {}
        self.counted = 0  # active inputs that gave a time
        self.greatest: int | None = None
        self.emitted: int | None = None
        self._queue: list[tuple[int, int]] = []
        self._queued: set[int] = set()

    def record(self, number: int, value: int) -> None:
        """Records the new time of an active input."""
        if number not in self.last:
            self.counted += 1
        self.last[number] = value
        self.greatest = value if self.greatest is None else max(self.greatest, value)
        self._enqueue(number)

    def leave(self, number: int) -> None:
        if number in self.last:
            self.counted -= 1  # `least` removes its queue entry when that reaches the top

    def come_back(self, number: int) -> None:
        if number in self.last:
            self.counted += 1
            self._enqueue(number)

    def least(self, states: list[_InputState]) -> tuple[int, int] | None:
        """The least time of the active inputs that have one, and the first input with it."""
        queue = self._queue
        while queue:
            value, number = queue[0]
            if states[number] is not _InputState.ACTIVE:
                heappop(queue)
                self._queued.discard(number)
            elif self.last[number] != value:
                heapreplace(queue, (self.last[number], number))
            else:
                return value, number
        return None

    def rise_to(self, value: int) -> bool:
        """Whether the value is above the last emitted one; if so, it becomes the last emitted one."""
        if self.emitted is not None and value <= self.emitted:
            return False
        self.emitted = value
        return True

    def _enqueue(self, number: int) -> None:
        if number not in self._queued:
            self._queued.add(number)
            heappush(self._queue, (self.last[number], number))


class Coalescer:
    """Combines the watermarks of several inputs into one for each key; every call returns its emissions.

    The watermark of a key is the least time of the active inputs, once each of them has a time for that key.
    So a key that only some active inputs have is not forwarded. Emitted values strictly rise, key by key: an
    input that wakes with an older time holds the watermark until it has caught up. Emissions for several keys
    come in the order of the keys' names.

    When every input is idle or done, and one is idle, `Idle()` is emitted, once. With `on_all_idle="jump"` the
    greatest time of all inputs comes before it, for each key in which it is above the watermark. A jump is a
    guess: events of an idle input below that time will be late. With "hold" the watermark is always a time
    that an input gave.

    `inputs` is a number n, for the inputs 0 to n - 1, or an iterable of distinct names. A refused call
    changes nothing. Raises InvalidConfig, UnknownInput, InputDone for any call after `done`,
    WatermarkWentBack for a value that is not above the last one of the same input and key, and TooMany beyond
    KEYS_PER_COALESCER keys.
    """

    __slots__ = ("_active", "_idle", "_jumps", "_key_order", "_keys", "_names", "_numbers", "_states")
    _every_input_counts: ClassVar[bool] = True  # also before its first time in a key

    def __init__(self, inputs: int | Iterable[Hashable], on_all_idle: str = OnAllIdle.HOLD) -> None:
        self._names = _input_names(inputs)
        self._numbers = {name: number for number, name in enumerate(self._names)}
        if len(self._numbers) < len(self._names):
            raise InvalidConfig(name="inputs", value=self._names, wanted="distinct names")
        try:
            self._jumps = OnAllIdle(on_all_idle) is OnAllIdle.JUMP
        except ValueError:
            raise InvalidConfig(name="on_all_idle", value=on_all_idle, wanted='"hold" or "jump"') from None
        self._states = [_InputState.ACTIVE] * len(self._names)
        self._active = len(self._names)
        self._idle = 0
        self._keys: dict[str, _KeyTimes] = {}
        self._key_order: list[str] = []

    def observe(self, input: Hashable, value: int, key: str = "") -> list[Emission]:
        """Takes the input's new time: no older event follows from it. An idle input becomes active."""
        number = self._open(input, "observe")
        check_time("value", value)
        times = self._keys.get(check_key(key))
        if times is None:
            times = self._new_key(key)
        previous = times.last.get(number)
        if previous is not None and value <= previous:
            raise WatermarkWentBack(input=input, key=key, value=value, previous=previous)
        woke = self._wake(number)
        times.record(number, value)
        return self._risen(self._key_order if woke else (key,))

    def event(self, input: Hashable) -> list[Emission]:
        """The input has an event: an idle input becomes active, for every key."""
        return self._risen(self._key_order) if self._wake(self._open(input, "event")) else []

    def idle(self, input: Hashable) -> list[Emission]:
        """The input is idle: it is left out of every key. A repeated call changes nothing."""
        number = self._open(input, "idle")
        if self._states[number] is _InputState.IDLE:
            return []
        self._states[number] = _InputState.IDLE
        self._idle += 1
        return self._left(number)

    def done(self, input: Hashable) -> list[Emission]:
        """No event follows from the input: it is left out for good. When all inputs are done, nothing is emitted."""
        number = self._open(input, "done")
        before, self._states[number] = self._states[number], _InputState.DONE
        if before is _InputState.IDLE:
            self._idle -= 1  # it was left out before, so no watermark rises
            return []
        return self._left(number)

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys for which an input gave a time, in the order of emission."""
        return tuple(self._key_order)

    @property
    def is_idle(self) -> bool:
        """Whether every input that is not done is idle, and there is one."""
        return not self._active and self._idle > 0

    @property
    def is_done(self) -> bool:
        return not self._active and not self._idle

    def value(self, key: str = "") -> int | None:
        """The last watermark emitted for the key; None before the first."""
        times = self._keys.get(key)
        return None if times is None else times.emitted

    def input_value(self, input: Hashable, key: str = "") -> int | None:
        """The input's own time for the key, which a join uses. None before its first."""
        number = self._number(input)
        times = self._keys.get(key)
        return None if times is None else times.last.get(number)

    def held_by(self, key: str = "") -> Hashable | None:
        """The active input that the key waits for: the first without a time, else the one with the least.

        None if no input is active. Checks every input.
        """
        times = self._keys.get(key)
        for number, state in enumerate(self._states):
            missing = self._every_input_counts and (times is None or number not in times.last)
            if missing and state is _InputState.ACTIVE:
                return self._names[number]
        least = None if times is None else times.least(self._states)
        return None if least is None else self._names[least[1]]

    def _number(self, input: Hashable) -> int:
        number = self._numbers.get(input)
        if number is None:
            raise UnknownInput(input=input, known=self._names)
        return number

    def _open(self, input: Hashable, call: str) -> int:
        number = self._number(input)
        if self._states[number] is _InputState.DONE:
            raise InputDone(input=input, call=call)
        return number

    def _new_key(self, key: str) -> _KeyTimes:
        if len(self._keys) >= KEYS_PER_COALESCER:
            raise TooMany(what="time keys", count=len(self._keys) + 1, limit=KEYS_PER_COALESCER)
        insort(self._key_order, key)
        times = self._keys[key] = _KeyTimes()
        return times

    def _wake(self, number: int) -> bool:
        """Makes an idle input active. Returns whether it was idle: then every key may have risen."""
        if self._states[number] is not _InputState.IDLE:
            return False
        self._states[number] = _InputState.ACTIVE
        self._idle -= 1
        self._active += 1
        for times in self._keys.values():
            times.come_back(number)
        return True

    def _left(self, number: int) -> list[Emission]:
        """Leaves out an input that was active; returns the emissions."""
        self._active -= 1
        for times in self._keys.values():
            times.leave(number)
        if self._active:
            return self._risen(self._key_order)
        if not self._idle:
            return []
        emissions: list[Emission] = []
        if self._jumps:
            for key in self._key_order:
                times = self._keys[key]
                if times.greatest is not None and times.rise_to(times.greatest):
                    emissions.append(Watermark(key, times.greatest))
        emissions.append(Idle())
        return emissions

    def _risen(self, keys: Iterable[str]) -> list[Emission]:
        """The risen watermarks among these keys. At least one input must be active."""
        emissions: list[Emission] = []
        for key in keys:
            times = self._keys[key]
            if self._every_input_counts and times.counted < self._active:
                continue
            least = times.least(self._states)
            if least is not None and times.rise_to(least[0]):
                emissions.append(Watermark(key, least[0]))
        return emissions

    def take(self, input: Hashable, emissions: Iterable[Emission]) -> list[Emission]:
        """Takes the emissions of the upstream operator that is this input."""
        out: list[Emission] = []
        for emission in emissions:
            match emission:
                case Watermark(key, value):
                    out += self.observe(input, value, key)
                case Idle():
                    out += self.idle(input)
                case _:
                    assert_never(emission)
        return out


class Join(Coalescer):
    """The watermarks of a join: it uses each input's own time, forwards every key, and is idle when all inputs are.

        orders      order 10          order 14       idle
        shipments             ship 8           ship 9        idle
        out         order 10  ship 8  order 14 ship 9  .     Idle

    The times of the other inputs (`time`) decide which events of one input can still be joined; an idle or done input
    keeps its time. Each input needs a key of its own. A key of several inputs is coalesced over those that have it: an
    input holds a key from its own first time in it, so its events below what was emitted before that are late. To wait
    for inputs of one key from the start, put a `Coalescer` before the join. Joins and coalescers form trees: `take`
    takes the emissions of an upstream operator. Emissions rise, and calls are refused, as in a `Coalescer`.
    """

    __slots__ = ()
    _every_input_counts = False

    def __init__(self, *inputs: Hashable) -> None:
        if len(inputs) < 2:
            raise InvalidConfig(name="inputs", value=inputs, wanted="the names of two inputs or more")
        super().__init__(inputs)

    def time(self, input: Hashable, key: str = "") -> int | None:
        """The input's own time: no older event follows from it. None before its first."""
        return self.input_value(input, key)


def combine(
    bounds: Mapping[str, Mapping[str, int | None]],
    left_out: Collection[str],
    held: Mapping[str, int],
    *,
    jump: bool = False,
) -> tuple[dict[str, int | None], dict[str, int]]:
    """One watermark for each key from the inputs' present times, and the `held` argument of the next call.

    `bounds` has the time of each input by key. The watermark is the least of the inputs that are not `left_out`, null
    if one of them has none. It never goes back, neither when an input wakes with an older time nor when the last input
    is left out. So a returned watermark is held, by key, while it is above the least of *all* inputs, which never goes
    back by itself. With `jump`, and every input left out, the watermark is the greatest of all times.
    """
    counted = [times for name, times in bounds.items() if name not in left_out]
    watermarks: dict[str, int | None] = {}
    result: dict[str, int] = {}
    for key in sorted({key for times in bounds.values() for key in times} | set(held)):
        proven = _least(key, bounds.values())
        active = _least(key, counted) if counted else None
        greatest = _greatest(key, bounds.values()) if jump and not counted else None
        known = [time for time in (proven, active, greatest, held.get(key)) if time is not None]
        watermark = watermarks[key] = max(known, default=None)
        if watermark is not None and (proven is None or watermark > proven):
            result[key] = watermark
    return watermarks, result


def holder(bounds: Mapping[str, Mapping[str, int | None]], left_out: Collection[str], key: str) -> str | None:
    """The input that a key waits for: among those not left out one without a time, else the one with the least, ties
    by name. None if all are left out."""
    waiting = [(times.get(key), name) for name, times in bounds.items() if name not in left_out]
    return min(waiting, key=lambda each: (each[0] is not None, each[0] or 0, each[1]))[1] if waiting else None


def _least(key: str, inputs: Iterable[Mapping[str, int | None]]) -> int | None:
    """The least time of a key; null if an input has none."""
    times = [each.get(key) for each in inputs]
    known = [time for time in times if time is not None]
    return min(known, default=None) if len(known) == len(times) else None


def _greatest(key: str, inputs: Iterable[Mapping[str, int | None]]) -> int | None:
    return max((time for each in inputs if (time := each.get(key)) is not None), default=None)


def _input_names(inputs: int | Iterable[Hashable]) -> tuple[Hashable, ...]:
    wanted = "a whole number from 1 up, or an iterable of names"
    if type(inputs) is int:
        return tuple(range(check_whole("inputs", inputs, least=1)))
    if isinstance(inputs, (bool, str)) or not isinstance(inputs, Iterable):
        raise InvalidConfig(name="inputs", value=inputs, wanted=wanted)
    names = tuple(inputs)
    if not names:
        raise InvalidConfig(name="inputs", value=names, wanted=wanted)
    return names
