"""Drawn histories of relays, and bugs that they have to find."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strandline.errors import PositionWentBack, StrandlineError, TimeWentBack
from tests.histories.history import Untrue
from tests.histories.relay_history import ModelKafka, SteppedConnection, run_with_relays
from writer_client.relay.loop import Relay
from writer_client.relay.owed import Book, Due, Whose
from writer_client.relay.records import Leaving
from writer_client.relay.topic import NotesTopic

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
    run = SteppedConnection.run

    def broken(self: SteppedConnection, call: Any) -> Any:
        found = run(self, call)
        if isinstance(found, tuple):
            return tuple(
                SimpleNamespace(late=False, ahead_ms={}) if isinstance(each, error) else each for each in found
            )
        return found

    patch.setattr(SteppedConnection, "run", broken)


def lets_a_writer_leave_whose_time_was_refused(patch: Patch) -> None:
    takes_for_noted(patch, TimeWentBack)


def lets_a_writer_leave_whose_position_was_refused(patch: Patch) -> None:
    takes_for_noted(patch, PositionWentBack)


def uses_a_registration_without_a_commit(patch: Patch) -> None:
    register, commit, registering = Relay._register, Relay._commit, set[int]()

    def broken(self: Relay, due: Due) -> bool:
        registering.add(id(self))
        try:
            return register(self, due)
        finally:
            registering.discard(id(self))

    patch.setattr(Relay, "_register", broken)
    patch.setattr(Relay, "_commit", lambda self, *, shows: id(self) in registering or commit(self, shows=shows))


def notes_whatever_the_group_says_of_its_commits(patch: Patch) -> None:
    commit = NotesTopic.commit
    patch.setattr(NotesTopic, "commit", lambda self, offsets: commit(self, offsets) or True)


def asks_the_ends_before_it_reads(patch: Patch) -> None:
    round_of = Relay.round

    def broken(self: Relay) -> bool:
        ends = self._ends
        found = ends(ModelKafka.streams)
        self._ends = lambda streams: {stream: found[stream] for stream in streams}
        try:
            return round_of(self)
        finally:
            self._ends = ends

    patch.setattr(Relay, "round", broken)


def notes_before_it_has_read_to_the_end(patch: Patch) -> None:
    patch.setattr(NotesTopic, "is_read", lambda self, partition: partition in self.positions)


def keeps_what_a_lost_partition_said(patch: Patch) -> None:
    patch.setattr(Book, "drop", lambda *_: None)


def keeps_the_epoch_of_a_writer_that_left(patch: Patch) -> None:
    leave = Relay._leave

    def broken(self: Relay, accepted: Mapping[Whose, Leaving | None]) -> None:
        epochs = {whose: self._epochs[whose] for whose in accepted}
        leave(self, accepted)
        self._epochs |= epochs

    patch.setattr(Relay, "_leave", broken)


# Each with the seed from which it is sought: one a little further on finds it, so that a busy machine has the time.
BUGS = (
    (lets_a_writer_leave_whose_time_was_refused, 0),
    (lets_a_writer_leave_whose_position_was_refused, 0),
    (uses_a_registration_without_a_commit, 38),
    (notes_whatever_the_group_says_of_its_commits, 10),
    (asks_the_ends_before_it_reads, 39),
    (notes_before_it_has_read_to_the_end, 8),
    (keeps_what_a_lost_partition_said, 28),
    (keeps_the_epoch_of_a_writer_that_left, 0),
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
