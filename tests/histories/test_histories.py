"""Drawn histories of real writers and readers, and bugs that they have to find."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from controller.storage import marks
from controller.storage.marks import StoredMarks
from reader_client.progress import News, Progress
from strandline.core.mark import Mark
from strandline.core.order import SegmentRef
from strandline.logs import Position
from tests.drawn import Bug, Patch, batches, planted
from tests.histories.history import HISTORIES
from writer_client.machine import Goal, Machine, SendAlone
from writer_client.registration import RegistrationState
from writer_client.session import WriterSession


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seeds", batches(5, 20, 5))
def test_every_complete_mark_and_watermark_is_true(seeds: range) -> None:
    HISTORIES.histories(seeds)


def looks_at_the_log_once(patch: Patch) -> None:
    look, looked = WriterSession._look, set[int]()

    def broken(self: WriterSession, memo: str | None, ends: Position, own: Position) -> None:
        if id(self.log) in looked:
            memo, ends, own = self.machine._own_memo, self.machine.registration._found, self.machine.registration._found
        look(self, memo, ends, own)
        looked.add(id(self.log))

    patch.setattr(WriterSession, "_look", broken)


def keeps_what_it_noted_before_it_registered(patch: Patch) -> None:
    registered = Machine.registered

    def broken(self: Machine, *given: Any) -> None:
        kept = self.registration._position
        registered(self, *given)
        self.registration._position = kept

    patch.setattr(Machine, "registered", broken)


def leaves_without_a_word_if_it_has_no_time(patch: Patch) -> None:
    final_note = Machine.final_note

    def broken(self: Machine, goal: Goal) -> SendAlone | None:
        if self.registration.last_times:
            return final_note(self, goal)
        return None

    patch.setattr(Machine, "final_note", broken)


def keeps_the_floor_that_registering_gave(patch: Patch) -> None:
    sent_alone = Machine.sent_alone

    def broken(self: Machine, *given: Any) -> Any:
        floors = self.registration.floors
        raised = sent_alone(self, *given)
        self.registration.floors = floors
        return raised

    patch.setattr(Machine, "sent_alone", broken)


def sends_waiting_notes_at_positions_from_before_registering(patch: Patch) -> None:
    reached = RegistrationState.reached
    patch.setattr(RegistrationState, "reached", lambda self, own: own if own else reached(self, own))


def a_reader_reports_what_it_has_only_fetched(patch: Patch) -> None:
    news_of = Progress.news_of

    def broken(self: Progress[Any], places: Iterable[SegmentRef]) -> News:
        found = news_of(self, places)
        fetched = {
            stream: {segment: self.cursors[stream, segment].fetched for segment in each}
            for stream, each in found.positions.items()
        }
        return News(fetched, found.settled)

    patch.setattr(Progress, "news_of", broken)


def a_wait_gives_the_cut_of_an_earlier_mark_than_the_complete_one(patch: Patch) -> None:
    around = StoredMarks.around

    def broken(self: StoredMarks, time: int) -> tuple[Mark | None, Mark | None]:
        floor, ceiling = around(self, time)
        first = self._one(marks._CEILING, time)
        return floor, None if ceiling is None or first is None else replace(ceiling, cut=first.cut)

    patch.setattr(StoredMarks, "around", broken)


@pytest.mark.full
@pytest.mark.timeout(900)
@planted(
    Bug.of(looks_at_the_log_once),
    Bug.of(keeps_what_it_noted_before_it_registered, 55),
    Bug.of(leaves_without_a_word_if_it_has_no_time, 34),
    Bug.of(keeps_the_floor_that_registering_gave, 17),
    Bug.of(sends_waiting_notes_at_positions_from_before_registering),
    Bug.of(a_reader_reports_what_it_has_only_fetched),
    Bug.of(a_wait_gives_the_cut_of_an_earlier_mark_than_the_complete_one),
)
def test_a_planted_bug_is_found(bug: Bug, monkeypatch: Patch) -> None:
    HISTORIES.finds(bug, monkeypatch)
