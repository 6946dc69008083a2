"""Drawn histories of relays, and bugs that they have to find."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from controller.cli.relay.loop import Relay
from controller.cli.relay.owed import Due
from strandline.errors import PositionWentBack, StrandlineError, TimeWentBack
from tests.histories.history import Untrue
from tests.histories.relay_history import ModelKafka, SteppedClient, run_with_relays

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


def uses_registrations_that_no_commit_follows(patch: Patch) -> None:
    register = Relay._register

    def broken(self: Relay, due: Due) -> bool:
        with patch.context() as blind:
            blind.setattr(Relay, "_commit", lambda self, *, shows: True)
            return register(self, due)

    patch.setattr(Relay, "_register", broken)


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


def lets_a_writer_leave_whose_position_was_refused(patch: Patch) -> None:
    takes_for_noted(patch, PositionWentBack)


def asks_for_the_ends_before_it_reads(patch: Patch) -> None:
    begin_round = Relay.round

    def broken(self: Relay) -> bool:
        asked, ends = self._ends(ModelKafka.streams), self._ends
        self._ends = lambda streams: {each: asked[each] for each in streams}
        try:
            return begin_round(self)
        finally:
            self._ends = ends

    patch.setattr(Relay, "round", broken)


# Each with the seed from which it is sought, as in test_histories.py.
BUGS = (
    (uses_registrations_that_no_commit_follows, 0),
    (lets_a_writer_leave_whose_time_was_refused, 0),
    (lets_a_writer_leave_whose_position_was_refused, 0),
    (asks_for_the_ends_before_it_reads, 0),
)


@pytest.mark.full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("bug", "begin"), BUGS)
def test_a_planted_bug_of_relays_is_found(
    bug: Callable[[Patch], None], begin: int, monkeypatch: Patch, tmp_path: Path
) -> None:
    bug(monkeypatch)
    with pytest.raises(Untrue):
        for seed in range(begin, begin + FULL_SEEDS):
            run_with_relays(seed, tmp_path / str(seed))
