"""Notes of several streams are divided among owners, and their results are put together again."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.http.forwarding.batches import divided, failed_as_one, least, together

OWNERS = st.lists(st.integers(0, 4), max_size=30)


@given(OWNERS)
def test_every_note_goes_to_its_owner_once(owners: list[int]) -> None:
    parts = divided(owners)
    assert sorted(place for places in parts.values() for place in places) == list(range(len(owners)))
    assert all(owners[place] == owner for owner, places in parts.items() for place in places)


@given(OWNERS)
def test_the_notes_of_an_owner_keep_their_order(owners: list[int]) -> None:
    assert all(places == sorted(places) for places in divided(owners).values())


@given(OWNERS, st.randoms())
def test_results_stand_where_their_notes_stood_in_any_order(owners: list[int], random: object) -> None:
    notes = [(place, owner) for place, owner in enumerate(owners)]
    parts = [(places, [notes[place] for place in places]) for places in divided(owners).values()]
    random.shuffle(parts)  # type: ignore[attr-defined]  # Hypothesis' own random
    assert together(len(notes), parts) == notes


@given(OWNERS, st.data())
def test_of_repeated_attempts_the_last_result_counts(owners: list[int], data: st.DataObject) -> None:
    first = (range(len(owners)), ["not taken"] * len(owners))
    again = sorted(data.draw(st.sets(st.sampled_from(range(len(owners)))))) if owners else []
    results = together(len(owners), [first, (again, ["taken"] * len(again))])
    assert [place for place, result in enumerate(results) if result == "taken"] == again


@given(OWNERS.filter(bool))
def test_a_missing_result_is_noticed(owners: list[int]) -> None:
    parts = [(places, [None] * len(places)) for places in divided(owners).values()]
    with pytest.raises(ValueError, match="results"):
        together(len(owners), parts[1:])


STATUSES = st.lists(st.sampled_from([None, 403, 409, 503, 504]), max_size=6)


@given(STATUSES)
def test_the_whole_answer_is_503_only_if_nothing_was_done(statuses: list[int | None]) -> None:
    place = failed_as_one(statuses)
    if place is not None and statuses[place] == 503:
        assert set(statuses) == {503}


@given(STATUSES)
def test_an_answer_to_any_note_keeps_the_list_of_results(statuses: list[int | None]) -> None:
    if not set(statuses) <= {503, 504}:
        assert failed_as_one(statuses) is None


@given(st.lists(st.one_of(st.none(), st.integers(0, 10)), max_size=5), st.integers(0, 10))
def test_the_clock_of_a_batch_is_its_owners_least(times: list[int | None], own: int) -> None:
    told = [time for time in times if time is not None]
    assert least(times, own) == (min(told) if told else own)
