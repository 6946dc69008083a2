"""Several controllers over one store keep every promise, whatever fails; and a rule of theirs left out is found."""

import os

import pytest

from tests.several.world import run

SEEDS = int(os.environ.get("SEVERAL_SEEDS", "12"))
FULL_SEEDS = 48
BATCH = 4
FOUND = {
    "a commit is under way here, and another controller has written since": 16,
    "the clock of the store is set back, and a writer falls silent": 48,
    "the answer to a commit comes long after others have written, and what is in memory is taken for new": 514,
}


@pytest.mark.parametrize("first", range(0, SEEDS, BATCH))
def test_several_controllers_keep_every_promise(first: int) -> None:
    for seed in range(first, first + BATCH):
        run(seed)


@pytest.mark.full
@pytest.mark.parametrize("first", range(SEEDS, FULL_SEEDS, BATCH))
def test_they_do_in_many_histories(first: int) -> None:
    for seed in range(first, first + BATCH):
        run(seed)


@pytest.mark.parametrize("seed", FOUND.values(), ids=FOUND)
def test_they_do_in_what_was_found(seed: int) -> None:
    run(seed)
