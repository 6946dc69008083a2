"""Drawn histories of relays, and bugs that they have to find."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline.errors import StrandlineError, TimeWentBack
from tests.histories.history import Untrue
from tests.histories.relay_history import SteppedClient, run_with_relays

Patch = pytest.MonkeyPatch
FULL_SEEDS = 300


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("begin", [0, *(pytest.param(begin, marks=pytest.mark.full) for begin in range(5, 50, 5))])
def test_every_complete_mark_is_true_whatever_befalls_relays(begin: int, tmp_path: Path) -> None:
    for seed in range(begin, begin + 5):
        run_with_relays(seed, tmp_path / str(seed))


def takes_for_noted(patch: Patch, error: type[StrandlineError]) -> None:
    run = SteppedClient.run

    def broken(self: SteppedClient, call: Any) -> Any:
        found = run(self, call)
        if isinstance(found, tuple):
            return tuple(
                SimpleNamespace(late=False, ahead_ms={}) if isinstance(each, error) else each for each in found
            )
        return found

    patch.setattr(SteppedClient, "run", broken)


def lets_a_writer_leave_whose_time_was_refused(patch: Patch) -> None:
    takes_for_noted(patch, TimeWentBack)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("bug", [lets_a_writer_leave_whose_time_was_refused])
def test_a_planted_bug_of_relays_is_found(bug: Callable[[Patch], None], monkeypatch: Patch, tmp_path: Path) -> None:
    bug(monkeypatch)
    with pytest.raises(Untrue):
        for seed in range(FULL_SEEDS):
            run_with_relays(seed, tmp_path / str(seed))
