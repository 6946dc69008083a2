"""What marks take from the gathered contributions is what each writer's own history says, one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.core.contributions import SPAN_POSITIONS, Contributions, Given
from strandline.core.cut import NOTHING, Cut, cut_of_rows, join_all
from strandline.core.segment import SegmentGraph
from strandline.core.shared_segments import SharedSegments
from strandline.core.writer import KeyState, Phase, StreamWriter

NOTES = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 3), st.integers(0, 3)), max_size=80)
MARK = st.integers(0, 30)


@given(st.lists(st.tuples(NOTES, MARK), max_size=4), st.sampled_from([1, 2, 3, 5]))
def test_a_mark_takes_what_every_writer_contributes_to_it(
    turns: list[tuple[list[tuple[str, int, int]], int]], full: int
) -> None:
    writers = {name: StreamWriter(name, 0, 0, key_states={"": KeyState(Phase.NOTED)}) for name in "abcd"}
    gathered = Contributions(lambda name: writers[name].given(writers[name].key_states[""]), full)
    cut, last_time = NOTHING, -1
    for notes, rise in turns:
        for name, later, more in notes:
            writer, key_state = writers[name], writers[name].key_states[""]
            time = max(last_time, key_state.time or 0) + later
            noted = Cut({name: writer.position.offset(name) + more, "all": time})
            above = key_state.kept_above(last_time)
            writer.move(noted, noted, {})
            key_state.note(time, writer.position, None, last_time, 64)
            gathered.add(name, above, time, noted)
        last_time += 1 + rise
        cut = join_all([cut, *(cut_of_rows(each.rows) for each in gathered.take(last_time))])
        contributed = [writer.contribution(writer.key_states[""], last_time) for writer in writers.values()]
        assert cut == join_all([cut, *(each.cut for each in contributed)])
        assert cut == join_all(each.cut for each in contributed)


def test_a_span_of_one_time_is_not_divided_however_large_it_is() -> None:
    listed: list[str] = []

    def given_by(name: str) -> list[Given]:
        listed.append(name)
        return [Given(5, 6, NOTHING)]

    gathered = Contributions(given_by)
    for number in range(3 * SPAN_POSITIONS):
        gathered.add(f"w{number}", 5, 6, NOTHING)
    for above in (4, 7, 6, 5):
        gathered.add("w0", above, 8, NOTHING)
    assert listed == []
    assert [sum(len(each.names) for each in gathered.below(time)) for time in (5, 6, 9)] == [
        1,
        1 + 3 * SPAN_POSITIONS,
        2 + 3 * SPAN_POSITIONS,  # 6 and 7 are in one span
    ]


def test_requests_of_many_notes_that_are_taken_in_turns_divide_no_span() -> None:
    listed: list[str] = []

    def given_by(name: str) -> list[Given]:
        listed.append(name)
        return []

    gathered = Contributions(given_by)
    for eight in range(0, 80, 8):
        for begin, end in ((0, 64), (64, 100)):  # a portion of each of eight requests, and the rest of each
            for above in (100 * each + note for each in range(eight, eight + 8) for note in range(begin, end)):
                gathered.add(f"w{above}", above, above + 1, NOTHING)
    assert listed == []
    assert len(gathered.below(8_000)) > 10


def test_a_writer_alone_in_its_segment_is_not_overtaken_where_others_share_another() -> None:
    sharing = SharedSegments(SegmentGraph.equal_shares(2, 0))
    positions = {"a": Cut({"0": 1}), "b": Cut({"0": 2}), "c": Cut({"1": 1})}
    for name, position in positions.items():
        sharing.enter(StreamWriter(name, 0, 0, position=position), NOTHING)
    found = {name: sharing.can_be_overtaken(position) for name, position in positions.items()}
    assert found == {"a": True, "b": True, "c": False}
