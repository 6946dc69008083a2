"""Who writes what, and when: a function of the settings and their seed, in milliseconds after the start.

An event happens at its *time* and reaches its writer a moment later, never more than the writer's `reach` later.
That bound is what makes a note honest without knowing the future: at a tick, everything that happened a reach ago
or earlier is there, so once it is written, the writer may note the time "tick minus reach".

    steady   |x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|    writes at every tick what reached it
    slow     |x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|    the same, but what reaches it is seconds old
    idle     |x|x|x|------------------|x|x|x|x|   says that it rests; registers before it goes on
    offline  |x|x|x|x|··········|X|x|x|x|x|x|x|   collects events where no one sees them, then writes all at once
"""

from __future__ import annotations

import enum
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from strandline_demo.settings import DemoSettings

TICK_MS: Final = 200
SPREAD_MS: Final = 200  # events reach a writer at most so much later than its usual delay, in any order
REGISTER_AHEAD_MS: Final = 400  # the idle writer registers so long before its first event
DEVICES: Final = 4  # a writer, each a key


class Role(enum.StrEnum):
    """The four writers, by name."""

    STEADY = "steady"
    SLOW = "slow"
    IDLE = "idle"
    OFFLINE = "offline"


@dataclass(frozen=True, slots=True)
class Happening:
    """An event before it is written: `reached_ms` is when its writer has it."""

    time_ms: int
    device: str
    reached_ms: int


@dataclass(frozen=True, slots=True)
class Write:
    """Append `events` (there may be none), and when they are acknowledged note `noted_ms`."""

    at_ms: int
    events: tuple[Happening, ...]
    noted_ms: int


@dataclass(frozen=True, slots=True)
class Rest:
    """Say idle: nothing will come until the next Register."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Register:
    """Register (again) before anything is written."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Vanish:
    """Go without a word: until the next step neither the log nor the controller hears anything."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Close: this writer is done for good."""

    at_ms: int


Step = Write | Rest | Register | Vanish | Leave


def reach_ms(settings: DemoSettings, role: Role) -> int:
    """The most that an event needs to reach this writer."""
    return delay_ms(settings, role) + SPREAD_MS


def delay_ms(settings: DemoSettings, role: Role) -> int:
    """The least that an event needs to reach this writer."""
    match role:
        case Role.SLOW:
            return settings.skew_ms
        case Role.STEADY | Role.IDLE | Role.OFFLINE:
            return 0
        case _:
            assert_never(role)


def happenings(settings: DemoSettings, role: Role) -> list[Happening]:
    """What happens on a writer's devices, by time; the idle one's devices rest as well."""
    chance = random.Random(f"{settings.seed} {role}")  # seeded by text, which is the same in every process
    delay = delay_ms(settings, role)
    resting = range(settings.rest_from_ms, settings.rest_until_ms) if role is Role.IDLE else range(0)
    found = []
    for number in range(settings.rate * settings.duration_ms // 1000):
        time = int((number + chance.random()) * 1000 / settings.rate)
        device = f"{role}-{chance.randrange(DEVICES)}"
        reached = time + delay + chance.randrange(SPREAD_MS)
        if time not in resting:
            found.append(Happening(time, device, reached))
    return found


def steps(settings: DemoSettings, role: Role) -> tuple[Step, ...]:
    """All that a writer does, in order."""
    reach = reach_ms(settings, role)
    waiting = sorted(happenings(settings, role), key=lambda event: event.reached_ms)
    found: list[Step] = [Register(0)]
    written = before = 0
    for at in _ticks(settings, role):
        if at > before + TICK_MS:
            found += _silence(settings, role, before)
        until = written
        while until < len(waiting) and waiting[until].reached_ms <= at:
            until += 1
        found.append(Write(at, tuple(waiting[written:until]), min(at - reach, settings.duration_ms)))
        written, before = until, at
    found.append(Leave(before))
    return tuple(found)


def _silence(settings: DemoSettings, role: Role, after_ms: int) -> list[Step]:
    """How a writer goes, and comes back, where it leaves out ticks."""
    if role is Role.IDLE:
        return [Rest(after_ms), Register(settings.rest_until_ms - REGISTER_AHEAD_MS)]
    return [Vanish(after_ms)]


def _ticks(settings: DemoSettings, role: Role) -> Iterator[int]:
    """The moments at which a writer writes. At the last one all of its events have reached it."""
    end = settings.duration_ms + reach_ms(settings, role)
    for at in range(TICK_MS, end + TICK_MS, TICK_MS):
        match role:
            case Role.STEADY | Role.SLOW:
                yield at
            case Role.OFFLINE:
                if not settings.outage_from_ms < at < settings.outage_until_ms:
                    yield at
            case Role.IDLE:
                # Before it rests, it waits for what is still on its way.
                if at < settings.rest_from_ms + reach_ms(settings, role) + TICK_MS or at > settings.rest_until_ms:
                    yield at
            case _:
                assert_never(role)


def to_value(event: Happening, start_ms: int) -> bytes:
    """An event as it stands in the log; `start_ms` is the moment at which the world began."""
    return json.dumps({"time": start_ms + event.time_ms, "device": event.device}).encode()


def time_of(value: bytes) -> int:
    """The time of an event in the log, in epoch milliseconds."""
    return int(json.loads(value)["time"])
