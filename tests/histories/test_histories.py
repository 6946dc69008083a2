"""Drawn histories of real writers and readers, and bugs that they have to find."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strandline.client.http import Connection
from strandline.core.progress import News, Progress
from strandline.logs import Log
from tests.histories.history import Untrue, run
from writer_client.session import WriterSession

Patch = pytest.MonkeyPatch
SEEDS = int(os.environ.get("HISTORIES", "30"))
FULL_SEEDS = 400


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable()
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("begin", range(0, SEEDS, 10))
def test_every_complete_mark_and_watermark_is_true(begin: int, tmp_path: Path) -> None:
    for seed in range(begin, begin + 10):
        run(seed, tmp_path / str(seed))


def looks_at_the_log_once(patch: Patch) -> None:
    look, looked = WriterSession._look, set[int]()

    def broken(self: WriterSession, log: Log) -> None:
        if id(log) not in looked:
            look(self, log)
        looked.add(id(log))
        self._looked = True

    patch.setattr(WriterSession, "_look", broken)


def keeps_what_it_noted_before_it_registered(patch: Patch) -> None:
    register = WriterSession.register

    def broken(self: WriterSession, connection: Connection) -> Any:
        kept = dict(self._position)
        done = register(self, connection)
        self._position = {**kept, **self._position}
        return done

    patch.setattr(WriterSession, "register", broken)


def leaves_without_a_word_if_it_has_no_time(patch: Patch) -> None:
    settle = WriterSession._settle

    def broken(self: WriterSession, *given: Any) -> None:
        if self.may_have_noted or any(floor is not None for floor in self.floors.values()):
            settle(self, *given)

    patch.setattr(WriterSession, "_settle", broken)


def keeps_the_floor_that_registering_gave(patch: Patch) -> None:
    repair = WriterSession._repair

    def broken(self: WriterSession, connection: Connection) -> None:
        floors = self.floors
        repair(self, connection)
        self.floors = floors

    patch.setattr(WriterSession, "_repair", broken)


def sends_waiting_notes_at_positions_from_before_registering(patch: Patch) -> None:
    reached = WriterSession.reached
    patch.setattr(WriterSession, "reached", lambda self, own: own if own else reached(self, own))


def a_reader_reports_what_it_has_not_returned(patch: Patch) -> None:
    news = Progress.news

    def broken(self: Progress[Any]) -> News:
        found = news(self)
        ahead = {
            stream: {segment: offset + 1 for segment, offset in each.items()}
            for stream, each in found.positions.items()
        }
        return News(ahead, found.settled)

    patch.setattr(Progress, "news", broken)


BUGS = (
    looks_at_the_log_once,
    keeps_what_it_noted_before_it_registered,
    leaves_without_a_word_if_it_has_no_time,
    keeps_the_floor_that_registering_gave,
    sends_waiting_notes_at_positions_from_before_registering,
    a_reader_reports_what_it_has_not_returned,
)


@pytest.mark.full
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: Callable[[Patch], None], monkeypatch: Patch, tmp_path: Path) -> None:
    bug(monkeypatch)
    with pytest.raises(Untrue):
        for seed in range(FULL_SEEDS):
            run(seed, tmp_path / str(seed))
