"""The checker bites: the core, broken by hand in one place, is caught within a few hundred histories.

Patching is what these tests are for; no other test does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from controller.services.clock import Clock
from strandline import admission, steadyclock
from strandline import stream as stream_module
from strandline.aggregate import Aggregate, Role
from strandline.changes import Answer, Registered
from strandline.config import StreamConfig, TimeDomain
from strandline.cut import NOTHING, Cut
from strandline.mark import Mark
from strandline.note import Note
from strandline.roster import Roster
from strandline.steadyclock import SteadyClock
from strandline.stream import Stream
from strandline.unserved import Unserved
from strandline.writer import Contribution, Entry, Phase, Standing, Writer
from tests.simulation.checker import Broken, FalseClaim
from tests.simulation.controller import Controller
from tests.simulation.world import World

SEEDS = 1_500

Patch = pytest.MonkeyPatch
Mutation = Callable[[Patch], None]


def floor_ignores_own_stored_time(patch: Patch) -> None:
    register = Stream.register

    def broken(self: Stream, name: str, keys: Any, now: int) -> Registered:
        writer = self.writers.get(name)
        times = {key: standing.time for key, standing in writer.standings.items()} if writer else {}
        for key in times:
            self.writers[name].standings[key].time = None
        try:
            return register(self, name, keys, now)
        finally:
            for key, time in times.items():
                self.writers[name].standings[key].time = time

    patch.setattr(Stream, "register", broken)


def joined_writers_do_not_hold(patch: Patch) -> None:
    role = Aggregate._role

    def broken(self: Aggregate, writer: Writer, standing: Standing) -> Role:
        return Role.OUT if standing.phase is Phase.JOINED else role(self, writer, standing)

    patch.setattr(Aggregate, "_role", broken)


def last_position_only_of_the_same_key(patch: Patch) -> None:
    positions: dict[tuple[str, int], Cut] = {}
    note, contribution, begin = Stream.note, Writer.contribution, Stream.__init__

    def begins(self: Stream, *arguments: Any, **named: Any) -> None:
        positions.clear()
        begin(self, *arguments, **named)

    def noting(self: Stream, said: Note, now: int, *, tail: bool = False) -> Answer:
        before = (
            {key: standing.time for key, standing in self.writers[said.writer].standings.items()}
            if (said.writer in self.writers)
            else {}
        )
        answer = note(self, said, now, tail=tail)
        writer = self.writers[said.writer]
        for key, standing in writer.standings.items():
            if key in said.times or key not in before:
                positions[said.writer, id(standing)] = writer.position
        return answer

    def broken(self: Writer, standing: Standing, time: int) -> Contribution:
        gift = contribution(self, standing, time)
        if gift.lasting:
            return gift
        return Contribution(gift.time, positions.get((self.name, id(standing)), self.position), gift.newest, False)

    patch.setattr(Stream, "__init__", begins)
    patch.setattr(Stream, "note", noting)
    patch.setattr(Writer, "contribution", broken)


def closing_drops_positions(patch: Patch) -> None:
    close = Writer.close

    def broken(self: Writer, epoch: int | None, now: int) -> None:
        close(self, epoch, now)
        if self.closed:
            self.position = NOTHING
            for standing in self.standings.values():
                standing.history = []

    patch.setattr(Writer, "close", broken)


def a_new_life_keeps_the_notes_of_the_old_one(patch: Patch) -> None:
    begin_anew = Writer.begin_anew

    def broken(self: Writer) -> None:
        kept = {key: standing.history for key, standing in self.standings.items()}
        begin_anew(self)
        for key, history in kept.items():
            self.standings[key].history = history

    patch.setattr(Writer, "begin_anew", broken)


def forgetting_drops_positions(patch: Patch) -> None:
    make = Aggregate.make

    def broken(self: Aggregate, time: int, now: int) -> Mark:
        for name in self._lost:
            writer = self._writers[name]
            since = writer.lost_since(writer.standings[self.key])
            if since is not None and now - since >= self.config.forget_after_ms:
                writer.position, writer.standings[self.key].history = NOTHING, []
        return make(self, time, now)

    patch.setattr(Aggregate, "make", broken)


def idle_and_close_are_not_fenced(patch: Patch) -> None:
    patch.setattr(stream_module, "check_epoch", lambda name, writer, epoch: None)


def epochs_are_reused_after_a_restart(patch: Patch) -> None:
    restored = Stream.restored.__func__  # type: ignore[attr-defined]  # the function below the class method

    def broken(cls: type[Stream], *arguments: Any, **named: Any) -> Stream:
        stream: Stream = restored(cls, *arguments, **named)
        stream.epochs = 0
        return stream

    patch.setattr(Stream, "restored", classmethod(broken))


def a_repeated_note_wakes_an_idle_writer(patch: Patch) -> None:
    def broken(self: Stream, writer: Writer, times: Mapping[str, int], now: int) -> None:
        for key in times:
            standing = writer.standings[key]
            if standing.phase is Phase.IDLE:
                standing.phase = Phase.NOTED
        self._hear(writer, now)
        self._roster.changed(writer, now)

    patch.setattr(Stream, "_hear_again", broken)


def skipped_writers_are_not_named(patch: Patch) -> None:
    left_out = Aggregate._left_out

    def broken(self: Aggregate, time: int, now: int) -> tuple[str, ...]:
        return tuple(name for name in left_out(self, time, now) if name not in self._skipped)

    patch.setattr(Aggregate, "_left_out", broken)


def lost_writers_that_never_noted_are_not_named(patch: Patch) -> None:
    misses = Aggregate._misses

    def broken(self: Aggregate, name: str, time: int, now: int) -> bool:
        return misses(self, name, time, now) and self._writers[name].standings[self.key].time is not None

    patch.setattr(Aggregate, "_misses", broken)


def a_report_counts_with_the_time_of_its_arrival(patch: Patch) -> None:
    counted = admission._counted_times

    def broken(note: Note, stream: str, config: StreamConfig, now: int) -> Mapping[str, int]:
        times = counted(note, stream, config, now)
        return {"": now - config.clock_skew_ms} if config.time_domain is TimeDomain.INGESTION else times

    patch.setattr(admission, "_counted_times", broken)


def rest_is_not_stored_before_it_ends(patch: Patch) -> None:
    patch.setattr(Roster, "store_rest", lambda self, now: None)


def thinning_keeps_the_earlier_note(patch: Patch) -> None:
    def broken(self: Standing, entry: Entry, last_time: int | None, bound: int) -> None:
        if self.history and entry.time <= self.history[-1].time:
            return
        self.history.append(entry)
        if len(self.history) > bound:
            later, earlier = self.history[-1], self.history[-2]
            self.history[-2:] = [Entry(later.time, earlier.cut, earlier.newest)]
            self.lasting = False

    patch.setattr(Standing, "remember", broken)


def downtime_counts_as_silence(patch: Patch) -> None:
    new_clock = Controller._new_clock

    def broken(self: Controller) -> Clock:
        clock = new_clock(self)
        clock.unserved.total_ms = self.store.unserved_ms
        return clock

    patch.setattr(Controller, "_new_clock", broken)


def a_process_that_stood_still_counts_as_silence(patch: Patch) -> None:
    patch.setattr(Unserved, "skip", lambda self, passed_ms: None)


def a_store_that_was_away_counts_as_silence(patch: Patch) -> None:
    patch.setattr(Unserved, "fail", lambda self: None)


def what_is_served_is_stored_as_of_a_commit_that_came_after_failures(patch: Patch) -> None:
    patch.setattr(Unserved, "served_until", lambda self, now: now)


def the_clock_stands_still_while_the_wall_clock_is_behind(patch: Patch) -> None:
    read = SteadyClock.read

    def broken(self: SteadyClock, monotonic: int) -> int:
        return self._last if self._to_slew_ms < 0 else read(self, monotonic)

    patch.setattr(SteadyClock, "read", broken)


def the_wall_clock_is_believed_at_once(patch: Patch) -> None:
    patch.setattr(steadyclock, "CLOCK_CONFIRM_MS", 0)


def the_wall_clock_is_believed_however_far_it_went(patch: Patch) -> None:
    patch.setattr(steadyclock, "CLOCK_STEP_BOUND_MS", 10**15)


def the_clock_follows_a_wall_clock_that_is_set_back(patch: Patch) -> None:
    look = SteadyClock.look

    def broken(self: SteadyClock, wall: int, monotonic: int) -> int:
        step = look(self, wall, monotonic)
        self._base = self._last = min(self._base, wall)
        return step

    patch.setattr(SteadyClock, "look", broken)


def a_clock_that_follows_counts_as_silence(patch: Patch) -> None:
    look = SteadyClock.look

    def broken(self: SteadyClock, wall: int, monotonic: int) -> int:
        look(self, wall, monotonic)
        return 0

    patch.setattr(SteadyClock, "look", broken)


def a_returning_writer_is_told_no_floor(patch: Patch) -> None:
    patch.setattr(Roster, "counts", lambda self, writer, key: True)


def a_repeat_is_not_told_what_the_first_was(patch: Patch) -> None:
    floors = Stream._floors

    def broken(self: Stream, note: Note, writer: Writer | None, repeats: bool, now: int) -> dict[str, int | None]:
        return floors(self, note, writer, False, now)

    patch.setattr(Stream, "_floors", broken)


def newest_is_believed_for_a_part_of_the_position(patch: Patch) -> None:
    move = Writer.move

    def broken(self: Writer, given: Mapping[str, int], cut: Cut, newest: Mapping[str, int]) -> None:
        known = {key: standing.newest for key, standing in self.standings.items()}
        move(self, given, cut, newest)
        for key, standing in self.standings.items():
            if standing.newest is None:
                standing.newest = newest.get(key, known.get(key))

    patch.setattr(Writer, "move", broken)


LEADING_TO_FALSE_CLAIMS: Sequence[Mutation] = (
    floor_ignores_own_stored_time,
    joined_writers_do_not_hold,
    last_position_only_of_the_same_key,
    closing_drops_positions,
    a_new_life_keeps_the_notes_of_the_old_one,
    forgetting_drops_positions,
    idle_and_close_are_not_fenced,
    epochs_are_reused_after_a_restart,
    skipped_writers_are_not_named,
    lost_writers_that_never_noted_are_not_named,
    a_report_counts_with_the_time_of_its_arrival,
    rest_is_not_stored_before_it_ends,
    thinning_keeps_the_earlier_note,
    newest_is_believed_for_a_part_of_the_position,
)
BREAKING_OTHER_RULES: Sequence[Mutation] = (
    a_repeated_note_wakes_an_idle_writer,
    downtime_counts_as_silence,
    a_process_that_stood_still_counts_as_silence,
    a_store_that_was_away_counts_as_silence,
    what_is_served_is_stored_as_of_a_commit_that_came_after_failures,
    the_clock_stands_still_while_the_wall_clock_is_behind,
    the_wall_clock_is_believed_at_once,
    the_wall_clock_is_believed_however_far_it_went,
    the_clock_follows_a_wall_clock_that_is_set_back,
    a_clock_that_follows_counts_as_silence,
    a_returning_writer_is_told_no_floor,
    a_repeat_is_not_told_what_the_first_was,
)


def first_caught(only_claims: bool) -> tuple[int, Broken] | None:
    for seed in range(SEEDS):
        try:
            World(seed, only_claims=only_claims).run()
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
