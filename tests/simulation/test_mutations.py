"""The checker bites: what is broken by hand in one place is caught within a few hundred histories.

Rules of the core alone are compared with the plain ones, call by call, in tests/model: some of each kind are here, and
all that the world around the core has, its clock and its store.

Patching is what these tests are for, as it is for the planted bugs of tests/chaos; no other test does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random

import pytest

from controller.clock import Clock
from strandline.core import admission
from strandline.core.aggregate import Aggregate
from strandline.core.changes import Changes
from strandline.core.config import StreamConfig, TimeDomain
from strandline.core.cut import Cut
from strandline.core.note import Note
from strandline.core.served_time import SERVED_GAP_MS, Unserved
from strandline.core.stream import Stream
from strandline.core.writer import KeptNote, KeyState, Phase, StreamWriter, WriterRole
from tests.simulation import scenario
from tests.simulation.checker import Broken, FalseClaim
from tests.simulation.controller import Controller, Store
from tests.simulation.scenario import Scenario
from tests.simulation.world import World
from tests.simulation.writers import Process

SEEDS = 1_500
FOLLOWED_SEEDS = 40  # of a scenario in which every fourth catches it

Patch = pytest.MonkeyPatch
Mutation = Callable[[Patch], None]


def joined_writers_do_not_hold(patch: Patch) -> None:
    role = Aggregate._role

    def broken(self: Aggregate, writer: StreamWriter, key_state: KeyState) -> WriterRole:
        return WriterRole.OUT if key_state.phase is Phase.JOINED else role(self, writer, key_state)

    patch.setattr(Aggregate, "_role", broken)


def a_report_counts_with_the_time_of_its_arrival(patch: Patch) -> None:
    counted = admission._counted_times

    def broken(note: Note, stream: str, config: StreamConfig, now: int) -> Mapping[str, int]:
        times = counted(note, stream, config, now)
        return {"": now - config.clock_skew_ms} if config.time_domain is TimeDomain.INGESTION else times

    patch.setattr(admission, "_counted_times", broken)


def thinning_keeps_the_earlier_note(patch: Patch) -> None:
    def broken(self: KeyState) -> bool:
        later, earlier = self.history[-1], self.history[-2]
        self.history[-2:] = [KeptNote(later.time, earlier.cut, earlier.newest)]
        return True

    patch.setattr(KeyState, "_thin", broken)


def downtime_counts_as_silence(patch: Patch) -> None:
    new_clock = Controller._new_clock

    def broken(self: Controller) -> Clock:
        clock = new_clock(self)
        clock.unserved.until = clock.now()
        return clock

    patch.setattr(Controller, "_new_clock", broken)


def a_gap_counts_as_silence(patch: Patch) -> None:
    def broken(self: Unserved, now: int) -> None:
        self.until = now

    patch.setattr(Unserved, "serve", broken)


def a_gap_counts_once_more_each_time_that_somebody_serves(patch: Patch) -> None:
    serve = Unserved.serve

    def broken(self: Unserved, now: int) -> None:
        until = self.until
        serve(self, now)
        if self.until != until and until is not None and now - until > SERVED_GAP_MS:
            self.total_ms += now - until

    patch.setattr(Unserved, "serve", broken)


def clock_shows(patch: Patch, shown: Callable[[int, int, int], int]) -> None:
    """The clock shows what follows from what it showed before, from what it should show, and from its source."""
    read = Clock.now

    def broken(self: Clock) -> int:
        before = self._now
        self._now = shown(before, read(self), self._source.wall())
        return self._now

    patch.setattr(Clock, "now", broken)


def the_clock_stands_still_while_its_source_is_behind(patch: Patch) -> None:
    clock_shows(patch, lambda before, now, wall: max(before, wall))


def the_clock_does_not_go_slower_while_its_source_is_behind(patch: Patch) -> None:
    clock_shows(patch, lambda before, now, wall: now if now == wall else 2 * now - before)


def the_clock_does_not_follow_a_source_that_leaps(patch: Patch) -> None:
    clock_shows(patch, lambda before, now, wall: min(now, before + 60_000))


def the_clock_follows_a_source_that_is_set_back(patch: Patch) -> None:
    clock_shows(patch, lambda before, now, wall: wall)


def a_returning_writer_is_told_no_floor(patch: Patch) -> None:
    patch.setattr(Aggregate, "counts", lambda self, key_state: True)


def newest_is_believed_for_a_part_of_the_position(patch: Patch) -> None:
    move = StreamWriter.move

    def broken(self: StreamWriter, given: Cut, cut: Cut, newest: Mapping[str, int]) -> None:
        known = {key: key_state.newest for key, key_state in self.key_states.items()}
        move(self, given, cut, newest)
        for key, key_state in self.key_states.items():
            if key_state.newest is None:
                key_state.newest = newest.get(key, known.get(key))

    patch.setattr(StreamWriter, "move", broken)


def the_store_keeps_who_is_forgotten(patch: Patch) -> None:
    take = Store.take

    def broken(self: Store, stream: Stream, changes: Changes) -> None:
        before = dict(self.writers)
        take(self, stream, changes)
        self.writers = before | self.writers

    patch.setattr(Store, "take", broken)


LEADING_TO_FALSE_CLAIMS: Sequence[Mutation] = (
    joined_writers_do_not_hold,
    a_report_counts_with_the_time_of_its_arrival,
    thinning_keeps_the_earlier_note,
    newest_is_believed_for_a_part_of_the_position,
)
BREAKING_OTHER_RULES: Sequence[Mutation] = (
    downtime_counts_as_silence,
    a_gap_counts_as_silence,
    a_gap_counts_once_more_each_time_that_somebody_serves,
    the_clock_stands_still_while_its_source_is_behind,
    the_clock_does_not_go_slower_while_its_source_is_behind,
    the_clock_does_not_follow_a_source_that_leaps,
    the_clock_follows_a_source_that_is_set_back,
    a_returning_writer_is_told_no_floor,
    the_store_keeps_who_is_forgotten,
)


def first_caught(
    only_claims: bool,
    *,
    transactions: bool = False,
    seeds: int = SEEDS,
    draw: Callable[[Random, Random], Scenario] = scenario.draw,
) -> tuple[int, Broken] | None:
    for seed in range(seeds):
        try:
            World(seed, only_claims=only_claims, transactions=transactions, draw=draw).run()
        except Broken as broken:
            return seed, broken
    return None


@pytest.mark.parametrize("mutation", LEADING_TO_FALSE_CLAIMS, ids=lambda mutation: mutation.__name__)
def test_a_rule_left_out_gives_a_false_mark(mutation: Mutation, monkeypatch: Patch) -> None:
    mutation(monkeypatch)
    caught = first_caught(only_claims=True)
    assert caught is not None and isinstance(caught[1], FalseClaim)


@pytest.mark.parametrize("mutation", BREAKING_OTHER_RULES, ids=lambda mutation: mutation.__name__)
def test_a_rule_left_out_is_caught(mutation: Mutation, monkeypatch: Patch) -> None:
    mutation(monkeypatch)
    assert first_caught(only_claims=False) is not None


@pytest.mark.parametrize("domain", TimeDomain)
def test_a_note_that_passes_an_open_transaction_gives_a_false_mark(domain: TimeDomain, monkeypatch: Patch) -> None:
    may_note = Process.may_note

    def broken(self: Process) -> bool:
        return self.world.scenario.config.time_domain is domain or may_note(self)

    monkeypatch.setattr(Process, "may_note", broken)
    caught = first_caught(only_claims=True, transactions=True)
    assert caught is not None and isinstance(caught[1], FalseClaim)


def test_a_clock_that_follows_its_host_counts_as_nobodys_silence(monkeypatch: Patch) -> None:
    assert first_caught(only_claims=False, seeds=FOLLOWED_SEEDS, draw=scenario.followed) is None
    a_gap_counts_as_silence(monkeypatch)
    assert first_caught(only_claims=False, seeds=FOLLOWED_SEEDS, draw=scenario.followed) is not None
