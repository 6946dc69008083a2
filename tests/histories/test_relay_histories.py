"""Drawn histories of relays, and bugs that they have to find."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from strandline.errors import PositionWentBack, StrandlineError, TimeWentBack
from tests.drawn import Bug, Patch, batches, planted
from tests.histories.relay_history import RELAY_HISTORIES, ModelKafka, SteppedConnection
from writer_client.relay.loop import Relay
from writer_client.relay.owed import Book, Due, Whose
from writer_client.relay.records import Leaving
from writer_client.relay.topic import NotesTopic


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seeds", batches(5, 50, 5))
def test_every_complete_mark_is_true_whatever_befalls_relays(seeds: range) -> None:
    RELAY_HISTORIES.histories(seeds)


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


@pytest.mark.full
@pytest.mark.timeout(900)
@planted(
    Bug.of(lets_a_writer_leave_whose_time_was_refused),
    Bug.of(lets_a_writer_leave_whose_position_was_refused),
    Bug.of(uses_a_registration_without_a_commit, 38),
    Bug.of(notes_whatever_the_group_says_of_its_commits, 10),
    Bug.of(asks_the_ends_before_it_reads, 39),
    Bug.of(notes_before_it_has_read_to_the_end, 8),
    Bug.of(keeps_what_a_lost_partition_said, 28),
    Bug.of(keeps_the_epoch_of_a_writer_that_left),
)
def test_a_planted_bug_of_relays_is_found(bug: Bug, monkeypatch: Patch) -> None:
    RELAY_HISTORIES.finds(bug, monkeypatch)
