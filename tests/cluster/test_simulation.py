"""Several controllers on one store keep every promise, whatever is killed, paused, cut off, lost or late.

CLUSTER_SEEDS=10000:20000 runs these histories. Plans of one kind of fault run each tenth seed.
"""

from __future__ import annotations

import os

import pytest

from tests.cluster import directed
from tests.cluster.mutations import (
    ALONE_AND_SUSPENDED,
    FAIL_OVERS,
    HAND_OVERS,
    LATE_BEATS,
    MUTED,
    MUTED_HAND_OVERS,
    SUSPENDED,
)
from tests.cluster.truth import Broken
from tests.cluster.world import Plan, World

pytestmark = pytest.mark.full

SEEDS = range(*map(int, os.environ.get("CLUSTER_SEEDS", "0:60").split(":")))


def run(seed: int, plan: Plan) -> None:
    try:
        World(seed, plan).run()
    except Broken as broken:
        replay = f".venv/bin/python -m tests.cluster.world {seed}"
        raise AssertionError(f"seed {seed} of {plan}: {broken}; {replay} shows the default plan") from broken


def test_every_promise_is_kept_with_all_faults() -> None:
    for seed in SEEDS:
        run(seed, Plan())


PLANS = {
    "hand_overs": HAND_OVERS,
    "late_beats": LATE_BEATS,
    "fail_overs": FAIL_OVERS,
    "muted": MUTED,
    "muted_hand_overs": MUTED_HAND_OVERS,
    "suspended": SUSPENDED,
    "alone_and_suspended": ALONE_AND_SUSPENDED,
}


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_every_promise_is_kept_with_many_faults_of_a_kind(plan: Plan) -> None:
    for seed in SEEDS[::10]:
        run(seed, plan)


FOUND = {
    # A release went with a lost commit, and was not done:
    202: Plan(),  # its shard had been silent for longer than that
    3679: Plan(),  # and the shard was released again before its tenure came back
    # A shard was taken seven times by who had a slow commit under way, which held up its answers:
    1004055: HAND_OVERS,
    # The answer to a take came when the shard had been released again, and from then on nobody took it:
    70001072: MUTED_HAND_OVERS,
    # A shard was released before its tenure began, so nobody had been heard there:
    90030194: MUTED,
    # A controller stopped during a commit, and went on when another one had long served its shards:
    20010200: Plan(),  # the judge took that time for nobody's
    # A controller heard a writer while its clock was two seconds behind, since the store was slow to answer it:
    201145981: MUTED,  # the judge did not know, and the silence looked too short
    # A paused controller went on while another one with its name could not reach the store to begin:
    200037637: FAIL_OVERS,  # the docs forbid that, and the simulation does not do it any more
    210043067: FAIL_OVERS,  # nor when the faults end
    # Its commits had failed for long when it took a shard:
    90054802: MUTED_HAND_OVERS,  # the judge took the time before for nobody's
}


@pytest.mark.parametrize(("seed", "plan"), FOUND.items(), ids=map(str, FOUND))
def test_what_a_seed_has_shown_stays_mended(seed: int, plan: Plan) -> None:
    run(seed, plan)


def test_the_same_seed_replays_the_same_history() -> None:
    events = []
    for _ in range(2):
        world = World(7)
        world.run()
        events.append((world.events, world.truth.answered, world.truth.clock_shown))
    assert events[0] == events[1]


def test_directed_histories_break_nothing() -> None:
    directed.load_of_an_earlier_tenure()
    directed.beat_of_before_a_release()
    directed.lease_of_a_late_answer()
