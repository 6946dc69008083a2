"""What two controllers show of one stream is the same, whichever of them made its marks and refused its calls."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest

from controller.commit import freshness
from controller.storage.news import FOLLOWED_COMMITS
from tests.controller.world import CONFIG, World, play
from tests.served import NOON, InProcess, ManualClock

pytestmark = pytest.mark.full

SETTINGS = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}


@pytest.fixture
def two(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[InProcess, InProcess]]:
    """Two controllers with one clock, both of which have the stream in memory; each looks at the store each time."""
    monkeypatch.setattr(freshness, "FRESH_S", -1.0)
    clock = ManualClock()
    with InProcess(postgres_url, clock) as one, InProcess(postgres_url, clock) as other:
        one.call("PUT", "/v1/streams/s", SETTINGS)
        other.note("w", NOON, {"0": 1})
        one.call("GET", "/v1/streams/s")
        yield one, other


def shown(controller: InProcess) -> Any:
    controller.app.state.controller.status.forget()
    (found,) = controller.call("GET", "/v1/status?stream=s")["streams"]
    return found


def test_marks_are_at_one_rate_also_for_a_controller_that_has_missed_very_many(
    two: tuple[InProcess, InProcess],
) -> None:
    one, other = two
    assert shown(other)["keys"][""]["marks_per_second"] == 0
    for number in range(1, FOLLOWED_COMMITS + 20):
        one.clock.now += 500
        one.note("w", NOON + number, {"0": 1 + number})
        if number == 20:  # the stream is ten seconds old
            assert [shown(each)["keys"][""]["marks_per_second"] for each in two] == [2, 2]
    assert other.call("GET", "/v1/streams/s")["latest_marks"][""]["seq"] == one.marks()[-1]["seq"]  # loads it again
    assert [shown(each)["keys"][""]["marks_per_second"] for each in two] == [2, 2]
    assert shown(one)["keys"][""] == shown(other)["keys"][""]


def test_refusals_are_one_number_however_many_the_journal_leaves_out(two: tuple[InProcess, InProcess]) -> None:
    one, other = two
    late = {"writer": "w", "time": 1, "position": {"0": 1}}
    for number in range(43):
        controller = one if number < 30 else other
        controller.call("POST", "/v1/streams/s/notes", late, expect=409)
    one.clock.now += 5_000
    for each in two:
        each.portal.call(each.app.state.controller.run_due)
    for each in two:
        assert (shown(each)["refusals"], shown(each)["refused_at"]) == ({"time_went_back": 43}, NOON)


def test_a_stream_is_shown_that_was_made_here_and_never_compared_since(store_url: str) -> None:
    async def scene(world: World) -> None:
        await world.streams.create("s", 1, CONFIG)
        world.clock.now += 60_000
        loaded = world.streams.find_loaded("s")
        assert loaded is not None
        loaded.compared_at = -math.inf  # the store has not answered since
        assert world.streams.known_at(loaded).now == (NOON if world.store.is_shared else NOON + 60_000)

    play(store_url, scene)
