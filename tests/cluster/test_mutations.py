"""Each rule of the protocol is needed: left out, it breaks a promise within a bounded number of histories.

Patching is what these tests are for. CLUSTER_MUTATION_SEEDS is how many histories each rule gets.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.cluster import directed
from tests.cluster.mutations import DIRECTED, RULES
from tests.cluster.truth import Broken
from tests.cluster.world import World

SEEDS = int(os.environ.get("CLUSTER_MUTATION_SEEDS", "300"))
HISTORIES: dict[str, Callable[[], None]] = {
    "same_tenure": directed.load_of_an_earlier_tenure,
    "adopt_newer": directed.beat_of_before_a_release,
    "from_sending": directed.lease_of_a_late_answer,
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_left_out_is_found_by_some_seed(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    leave_out, plan, first = RULES[rule]
    leave_out(monkeypatch)
    with pytest.raises(Broken):
        for seed in range(first, first + SEEDS):
            World(seed, plan).run()


@pytest.mark.parametrize("rule", RULES)
def test_with_the_rule_the_same_history_breaks_nothing(rule: str) -> None:
    _, plan, first = RULES[rule]
    World(first, plan).run()


@pytest.mark.parametrize("rule", DIRECTED)
def test_a_rule_left_out_is_found_by_its_directed_history(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    DIRECTED[rule](monkeypatch)
    with pytest.raises(Broken):
        HISTORIES[rule]()
