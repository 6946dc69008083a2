"""What kind of world a seed gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from strandline.core.config import LateWriters, StreamConfig, TimeDomain

LONG_MS = 1_000_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
CLOCK_STEPS = (300, 300, 10_000, HOUR_MS, 2 * DAY_MS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Settings of the stream, who writes to it, and how often what goes wrong (shares of a hundred).

    `churn`: how often a writer that is gone, or dead, is followed by one of another name. At a `pace` of 200 everything
    takes 200 times as long: then the time between two steps is longer than a gap in which nobody served.
    """

    config: StreamConfig
    segments: int
    open: bool
    keys: tuple[str, ...]
    writers: int
    tails: int
    history_notes: int
    steps: int
    loss: int
    repeats: int
    crashes: int
    pauses: int
    outages: int
    clock_steps: int
    clock_far: tuple[int, ...]  # how far somebody sets the host's clock at most, forward or back
    pace: int
    operators: int
    impolite: int
    unregistered: int
    churn: int
    eager_commits: int
    seals: bool

    @property
    def ingestion(self) -> bool:
        return self.config.time_domain is TimeDomain.INGESTION


def draw(random: Random, host: Random) -> Scenario:
    """A small world: two to four writers, one to four segments, faults from none to many.

    What happens to the host and to the store is drawn from `host`: most worlds know nothing of that.
    """
    scenario = undisturbed(random)
    if not scenario.clock_steps and host.random() < 0.6:
        return scenario
    disturbed = replace(scenario, pauses=host.choice((0, 0, 2)), outages=host.choice((0, 0, 3)))
    return slowed_down(disturbed, host.choice((1, 1, 200)))


def followed(random: Random, _host: Random) -> Scenario:
    """One in which somebody sets the host's clock by up to an hour, the controller's follows, and silence is judged by
    far less than that."""
    scenario = undisturbed(random)
    config = replace(scenario.config, writer_timeout_ms=2_000)
    slow = slowed_down(replace(scenario, config=config, crashes=0, steps=180), 200)
    return replace(slow, clock_steps=2, clock_far=(HOUR_MS,))


def undisturbed(random: Random, _host: Random | None = None) -> Scenario:
    """A world in which neither the host nor the store is in trouble, but for small steps of the clock."""
    ingestion = random.random() < 0.35
    tails = 0
    if ingestion:
        tails = random.choice((0, 1, 1, 2))
    writers = random.randint(2, 4) if tails == 0 else random.randint(0, 2)
    keys = ("",) if ingestion else random.choice((("",), ("",), ("", "ship"), ("order", "ship")))
    config = StreamConfig(
        time_domain=TimeDomain.INGESTION if ingestion else TimeDomain.EVENT,
        writer_timeout_ms=random.choice((None, 0, 200, 600, 600, 2_000)),
        min_writers=random.choice((1, 1, 1, 2)) if writers + tails > 1 else 1,
        mark_interval_ms=random.choice((0, 0, 0, 150, 1_000, None)),
        late_writers=random.choice((LateWriters.HOLD, LateWriters.HOLD, LateWriters.SKIP)),
        max_ahead_ms=None,
        idle_lag_ms=random.choice((0, 50, 300)),
        clock_skew_ms=random.choice((0, 0, 40)) if ingestion else 0,
        forget_after_ms=random.choice((0, 300, 1_500, LONG_MS, LONG_MS)),
    )
    calm = random.random() < 0.2
    return Scenario(
        config=config,
        segments=random.choice((1, 1, 2, 3, 4)),
        open=random.random() < 0.25,
        keys=keys,
        writers=writers,
        tails=tails,
        history_notes=random.choice((1, 2, 3, 64)),
        steps=random.choice((80, 120, 180)),
        loss=0 if calm else random.choice((0, 10, 30)),
        repeats=0 if calm else random.choice((0, 15, 30)),
        crashes=0 if calm else random.choice((0, 2, 6)),
        pauses=0,
        outages=0,
        clock_steps=0 if calm else random.choice((0, 0, 10)),
        clock_far=CLOCK_STEPS,
        pace=1,
        operators=random.choice((0, 2, 6)),
        impolite=random.choice((0, 0, 20)),
        unregistered=random.choice((0, 20, 60)),
        churn=random.choice((0, 40, 90)),
        eager_commits=random.choice((100, 80, 40)),
        seals=random.random() < 0.2,
    )


def slowed_down(scenario: Scenario, pace: int) -> Scenario:
    """The same in a world in which everything takes so many times as long."""
    if pace == 1:
        return scenario
    config = scenario.config
    return replace(
        scenario,
        config=replace(
            config,
            writer_timeout_ms=None if config.writer_timeout_ms is None else config.writer_timeout_ms * pace,
            mark_interval_ms=None if config.mark_interval_ms is None else config.mark_interval_ms * pace,
            idle_lag_ms=config.idle_lag_ms * pace,
            forget_after_ms=config.forget_after_ms * pace,
        ),
        clock_steps=min(scenario.clock_steps, 2),
        pace=pace,
    )
