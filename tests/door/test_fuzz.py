"""Raw bytes for a real controller, for a few seconds. `make soak` goes on for a million requests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.door.fuzz import Target, run

REQUESTS = 1_000
SEED = 20


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    made = Target(tmp_path / "store.db")
    yield made
    made.stop()


@pytest.mark.parametrize("inside", [False, True])
def test_whatever_comes_in_is_no_fault_and_strangers_change_nothing(target: Target, inside: bool) -> None:
    found = run(target, SEED, REQUESTS, inside=inside)

    assert {"200", "400", "401", "405"} <= set(found)  # it got somewhere
