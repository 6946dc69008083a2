"""What kind of world a seed gives."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from strandline.config import LateWriters, StreamConfig, TimeDomain

LONG_MS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Settings of the stream, who writes to it, and how often what goes wrong (shares of a hundred).

    `churn`: how often a writer that is gone, or dead, is followed by one of another name.
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
    clock_steps: int
    operators: int
    impolite: int
    unregistered: int
    churn: int
    eager_commits: int
    seals: bool

    @property
    def ingestion(self) -> bool:
        return self.config.time_domain is TimeDomain.INGESTION


def draw(random: Random) -> Scenario:
    """A small world: two to four writers, one to four segments, faults from none to many."""
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
        clock_steps=0 if calm else random.choice((0, 0, 10)),
        operators=random.choice((0, 2, 6)),
        impolite=random.choice((0, 0, 20)),
        unregistered=random.choice((0, 20, 60)),
        churn=random.choice((0, 40, 90)),
        eager_commits=random.choice((100, 80, 40)),
        seals=random.random() < 0.2,
    )
