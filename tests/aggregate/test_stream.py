"""A stream beyond its writers' notes: calls that change nothing, segments that never were, going on from a store."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strandline.core.changes import Changes
from strandline.core.cut import NOTHING, Cut
from strandline.core.note import Note
from strandline.core.writer import KeptNote, KeyState, Phase
from tests.aggregate.book import Book


def test_a_call_that_changes_nothing_leaves_nothing_to_be_stored() -> None:
    book = Book()
    book.note("a", 10)
    book.note("gone", 10)
    book.call("close", "gone", None)
    book.note("aside", 10)
    book.call("exclude", "aside")
    for what, arguments in (
        ("idle", ("gone", None)),
        ("close", ("gone", None)),
        ("exclude", ("gone",)),
        ("exclude", ("aside",)),
        ("include", ("a",)),
        ("configure", ({"mark_interval_ms": 0},)),
    ):
        assert getattr(book.stream, what)(*arguments, book.now) == []
        assert not book.stream.drain(), what


# -- segments --------------------------------------------------------------------------------------------------------


def test_a_segment_that_a_note_names_is_stored_once() -> None:
    stream = Book(open=True).stream
    said = Note(writer="a", times={"": 1}, position={"x": 3, "y": 0})
    stream.note(said, 1_000)
    assert list(stream.drain().segments) == ["x", "y"]
    stream.note(said, 1_000)
    assert stream.drain().segments == {}
    assert [(each.id, each.created_at) for each in stream.graph] == [("x", 1_000), ("y", 1_000)]


def test_a_segment_missing_from_the_log_is_removed_wherever_noted() -> None:
    book = Book(open=True, min_writers=2)
    book.note("a", 10, {"x": 1, "y": 2})
    book.note("b", 10)
    book.note("a", 30, {"x": 5, "y": 6})
    book.note("a", 30, {"x": 5}, key="unmarked")
    book.stream.truncate({"x": 1, "y": 1}, book.now)
    book.stream.drain()

    book.stream.drop_segment("x", book.now)

    changes = book.stream.drain()
    assert (changes.dropped, changes.stream) == ({"x"}, True)
    assert [segment.id for segment in book.stream.graph] == ["y"]
    assert book.stream.head == Cut({"y": 1})
    assert book.stream.last_marks[""].cut == Cut({"y": 2})
    book.note("b", 20)
    assert book.cut() == {"y": 6}
    book.note("a", 40, {"x": 1})  # it came to be after all: from its beginning, which is no step back
    book.note("b", 40)
    assert book.cut() == {"x": 1, "y": 6}


# -- the store -------------------------------------------------------------------------------------------------------


STEPS = st.lists(
    st.sampled_from(["note", "note", "again", "note", "mark", "drain", "begin again", "forget"]), max_size=60
)


@given(STEPS, st.integers(1, 6))
def test_what_a_history_tells_to_the_store_makes_the_same_history_there(steps: list[str], bound: int) -> None:
    key_state = KeyState(Phase.NOTED)
    stored: list[KeptNote] = []
    time = last_time = 0
    for step in [*steps, "drain"]:
        match step:
            case "note":
                time += 1
                key_state.note(time, Cut({"0": time, "1": 1}), None, last_time, bound)
                assert len(key_state.history) <= bound
            case "again" if key_state.history:
                before = list(key_state.history)
                key_state.note(time, Cut({"0": 10**9}), None, last_time, bound)
                assert key_state.history == before  # the first is the tighter one
            case "mark":
                last_time = time
                key_state.drop_passed(time)
            case "begin again":
                key_state.start_over()
            case "forget":
                key_state.forget_segment("1")
            case "drain":
                whole, came = key_state.drain()
                stored = [*([] if whole else stored), *came]
                stored = [each for each in stored if each.time > last_time]  # who has the mark can forget it too
                assert stored == [each for each in key_state.history if each.time > last_time]
                assert key_state.drain() == (False, [])


def test_a_cut_shows_itself_in_order() -> None:
    assert (repr(Cut({"b": 2, "a": 1})), repr(NOTHING)) == ("Cut({a: 1, b: 2})", "Cut({})")


def test_writers_timed_out_by_one_mark_are_listed_by_name() -> None:
    book, names = Book(writer_timeout_ms=0, min_writers=12), [f"w{number:02}" for number in range(12)]
    for name in reversed(names):
        book.stream.note(Note(writer=name, times={"": 10}, position={}), book.now)
    told = book.stream.drain().states
    assert [each.writer for each in told if each.after == "timed_out"] == names


def test_changes_and_those_after_them_are_all_of_them() -> None:
    book, drained = Book(open=True), []
    for name in ("x", "y"):
        book.stream.register(name, None, book.now)
        book.stream.note(Note(writer=name, times={"": 10}, position={name: 1}), book.now)
        drained.append(book.stream.drain())
        drained[-1].dropped.add(f"not {name}")
    before, after = drained
    both = before.then(after)
    assert (both.stream, both.writers, both.dropped) == (True, {"x", "y"}, {"not x", "not y"})
    assert list(both.segments) == ["x", "y"]
    assert both.marks == before.marks + after.marks != []
    assert [each.writer for each in both.states] == [*("x" for _ in before.states), *("y" for _ in after.states)]
    assert not Changes().then(Changes()) and Changes(stream=True).then(Changes()).stream
