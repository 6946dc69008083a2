"""What is broken so that histories rarely show it is caught each time: by a story that is told step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from strandline.errors import Fenced
from tests.aggregate import test_forgetting as forgetting
from tests.aggregate import test_ingestion as ingestion
from tests.aggregate import test_marks as marks
from tests.aggregate import test_stream as stream
from tests.aggregate import test_writers as writers
from tests.aggregate.book import Book
from tests.simulation import test_mutations as mutations
from tests.simulation.test_mutations import Mutation, Patch

Story = Callable[[], None]


def a_writer_that_registers_again_gets_its_own_time_as_its_floor() -> None:
    book = Book(min_writers=2)
    book.note("a", 100, {"0": 1})
    book.note("b", 10, {"1": 1})
    assert book.register("a").floors == {"": 100}


def a_lost_writer_that_is_named_no_more_gives_its_position_to_marks() -> None:
    book = Book(min_writers=2, writer_timeout_ms=1_000, forget_after_ms=0)
    book.note("a", 30, {"0": 9})
    book.note("b", 10, {"1": 1})
    book.note("a", 40, {"0": 20})
    for time in (12, 35):
        book.after(500).note("b", time, {"1": 2})
    assert (book.last.time, book.last.excluded, book.cut()) == (35, (), {"0": 20, "1": 2})


def an_old_epoch_neither_idles_nor_closes() -> None:
    for what in ("idle", "close"):
        book = Book()
        for _ in range(2):
            book.register("a")
        with pytest.raises(Fenced):
            book.call(what, "a", 1)


def upper_bounds_what_a_writer_noted_beyond_what_it_contributed_when_another_one_comes() -> None:
    book = Book(min_writers=2)
    for time in (50, 90):
        book.note("a", time, {"0": time})
    book.note("b", 5, {"1": 1})
    assert (book.last.time, book.last.upper) == (5, 50)
    book.note("b", 40, {"0": 60})
    assert (book.last.time, book.last.upper, book.cut()) == (40, 90, {"0": 60, "1": 1})


RARE: Mapping[Mutation, Story] = {
    mutations.floor_ignores_own_stored_time: a_writer_that_registers_again_gets_its_own_time_as_its_floor,
    mutations.last_position_only_of_the_same_key: (
        marks.test_a_writer_without_a_later_note_contributes_its_last_position
    ),
    mutations.a_new_life_keeps_the_notes_of_the_old_one: (marks.test_a_writer_that_reopens_contributes_its_new_note),
    mutations.forgetting_drops_positions: a_lost_writer_that_is_named_no_more_gives_its_position_to_marks,
    mutations.idle_and_close_are_not_fenced: an_old_epoch_neither_idles_nor_closes,
    mutations.epochs_are_reused_after_a_restart: (stream.test_a_reloaded_stream_goes_on_where_it_was_without_changes),
    mutations.skipped_writers_are_not_named: writers.test_one_that_is_skipped_is_named_until_it_catches_up,
    mutations.rest_is_not_stored_before_it_ends: (ingestion.test_a_note_ending_idle_advance_is_judged_by_its_time),
    mutations.upper_knows_no_earlier_life: (marks.test_upper_counts_an_earlier_lifes_notes_below_the_cut),
    mutations.a_contribution_stands_when_another_writer_comes_into_the_segment: (
        upper_bounds_what_a_writer_noted_beyond_what_it_contributed_when_another_one_comes
    ),
    mutations.a_writer_is_forgotten_although_its_position_is_in_no_cut: (
        forgetting.test_a_closed_writer_stays_while_its_last_position_is_in_no_cut
    ),
    mutations.a_writer_is_forgotten_when_the_marks_of_one_of_its_keys_have_passed_it: (
        forgetting.test_a_closed_writer_stays_until_every_keys_marks_passed_it
    ),
    mutations.newest_of_forgotten_writers_is_not_kept: (
        forgetting.test_newest_includes_forgotten_writers_and_is_unknown_where_theirs_was
    ),
    mutations.upper_forgets_what_others_put_below_the_cut: (
        forgetting.test_upper_bounds_notes_below_a_forgotten_writers_cut
    ),
    mutations.a_joined_writer_that_notes_below_its_floor_is_not_told: (
        writers.test_the_first_note_of_a_joined_writer_below_its_floor_is_late
    ),
    mutations.a_writer_is_forgotten_although_upper_is_below_what_its_earlier_lives_noted: (
        forgetting.test_a_writer_stays_until_upper_bounds_what_its_earlier_lives_noted
    ),
    mutations.min_writers_does_not_count_those_that_are_forgotten: (
        forgetting.test_what_min_writers_has_counted_stays_counted_also_after_a_restart
    ),
    mutations.there_is_no_rest_once_everyone_who_closed_is_forgotten: (
        forgetting.test_time_follows_the_clock_also_when_everyone_who_closed_is_forgotten
    ),
    mutations.what_forgotten_writers_noted_counts_in_the_same_keys_only: (
        partial(forgetting.test_a_forgotten_writers_position_counts_in_other_keys_when_it_comes_back, restarts=False)
    ),
    mutations.what_forgotten_writers_left_behind_is_not_stored: (
        forgetting.test_what_min_writers_has_counted_stays_counted_also_after_a_restart
    ),
    mutations.a_stream_ends_below_what_forgotten_writers_noted: (
        forgetting.test_a_stream_cannot_end_below_a_forgotten_writers_notes
    ),
}


@pytest.mark.parametrize("mutation", RARE, ids=lambda mutation: mutation.__name__)
def test_a_rule_left_out_spoils_its_story(mutation: Mutation, monkeypatch: Patch) -> None:
    RARE[mutation]()
    mutation(monkeypatch)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        RARE[mutation]()
