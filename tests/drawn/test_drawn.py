"""A drawn history is made shorter until each of its steps is needed, and replays as it was."""

from __future__ import annotations

import pytest

from tests.drawn import Bug, Draw, Suite

NUMBERS = {"earlier": 5}


def run(draw: Draw) -> None:
    """It fails where a number that is divisible by seven comes after one that is divisible by five."""
    found = False
    for _ in draw.steps(40):
        number = draw.random.choice((draw.random.randrange(1, 100), 1))
        draw.say(str(number))
        assert not (found and number % 7 == 0)
        found = found or number % NUMBERS["earlier"] == 0


TOYS = Suite("toys", run, AssertionError)


@pytest.mark.parametrize("seed", range(5))
def test_each_step_that_is_left_is_needed(seed: int) -> None:
    told: list[str] = []
    with pytest.raises(AssertionError) as failed:
        TOYS.history(seed, told.append)
    assert failed.value.__notes__[0].endswith(f"seed {seed}: python -m tests.drawn toys {seed}")

    kept = TOYS.shorter(seed)

    first, last = kept
    assert int(told[first]) % 5 == 0 and int(told[last]) % 7 == 0 and last == len(told) - 1


def test_a_planted_bug_has_to_be_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NUMBERS, "earlier", 1_000)
    assert TOYS.histories(range(20)) == {}
    with pytest.raises(pytest.fail.Exception):
        TOYS.finds(Bug("none", lambda _: None), monkeypatch)
    TOYS.finds(Bug("five", lambda patch: patch.setitem(NUMBERS, "earlier", 5)), monkeypatch)
