"""Notes that wait are kept within a bound; what goes makes cuts looser, and never wrong."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from writer_client.notes import WAITING_NOTES_PER_WRITER, Pending, WaitingNotes, merged

STEPS = st.lists(
    st.tuples(st.sets(st.sampled_from(["", "a"]), min_size=1), st.integers(0, 3), st.integers(0, 2)), max_size=300
)


def story(steps: list[tuple[set[str], int, int]]) -> list[Pending]:
    """Notes as an honest writer makes them: times and offsets never fall."""
    time = offset = 0
    notes = []
    for keys, later, more in steps:
        time, offset = time + later, offset + more
        notes.append(Pending(dict.fromkeys(keys, time), {"0": offset}, dict.fromkeys(keys, time + 1)))
    return notes


def contribution(notes: list[Pending], key: str, time: int) -> int | None:
    """Where a mark at this time would cut: the earliest position noted with a time that late."""
    return next((note.position["0"] for note in notes if note.times.get(key, -1) >= time), None)


@settings(max_examples=60)
@given(steps=STEPS, taken_after=st.integers(0, 300))
def test_kept_notes_claim_no_more_and_hold_each_keys_newest(
    steps: list[tuple[set[str], int, int]], taken_after: int
) -> None:
    noted, waiting, under_way = story(steps), WaitingNotes(), []
    for number, note in enumerate(noted):
        if number == taken_after:
            under_way = waiting.take()
        waiting.add(note)
    waiting.put_back(under_way)
    kept = list(waiting)
    assert len(kept) <= WAITING_NOTES_PER_WRITER
    for key in ("", "a"):
        times = [note.times[key] for note in noted if key in note.times]
        assert max((note.times[key] for note in kept if key in note.times), default=None) == max(times, default=None)
        for time in set(times):
            tight, loose = contribution(noted, key, time), contribution(kept, key, time)
            assert tight is not None and loose is not None
            assert tight <= loose <= noted[-1].position["0"]
    assert [note.position["0"] for note in kept] == sorted(note.position["0"] for note in kept)


@given(steps=STEPS)
def test_few_notes_at_different_positions_are_all_kept(steps: list[tuple[set[str], int, int]]) -> None:
    noted = story([(keys, later, 1) for keys, later, _ in steps[:WAITING_NOTES_PER_WRITER]])
    waiting = WaitingNotes()
    for note in noted:
        waiting.add(note)
    assert list(waiting) == noted


def test_a_heartbeat_takes_the_place_of_the_one_before() -> None:
    waiting = WaitingNotes()
    for time in (1, 2, 3):
        waiting.add(Pending({"": time}, {"0": 5}))
    assert list(waiting) == [Pending({"": 3}, {"0": 5})]


def test_merged_notes_know_newest_only_if_both_did() -> None:
    earlier = Pending({"": 1}, {"0": 5, "1": 2}, {"": 9})
    assert merged(earlier, Pending({"": 2}, {"0": 6}, {"": 7})).newest == {"": 9}
    assert merged(earlier, Pending({"": 2}, {"0": 6})).newest == {}
    assert merged(earlier, Pending({"": 2}, {"0": 6, "1": 2}, {"": 10})).newest == {"": 10}
