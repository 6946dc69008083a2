"""The state of a stream: what is trouble, and after how long, over simulated fleets of writers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from controller.operators.stream_status import status_of
from controller.streams.cadence import NEW_STILL_MS, Cadence
from strandline.wire.status import KeyStatus, State, StreamStatus
from tests.served import NOON, InProcess, ManualClock

PAGE = Path(__file__).parents[2] / "docs/how-to/ask-for-status.md"
SECOND = 1_000


@pytest.fixture
def served(tmp_path: Path) -> Iterator[InProcess]:
    with InProcess(tmp_path / "store.db", ManualClock()) as controller:
        yield controller


def create(served: InProcess, name: str = "s", **settings: Any) -> None:
    served.call("PUT", f"/v1/streams/{name}", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None, **settings})


def look(served: InProcess, name: str = "s") -> StreamStatus:
    own = served.app.state.controller
    return status_of(name, own.streams.find_loaded(name).standing, own.clock.moment())


def key(served: InProcess) -> KeyStatus:
    return look(served).worst


# -- fleets


@dataclass(frozen=True)
class Fleet:
    """Writers by name, each with the seconds at which it notes; `timeout_s` is their stream's."""

    name: str
    notes: dict[str, list[float]]
    died_s: float  # nobody notes from here on
    timeout_s: int | None = 60
    step_s: float = 1
    wrong: int = 0  # times that it is said to stall while its cadence is not known yet
    events: list[tuple[float, str]] = field(init=False)

    def __post_init__(self) -> None:
        events = [(at, writer) for writer, times in self.notes.items() for at in times if at < self.died_s]
        object.__setattr__(self, "events", sorted(events))


def every(seconds: float, until: float, first: float = 0) -> list[float]:
    return [first + seconds * turn for turn in range(int((until - first) / seconds) + 1)]


def bursts(burst: int, pause: int, until: int, first: float = 0) -> list[float]:
    """A note a second for a while, and then none."""
    return [first + at for at in range(until) if at % (burst + pause) < burst]


def drawn(least: float, most: float, until: float, seed: int) -> list[float]:
    draw, times = random.Random(seed), [0.0]
    while times[-1] < until:
        times.append(times[-1] + draw.uniform(least, most))
    return times


FLEETS = (
    Fleet("fast: 3 writers, each every second", {f"w{n}": every(1, 120, n / 3) for n in range(3)}, 120),
    Fleet("alone: 1 writer, every 2 s", {"w": every(2, 120)}, 120),
    Fleet("slow: 4 writers, each every 15 s", {f"w{n}": every(15, 600, 4 * n) for n in range(4)}, 600),
    Fleet(
        "slower: 2 writers, each every minute",
        {f"w{n}": every(60, 1_800, 30 * n) for n in range(2)},
        1_800,
        600,
        wrong=2,
    ),
    Fleet(
        "bursty: 2 writers, 5 s of notes, 25 s of none",
        {f"w{n}": bursts(5, 25, 600, n / 2) for n in range(2)},
        600,
        wrong=1,
    ),
    Fleet("uneven: 3 writers, 5 to 25 s apart", {f"w{n}": drawn(5, 25, 900, n) for n in range(3)}, 900, 120),
    Fleet("hourly: 1 writer that never times out", {"w": every(3_600, 86_400)}, 86_400, None, 60, wrong=3),
)
QUICKEST = (0, 1)


def lived(served: InProcess, fleet: Fleet) -> tuple[list[tuple[State, float]], KeyStatus]:
    """The states of a fleet's stream with the seconds at which they began, until it is dead for long, and its status
    when it died."""
    create(served, writer_timeout_ms=None if fleet.timeout_s is None else fleet.timeout_s * SECOND)
    clock, began = served.app.state.controller.clock, served.app.state.controller.clock.now()
    seen: list[tuple[State, float]] = []
    at_death, events = key(served), list(fleet.events)
    seconds = 0.0
    while seconds <= fleet.died_s + 180 * fleet.step_s:
        while events and events[0][0] <= seconds:
            at, writer = events.pop(0)
            served.note(writer, NOON + round(at * SECOND), {})
        status = key(served)
        seen.append((status.state, seconds))
        if seconds <= fleet.died_s:
            at_death = status
        seconds += fleet.step_s
        served.pass_time(began + round(seconds * SECOND) - clock.now())
    return [next(of_state) for _, of_state in groupby(seen, key=lambda each: each[0])], at_death


@pytest.mark.parametrize(
    "fleet",
    [
        pytest.param(each, marks=[] if number in QUICKEST else pytest.mark.full, id=each.name.partition(":")[0])
        for number, each in enumerate(FLEETS)
    ],
)
def test_a_fleet_that_lives_is_fine_and_one_that_died_stalls(served: InProcess, fleet: Fleet) -> None:
    states, at_death = lived(served, fleet)
    last_heard = fleet.events[-1][0]
    wrong = [state for state, at in states if at <= last_heard and state.in_trouble]
    assert wrong == [State.STALLED] * fleet.wrong, states
    noticed = next(at for state, at in states if at > last_heard)
    after = [state for state, at in states if at > last_heard]
    assert after[-1] is State.STALLED and at_death.usual_ms is not None
    # As soon as the first of them times out, another one that noted a moment later may not be silent for too long yet.
    assert after in ([State.STALLED], [State.INCOMPLETE, State.STALLED]), states
    usual, too_long = at_death.usual_ms / SECOND, at_death.too_long_ms / SECOND
    row = f"| {fleet.name} | {usual:.1f} s | {too_long:.0f} s | {len(wrong)} | {noticed - last_heard:.0f} s |"
    assert row in PAGE.read_text(), row


# -- each state


def test_a_stream_whose_only_writer_died_is_stalled_before_and_after_it_times_out(served: InProcess) -> None:
    create(served)
    for second in range(10):
        served.note("w", NOON + second, {"0": second + 1})
        served.pass_time(SECOND)
    died = key(served).last_heard_at
    assert key(served).state is State.FINE
    served.pass_time(4_000)
    assert (key(served).state, key(served).state_since) == (State.STALLED, died)
    for passed in (56_000, 23 * 60_000, 30 * 86_400_000):
        served.pass_time(passed)
        assert (key(served).state, key(served).state_since, look(served).state) == (State.STALLED, died, State.STALLED)
    assert dict(key(served).writers) == {"timed_out": 1}


def test_a_writer_that_goes_on_far_behind_the_others_makes_it_stuck(served: InProcess) -> None:
    create(served)
    for second in range(60):
        if second <= 10 or second % 4 == 0:
            served.note("slow", min(second, 10), {"0": second + 1})
        served.note("fast", second, {})
        served.pass_time(SECOND)
    stuck = key(served)
    assert stuck.state is State.STUCK
    assert stuck.held_by is not None and stuck.held_by.writer == "slow"
    assert stuck.held_since == stuck.since


def test_too_few_writers_hold_a_stream_and_are_counted(served: InProcess) -> None:
    create(served, min_writers=3)
    served.note("a", 1, {})
    began = served.app.state.controller.clock.now()
    served.pass_time(NEW_STILL_MS - 1)
    assert key(served).state is State.FINE
    served.pass_time(1)
    held = key(served)
    assert (held.state, held.state_since) == (State.HELD, began)
    assert (held.have_noted, held.wanted_writers) == (1, 3)
    for passed in (60_000, 86_400_000):  # also when it has timed out
        served.pass_time(passed)
        assert key(served).state is State.HELD


def test_a_writer_that_never_notes_stalls_its_stream_and_one_that_rests_wakes_or_closes_does_not(
    served: InProcess,
) -> None:
    create(served)
    assert key(served).state is State.NO_WRITERS
    served.call("PUT", "/v1/streams/s/writers/w", {})
    assert key(served).state is State.FINE
    served.pass_time(NEW_STILL_MS)
    assert key(served).state is State.STALLED

    served.note("w", 1, {})
    served.note("w", 2, {})
    served.call("POST", "/v1/streams/s/writers/w/idle")
    said = served.app.state.controller.clock.now()
    served.pass_time(3_600_000)
    assert (key(served).state, key(served).state_since) == (State.IDLE, said)
    served.call("PUT", "/v1/streams/s/writers/w", {})
    assert key(served).state is State.FINE
    served.note("w", 3, {})
    assert key(served).state is State.FINE

    served.call("DELETE", "/v1/streams/s/writers/w")
    for passed in (0, 120_000, 86_400_000):  # also once it is forgotten
        served.pass_time(passed)
        assert key(served).state is State.IDLE


@pytest.mark.parametrize(
    ("last", "state"), [("dies", State.STALLED), ("closes", State.INCOMPLETE), ("is excluded", State.NO_WRITERS)]
)
def test_the_way_in_which_the_last_writer_left_decides(served: InProcess, last: str, state: State) -> None:
    create(served)
    served.note("other", 1, {})
    if last == "closes":  # the other one died before, and marks name it
        served.pass_time(600_000)
        served.note("w", 2, {})
        served.call("DELETE", "/v1/streams/s/writers/w")
    elif last == "dies":  # the other one closed before
        served.call("DELETE", "/v1/streams/s/writers/other")
        served.note("w", 2, {})
        served.pass_time(60_000)
    else:
        served.call("POST", "/v1/streams/s/writers/other/exclude")
    served.pass_time(60_000)
    assert key(served).state is state


def test_a_holder_is_known_with_its_age_after_each_restart(tmp_path: Path) -> None:
    #   slow   10 ─────────────────────────────────────────────
    #   fast      11 (held from here) ── again, restart ── again, restart
    clock, ages, told = ManualClock(), [], list[Any]()
    with InProcess(tmp_path / "store.db", clock) as served:
        create(served)
        for second in range(10):
            for writer in ("slow", "fast"):
                served.note(writer, second, {"0": 2 * second})
            served.pass_time(SECOND)
        served.note("slow", 9, {"0": 20})
        served.pass_time(SECOND)
        began = clock.now
        for second in range(11, 20):
            served.note("fast", second, {})
            served.note("slow", 9, {})
            served.pass_time(SECOND)
        ages.append(key(served))
    for _ in range(2):
        clock.now += 3 * SECOND
        with InProcess(tmp_path / "store.db", clock) as served:
            served.call("GET", "/v1/streams/s")
            ages.append(key(served))
            served.note("fast", 30, {})
            told = served.told("holding")
    assert [(each.state, each.state_since, each.held_since) for each in ages] == [(State.STUCK, began, began)] * 3
    assert [(each["details"]["writer"], each["details"]["from"]) for each in told] == [("slow", began)]


# -- cadence


def cadence(*pauses: float) -> Cadence:
    found, at = Cadence().after(1, 0, None), 0
    for seq, pause in enumerate(pauses, 2):
        found, at = found.after(seq, at + round(pause), at), at + round(pause)
    return found


def test_a_usual_pause_is_weighed_by_time_so_that_bursts_do_not_hide_it() -> None:
    bursty = cadence(*([10.0] * 100 + [60_000]) * 5)
    assert bursty.usual_ms is not None and bursty.usual_ms > 30_000


def test_time_moves_since_the_last_pause_that_was_too_long_which_does_not_become_usual() -> None:
    assert cadence(*[1_000.0] * 5).moving_since == 0
    assert cadence(*[1_000.0] * 5, 100_000, *[1_000.0] * 5).moving_since == 105_000
    assert cadence(*[1_000.0] * 5, 3_600_000).still_ms < 60_000
