"""What each writer writes, and when: a function of the settings and their seed, in milliseconds after the start.

An event happens at its *time* and reaches its writer a moment later, never more than the writer's `reach` later.
That bound makes notes true without knowledge of the future: at a tick, the writer has every event that happened a reach
ago or earlier. When it has written them, it may note the time "tick minus reach".

    steady   |x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|    writes at every tick the events that reached it
    slow     |x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|x|    the same, but the events are seconds old
    idle     |x|x|x|------------------|x|x|x|x|   goes idle; registers before it writes again
    offline  |x|x|x|x|··········|X|x|x|x|x|x|x|   collects events without a network, then writes all at once
"""

import json
import random
from dataclasses import dataclass
from typing import Final, Literal

DELAYS_MS: Final = {"steady": 0, "slow": 3_000, "idle": 0, "offline": 0}  # the least that events need to reach a writer
SPREAD_MS: Final = 200  # how much more at most, in any order
WRITERS: Final = tuple(DELAYS_MS)
WINDOW_MS: Final = 2_000
TICK_MS: Final = 200
REGISTER_AHEAD_MS: Final = 400  # how long before its first event the idle writer registers again
DEVICES: Final = 4  # for each writer; each device is a key


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """The settings of the demo. `rate` is in events a second and writer, `delay_ms` is that of the plain watermark."""

    duration_ms: int = 30_000
    outage_ms: int = 10_000
    delay_ms: int = 5_000
    rate: int = 200
    seed: int = 1

    @property
    def outage(self) -> range:
        """The time in which the offline writer is away. It begins a little before the middle of the remaining time."""
        begin = (self.duration_ms - self.outage_ms) * 2 // 5 // 1000 * 1000
        return range(begin, begin + self.outage_ms)

    @property
    def rest(self) -> range:
        """The time in which nothing happens on the idle writer's devices."""
        return range(self.duration_ms // 5 // 1000 * 1000, self.duration_ms * 7 // 10 // 1000 * 1000)


@dataclass(frozen=True, slots=True)
class Happening:
    """An event. `reached_ms` is when its writer has it."""

    time_ms: int
    device: str
    reached_ms: int

    def value(self, start_ms: int) -> bytes:
        """The event as the log has it; `start_ms` is the moment at which the world began."""
        return json.dumps({"time": start_ms + self.time_ms, "device": self.device}).encode()


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """What a writer does at a moment. `write` appends the events and then notes a time."""

    at_ms: int
    does: Literal["register", "write", "rest", "vanish", "leave"]
    events: tuple[Happening, ...] = ()
    noted_ms: int = 0


def happenings(settings: DemoSettings, writer: str) -> list[Happening]:
    """The events on a writer's devices, by time."""
    chance = random.Random(f"{settings.seed} {writer}")  # a text seeds equally in every process
    found = []
    for number in range(settings.rate * settings.duration_ms // 1000):
        time = int((number + chance.random()) * 1000 / settings.rate)
        device = f"{writer}-{chance.randrange(DEVICES)}"
        found.append(Happening(time, device, time + DELAYS_MS[writer] + chance.randrange(SPREAD_MS)))
    return [event for event in found if writer != "idle" or event.time_ms not in settings.rest]


def steps(settings: DemoSettings, writer: str) -> list[PlannedStep]:
    """All steps of a writer, in order. At its last tick all of its events have reached it."""
    reach = DELAYS_MS[writer] + SPREAD_MS
    # Before the idle writer rests, it waits for events that are still on their way.
    resting = range(settings.rest.start + reach + TICK_MS, settings.rest.stop + 1)
    away = {"offline": settings.outage[1:], "idle": resting}.get(writer, range(0))
    waiting = sorted(happenings(settings, writer), key=lambda event: event.reached_ms, reverse=True)
    found = [PlannedStep(0, "register")]
    before = 0
    for at in range(TICK_MS, settings.duration_ms + reach + TICK_MS, TICK_MS):
        if at in away:
            continue
        if at > before + TICK_MS and writer == "idle":
            found += [PlannedStep(before, "rest"), PlannedStep(settings.rest.stop - REGISTER_AHEAD_MS, "register")]
        elif at > before + TICK_MS:
            found.append(PlannedStep(before, "vanish"))
        due = []
        while waiting and waiting[-1].reached_ms <= at:
            due.append(waiting.pop())
        found.append(PlannedStep(at, "write", tuple(due), min(max(at - reach, 0), settings.duration_ms)))
        before = at
    return [*found, PlannedStep(before, "leave")]
