"""The replica law: whichever cache a call goes to, its answer and its marks are those of one stream that got all calls;
and a cache that has caught up equals one that is loaded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from controller.commit.writer_log import WriterLog
from strandline.core.aggregate import Aggregate
from strandline.core.config import StreamConfig
from strandline.core.contributions import PositionRange
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.limits import TIME_BOUND_MS
from tests.replica import stored
from tests.replica.store import Cache, Store
from tests.replica.world import run

SEEDS = int(os.environ.get("REPLICA_SEEDS", "200"))
RARE = (690, 765, 921, 949, 1415, 3836, 3965)  # which alone found a part left out or an error, or reach a line
STORED = (*range(4), 38, 65)
BATCH = 100
FULL_SEEDS, FULL_BATCH = 700, 250


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_caches_that_catch_up_are_one_stream(first: int) -> None:
    for seed in range(first, first + BATCH):
        run(seed)


def test_they_are_in_rare_histories_too() -> None:
    for seed in RARE:
        run(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(SEEDS, FULL_SEEDS, FULL_BATCH))
def test_they_are_in_very_many_histories_too(first: int) -> None:
    for seed in range(first, first + FULL_BATCH):
        run(seed)


@pytest.mark.parametrize("seed", STORED)
def test_they_are_over_a_store_that_removes_marks(tmp_path: Path, seed: int) -> None:
    assert stored.run(seed, f"sqlite:///{tmp_path}/store.db") > 0


def test_a_cache_that_only_adopts_marks_keeps_nothing_that_they_have_taken() -> None:
    config = StreamConfig(mark_interval_ms=0, max_ahead_ms=None)
    kept = Store(Stream("s", config, SegmentGraph.equal_shares(1, 0), now=0))
    calls, adopts = Cache(kept), Cache(kept)
    for time in range(1, 2_000):
        for name, ahead_ms in (("a", 0), ("b", 10)):
            calls.stream.note(Note(writer=name, times={"": time + ahead_ms}, position={"0": time}), time)
        calls.commit(time)
        assert adopts.catch_up() or time == 1  # the first commit finds nothing to compare with
    gathered = adopts.stream._aggregates[""]._contributions.below(TIME_BOUND_MS)
    assert sum(each.positions for each in gathered if isinstance(each, PositionRange)) <= 20


PARTS: dict[str, tuple[type[Any], str]] = {
    "whose position counts again": (Stream, "_check_again"),
    "what a forgotten writer leaves": (Aggregate, "adopt_remainder"),
    "the log of writers": (WriterLog, "adopt"),
}


@pytest.mark.full
@pytest.mark.parametrize(("owner", "method"), PARTS.values(), ids=PARTS)
def test_a_part_left_out_is_found(owner: type[Any], method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owner, method, lambda *_: None)
    with pytest.raises(Exception):  # noqa: B017  # whatever comes first
        for seed in (*RARE, *range(SEEDS)):
            run(seed)
