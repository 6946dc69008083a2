"""The checker bites: the core, broken by hand in one place, is caught within a few hundred histories.

What fewer than one history in fifty would catch has a story of its own, in test_rare_mutations.py.

Patching is what these tests are for, as it is for the planted bugs of tests/chaos; no other test does it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from controller.clock import Clock
from strandline.core import admission
from strandline.core import stream as stream_module
from strandline.core.admission import Admitted
from strandline.core.aggregate import Aggregate, Remainder
from strandline.core.changes import Changes, Registered
from strandline.core.config import StreamConfig, TimeDomain
from strandline.core.contributions import Contributions, Given
from strandline.core.cut import NOTHING, Cut, join_all
from strandline.core.forgetting import Forgetting
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.core.served_time import SERVED_GAP_MS, Unserved
from strandline.core.shared_segments import SharedSegments
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


def floor_ignores_own_stored_time(patch: Patch) -> None:
    register = Stream.register

    def broken(self: Stream, name: str, keys: Any, now: int, *rest: Any) -> Registered:
        writer = self.writers.get(name)
        times = {key: key_state.time for key, key_state in writer.key_states.items()} if writer else {}
        for key in times:
            self.writers[name].key_states[key].time = None
        try:
            return register(self, name, keys, now, *rest)
        finally:
            for key, time in times.items():
                self.writers[name].key_states[key].time = time

    patch.setattr(Stream, "register", broken)


def joined_writers_do_not_hold(patch: Patch) -> None:
    role = Aggregate._role

    def broken(self: Aggregate, writer: StreamWriter, key_state: KeyState) -> WriterRole:
        return WriterRole.OUT if key_state.phase is Phase.JOINED else role(self, writer, key_state)

    patch.setattr(Aggregate, "_role", broken)


def last_position_only_of_the_same_key(patch: Patch) -> None:
    patch.setattr(Aggregate, "take_move", lambda self, writer, key_state, cut: None)


def closing_drops_positions(patch: Patch) -> None:
    given, close = StreamWriter.given, Stream.close

    def nothing_if_closed(self: StreamWriter, key_state: KeyState) -> Iterator[Given]:
        return iter(()) if self.closed else given(self, key_state)

    def broken(self: Stream, name: str, epoch: int | None, now: int) -> list[Mark]:
        marks = close(self, name, epoch, now)
        for aggregate in self._aggregates.values():
            aggregate._contributions = Contributions(aggregate._given_by)
            for writer, _ in aggregate._holding():
                aggregate.gather(writer)
        return marks

    patch.setattr(StreamWriter, "given", nothing_if_closed)
    patch.setattr(Stream, "close", broken)


def a_new_life_keeps_the_notes_of_the_old_one(patch: Patch) -> None:
    start_over = StreamWriter.start_over

    def broken(self: StreamWriter, life: int) -> None:
        kept = {key: key_state.history for key, key_state in self.key_states.items()}
        start_over(self, life)
        for key, history in kept.items():
            self.key_states[key].history = history

    patch.setattr(StreamWriter, "start_over", broken)


def forgetting_drops_positions(patch: Patch) -> None:
    make = Aggregate.make

    def broken(self: Aggregate, time: int, now: int) -> Mark:
        for name in self._lost:
            writer = self._writers[name]
            since = writer.lost_since(writer.key_states[self.key])
            if since is not None and now - since >= self.config.forget_after_ms:
                writer.position, writer.key_states[self.key].history = NOTHING, []
        self._contributions = Contributions(self._given_by)
        for writer, _ in self._holding():
            self.gather(writer)
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
    def broken(self: Stream, writer: StreamWriter, times: Mapping[str, int], now: int) -> None:
        for key in times:
            key_state = writer.key_states[key]
            if key_state.phase is Phase.IDLE:
                key_state.phase = Phase.NOTED
        self._touch(writer, now)
        self._update_writer(writer, now)

    patch.setattr(Stream, "_touch_again", broken)


def skipped_writers_are_not_named(patch: Patch) -> None:
    left_out = Aggregate._left_out

    def broken(self: Aggregate, time: int, now: int) -> tuple[str, ...]:
        return tuple(name for name in left_out(self, time, now) if name not in self._skipped)

    patch.setattr(Aggregate, "_left_out", broken)


def lost_writers_that_never_noted_are_not_named(patch: Patch) -> None:
    misses = Aggregate._misses

    def broken(self: Aggregate, name: str, time: int, now: int) -> bool:
        return misses(self, name, time, now) and self._writers[name].key_states[self.key].time is not None

    patch.setattr(Aggregate, "_misses", broken)


def a_report_counts_with_the_time_of_its_arrival(patch: Patch) -> None:
    counted = admission._counted_times

    def broken(note: Note, stream: str, config: StreamConfig, now: int) -> Mapping[str, int]:
        times = counted(note, stream, config, now)
        return {"": now - config.clock_skew_ms} if config.time_domain is TimeDomain.INGESTION else times

    patch.setattr(admission, "_counted_times", broken)


def rest_is_not_stored_before_it_ends(patch: Patch) -> None:
    patch.setattr(Stream, "_store_rest", lambda self, now: None)


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


def a_repeat_is_not_told_what_the_first_was(patch: Patch) -> None:
    floors = Stream._floors

    def broken(self: Stream, writer: StreamWriter | None, admitted: Admitted, now: int) -> Mapping[str, int | None]:
        return floors(self, writer, Admitted(admitted.times, admitted.cut, repeats=False), now)

    patch.setattr(Stream, "_floors", broken)


def a_joined_writer_that_notes_below_its_floor_is_not_told(patch: Patch) -> None:
    floors = Stream._floors

    def broken(self: Stream, writer: StreamWriter | None, admitted: Admitted, now: int) -> Mapping[str, int | None]:
        told = floors(self, writer, admitted, now)
        held = {} if writer is None else writer.key_states
        joined = {key for key in told if key in held and self._aggregates[key].counts(held[key])}
        return {key: None if key in joined and not admitted.repeats else floor for key, floor in told.items()}

    patch.setattr(Stream, "_floors", broken)


def newest_is_believed_for_a_part_of_the_position(patch: Patch) -> None:
    move = StreamWriter.move

    def broken(self: StreamWriter, given: Cut, cut: Cut, newest: Mapping[str, int]) -> None:
        known = {key: key_state.newest for key, key_state in self.key_states.items()}
        move(self, given, cut, newest)
        for key, key_state in self.key_states.items():
            if key_state.newest is None:
                key_state.newest = newest.get(key, known.get(key))

    patch.setattr(StreamWriter, "move", broken)


def upper_is_the_greatest_time_contributed(patch: Patch) -> None:
    patch.setattr(SharedSegments, "is_alone", lambda self, position, contributed, cut: True)


def upper_knows_no_earlier_life(patch: Patch) -> None:
    start_over = KeyState.start_over

    def broken(self: KeyState) -> None:
        start_over(self)
        self.earlier_time = None

    patch.setattr(KeyState, "start_over", broken)


def a_contribution_stands_when_another_writer_comes_into_the_segment(patch: Patch) -> None:
    patch.setattr(Stream, "_check_again", lambda self, names, *, fewer=False: None)


def passed_without(attribute: str, value: Any) -> Mutation:
    """Marks pass a writer whatever this attribute of it, or of its standing, is."""

    def mutation(patch: Patch) -> None:
        has_passed = Aggregate.has_passed

        def broken(self: Aggregate, writer: StreamWriter) -> bool:
            owner: Any = writer if hasattr(writer, attribute) else writer.key_states[self.key]
            kept = getattr(owner, attribute)
            setattr(owner, attribute, value)
            try:
                return has_passed(self, writer)
            finally:
                setattr(owner, attribute, kept)

        patch.setattr(Aggregate, "has_passed", broken)

    return mutation


def a_writer_is_forgotten_although_its_position_is_in_no_cut(patch: Patch) -> None:
    passed_without("position", NOTHING)(patch)


def a_writer_is_forgotten_although_its_time_is_above_the_last_mark(patch: Patch) -> None:
    passed_without("time", None)(patch)


def a_writer_is_forgotten_although_upper_is_below_what_its_earlier_lives_noted(patch: Patch) -> None:
    passed_without("earlier_time", None)(patch)


def a_writer_is_forgotten_when_the_marks_of_one_of_its_keys_have_passed_it(patch: Patch) -> None:
    has_passed = Aggregate.has_passed
    patch.setattr(Aggregate, "has_passed", lambda self, writer: len(writer.key_states) > 1 or has_passed(self, writer))


def a_lost_writer_is_forgotten_at_once(patch: Patch) -> None:
    lapses_at = Forgetting._lapses_at

    def broken(self: Forgetting, writer: StreamWriter) -> int | None:
        return None if lapses_at(self, writer) is None else 0

    patch.setattr(Forgetting, "_lapses_at", broken)


def an_excluded_writer_is_forgotten(patch: Patch) -> None:
    lapses_at = Forgetting._lapses_at

    def broken(self: Forgetting, writer: StreamWriter) -> int | None:
        return writer.excluded_at if writer.excluded_at is not None else lapses_at(self, writer)

    patch.setattr(Forgetting, "_lapses_at", broken)


def an_idle_writer_is_forgotten(patch: Patch) -> None:
    lapses_at = Forgetting._lapses_at

    def broken(self: Forgetting, writer: StreamWriter) -> int | None:
        idle = all(key_state.phase is Phase.IDLE for key_state in writer.key_states.values()) and not writer.lost
        return writer.heard_at if idle and not writer.closed else lapses_at(self, writer)

    update = Stream._update_writer

    def tells(self: Stream, writer: StreamWriter, now: int) -> None:
        update(self, writer, now)
        self._forgetting.add(writer)

    patch.setattr(Forgetting, "_lapses_at", broken)
    patch.setattr(Stream, "_update_writer", tells)


def without_remainder(**left: Any) -> Mutation:
    """What forgotten writers leave behind is not kept, in part."""

    def mutation(patch: Patch) -> None:
        with_writer = Remainder.with_writer

        def broken(self: Remainder, writer: StreamWriter, key_state: KeyState) -> Remainder:
            return replace(with_writer(self, writer, key_state), **left)

        patch.setattr(Remainder, "with_writer", broken)

    return mutation


def newest_of_forgotten_writers_is_not_kept(patch: Patch) -> None:
    without_remainder(newest=None, lacks_newest=False)(patch)


def min_writers_does_not_count_those_that_are_forgotten(patch: Patch) -> None:
    without_remainder(noted=0)(patch)


def there_is_no_rest_once_everyone_who_closed_is_forgotten(patch: Patch) -> None:
    without_remainder(closed=False)(patch)


def what_forgotten_writers_noted_counts_in_the_same_keys_only(patch: Patch) -> None:
    without_remainder(cut=NOTHING)(patch)


def what_forgotten_writers_left_behind_is_not_stored(patch: Patch) -> None:
    patch.setattr(Stream, "remainders", property(lambda self: {}))


def the_store_keeps_who_is_forgotten(patch: Patch) -> None:
    take = Store.take

    def broken(self: Store, stream: Stream, changes: Changes) -> None:
        before = dict(self.writers)
        take(self, stream, changes)
        self.writers = before | self.writers

    patch.setattr(Store, "take", broken)


def upper_forgets_what_others_put_below_the_cut(patch: Patch) -> None:
    is_alone = SharedSegments.is_alone
    patch.setattr(
        SharedSegments,
        "is_alone",
        lambda self, position, contributed, reached: is_alone(self, position, contributed, contributed.offsets),
    )


def an_old_epoch_of_a_forgotten_writer_is_believed(patch: Patch) -> None:
    check_epoch = admission.check_epoch

    def broken(name: str, writer: StreamWriter | None, epoch: int | None) -> None:
        if writer is not None:
            check_epoch(name, writer, epoch)

    patch.setattr(admission, "check_epoch", broken)


def closing_is_refused_when_it_is_repeated_for_a_forgotten_writer(patch: Patch) -> None:
    patch.setattr(Stream, "_was_forgotten", lambda self, name, epoch: False)


def a_stream_ends_below_what_forgotten_writers_noted(patch: Patch) -> None:
    patch.setattr(Stream, "_known_end", lambda self: join_all(writer.position for writer in self.writers.values()))


LEADING_TO_FALSE_CLAIMS: Sequence[Mutation] = (
    joined_writers_do_not_hold,
    closing_drops_positions,
    lost_writers_that_never_noted_are_not_named,
    a_report_counts_with_the_time_of_its_arrival,
    thinning_keeps_the_earlier_note,
    newest_is_believed_for_a_part_of_the_position,
    upper_is_the_greatest_time_contributed,
    a_lost_writer_is_forgotten_at_once,
)
BREAKING_OTHER_RULES: Sequence[Mutation] = (
    a_repeated_note_wakes_an_idle_writer,
    downtime_counts_as_silence,
    a_gap_counts_as_silence,
    a_gap_counts_once_more_each_time_that_somebody_serves,
    the_clock_stands_still_while_its_source_is_behind,
    the_clock_does_not_go_slower_while_its_source_is_behind,
    the_clock_does_not_follow_a_source_that_leaps,
    the_clock_follows_a_source_that_is_set_back,
    a_returning_writer_is_told_no_floor,
    a_repeat_is_not_told_what_the_first_was,
    a_writer_is_forgotten_although_its_time_is_above_the_last_mark,
    an_excluded_writer_is_forgotten,
    an_idle_writer_is_forgotten,
    the_store_keeps_who_is_forgotten,
    an_old_epoch_of_a_forgotten_writer_is_believed,
    closing_is_refused_when_it_is_repeated_for_a_forgotten_writer,
)


# The history that catches what few do: those before it would take seconds, and show nothing.
FIRST_SEED: Mapping[Mutation, int] = {
    upper_is_the_greatest_time_contributed: 493,
}


def first_caught(
    only_claims: bool,
    *,
    first: int = 0,
    transactions: bool = False,
    seeds: int = SEEDS,
    draw: Callable[[Random, Random], Scenario] = scenario.draw,
) -> tuple[int, Broken] | None:
    for seed in range(first, first + seeds):
        try:
            World(seed, only_claims=only_claims, transactions=transactions, draw=draw).run()
        except Broken as broken:
            return seed, broken
    return None


@pytest.mark.parametrize("mutation", LEADING_TO_FALSE_CLAIMS, ids=lambda mutation: mutation.__name__)
def test_a_rule_left_out_gives_a_false_mark(mutation: Mutation, monkeypatch: Patch) -> None:
    mutation(monkeypatch)
    caught = first_caught(only_claims=True, first=FIRST_SEED.get(mutation, 0))
    assert caught is not None and isinstance(caught[1], FalseClaim)


@pytest.mark.parametrize("mutation", BREAKING_OTHER_RULES, ids=lambda mutation: mutation.__name__)
def test_a_rule_left_out_is_caught(mutation: Mutation, monkeypatch: Patch) -> None:
    mutation(monkeypatch)
    assert first_caught(only_claims=False, first=FIRST_SEED.get(mutation, 0)) is not None


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
