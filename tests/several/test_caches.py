"""The replica law: whichever cache a call goes to, its answer and its marks are those of one stream that got all calls;
and a cache that has caught up equals one that is loaded."""

from __future__ import annotations

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
from tests.drawn import Bug, batches, planted
from tests.several.cache_store import Cache, Store
from tests.several.caches import CACHES
from tests.several.stored_caches import STORED

RARE = (690, 765, 921, 949, 1415, 3836, 3965)  # which alone found a part left out or an error, or reach a line
IN_STORE = (*range(4), 38, 65)


@pytest.mark.parametrize("seeds", batches(200, 700, 100))
def test_caches_that_catch_up_are_one_stream(seeds: range) -> None:
    CACHES.histories(seeds)


def test_they_are_in_rare_histories_too() -> None:
    CACHES.histories(RARE)


@pytest.mark.parametrize("seed", IN_STORE)
def test_they_are_over_a_store_that_removes_marks(seed: int) -> None:
    STORED.history(seed)


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


def left_out(name: str, owner: type[Any], method: str, first: int) -> Bug:
    return Bug.put(name, owner, method, lambda *_, **__: None, first)


@pytest.mark.full
@planted(
    left_out("nobody sees whose position counts again", Stream, "_check_again", 0),
    left_out("what a forgotten writer leaves is not adopted", Aggregate, "adopt_remainder", 0),
    left_out("the log of writers is not adopted", WriterLog, "adopt", 0),
)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: pytest.MonkeyPatch) -> None:
    CACHES.finds(bug, monkeypatch)
