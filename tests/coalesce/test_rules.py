"""Each rule of the coalescer by itself. In the timelines `i` is idle, `e` an event, `d` done, `.` nothing."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from strandline.core.coalesce import KEYS_PER_COALESCER, Coalescer, Idle, Watermark
from strandline.errors import (
    InputDone,
    InvalidConfig,
    InvalidName,
    StrandlineError,
    TooMany,
    UnknownInput,
    WatermarkWentBack,
)


def wm(value: int, key: str = "") -> Watermark:
    return Watermark(key, value)


def test_an_active_input_without_a_time_blocks() -> None:
    merged = Coalescer(3)
    merged.observe(0, 10)
    assert merged.observe(1, 20) == []
    assert merged.held_by() == 2
    assert merged.observe(2, 15) == [wm(10)]
    assert merged.held_by() == 0


def test_an_active_input_that_had_only_events_blocks() -> None:
    merged = Coalescer(2)
    assert merged.event(0) == []
    assert merged.observe(1, 20) == []


@pytest.mark.parametrize("value", [10, 9])
def test_an_equal_or_lower_value_is_refused_and_changes_nothing(value: int) -> None:
    merged = Coalescer(2)
    merged.observe(0, 10)
    merged.idle(0)
    with pytest.raises(WatermarkWentBack) as refusal:
        merged.observe(0, value)
    assert (refusal.value.input, refusal.value.value, refusal.value.previous) == (0, value, 10)
    assert merged.observe(1, 30) == [wm(30)]  # input 0 did not wake


def test_values_are_compared_with_those_of_the_same_input_and_key_only() -> None:
    merged = Coalescer(2)
    merged.observe(0, 100, "order")
    merged.observe(0, 1, "ship")
    assert merged.observe(1, 1, "order") == [wm(1, "order")]


def test_idleness_does_not_let_an_input_go_back() -> None:
    merged = Coalescer(2)
    merged.observe(0, 10)
    merged.idle(0)
    merged.event(0)
    with pytest.raises(WatermarkWentBack):
        merged.observe(0, 10)


def test_a_waking_input_with_an_old_time_holds_the_watermark() -> None:
    #   input 0   10  i           e       25
    #   input 1           20  30      40
    #   out       .   .   20  30  .   .   .     and 35 of input 0 gives 35
    merged = Coalescer(2)
    merged.observe(0, 10)
    merged.idle(0)
    merged.observe(1, 20)
    assert merged.observe(1, 30) == [wm(30)]
    assert merged.event(0) == []
    assert merged.observe(1, 40) == []
    assert merged.observe(0, 25) == []
    assert merged.held_by() == 0
    assert merged.observe(0, 35) == [wm(35)]


def test_all_idle_with_hold_says_idle_and_keeps_the_watermark() -> None:
    #   input 0   10          i
    #   input 1       20  i
    #   out       .   10  .   Idle
    merged = Coalescer(2)
    merged.observe(0, 10)
    merged.observe(1, 20)
    assert merged.idle(1) == []
    assert merged.idle(0) == [Idle()]
    assert merged.value() == 10
    assert merged.is_idle
    assert merged.held_by() is None


def test_jump_with_all_idle_goes_to_each_keys_greatest_time() -> None:
    merged = Coalescer(2, "jump")
    merged.observe(0, 10, "ship")
    merged.observe(1, 20, "ship")
    merged.observe(1, 30, "order")
    merged.observe(0, 40, "order")
    assert merged.idle(1) == [wm(40, "order")]
    assert merged.idle(0) == [wm(20, "ship"), Idle()]


def test_a_jump_emits_a_key_that_only_one_input_knew() -> None:
    merged = Coalescer(2, "jump")
    merged.observe(0, 42)
    assert merged.idle(0) == []
    assert merged.idle(1) == [wm(42), Idle()]


def test_a_jump_that_is_no_news_is_left_out() -> None:
    merged = Coalescer(2, "jump")
    merged.observe(0, 10)
    merged.observe(1, 20)
    assert merged.idle(0) == [wm(20)]
    assert merged.idle(1) == [Idle()]


def test_a_jump_takes_in_the_time_of_a_done_input() -> None:
    merged = Coalescer(2, "jump")
    merged.observe(0, 10)
    merged.observe(1, 50)
    merged.done(1)
    assert merged.idle(0) == [wm(50), Idle()]


def test_a_repeated_idle_emits_nothing() -> None:
    merged = Coalescer(2, "jump")
    merged.observe(0, 10)
    merged.idle(0)
    assert merged.idle(0) == []
    merged.idle(1)
    assert merged.idle(0) == merged.idle(1) == []


def test_all_idle_is_said_again_after_a_waking() -> None:
    merged = Coalescer(2)
    merged.idle(0)
    assert merged.idle(1) == [Idle()]
    assert merged.event(0) == []
    assert not merged.is_idle
    assert merged.idle(0) == [Idle()]


def test_inputs_that_are_idle_one_after_the_other_are_not_all_idle() -> None:
    merged = Coalescer(2)
    merged.idle(0)
    merged.event(0)
    assert merged.idle(1) == []


def test_the_first_to_wake_after_all_were_idle_is_all_that_counts() -> None:
    #   input 0   order 10  ship 5                      i
    #   input 1                     order 20  ship 15 i    e
    #   out       .         .       order 10  ship 5  . Idle  order 20, ship 15
    merged = Coalescer(2)
    merged.observe(0, 10, "order")
    merged.observe(0, 5, "ship")
    merged.observe(1, 20, "order")
    merged.observe(1, 15, "ship")
    merged.idle(1)
    assert merged.idle(0) == [Idle()]
    assert merged.event(1) == [wm(20, "order"), wm(15, "ship")]


def test_waking_by_a_watermark_of_one_key_raises_the_other_keys_too() -> None:
    merged = Coalescer(2)
    merged.observe(0, 5, "ship")
    merged.observe(1, 15, "ship")
    merged.idle(1)
    merged.idle(0)
    assert merged.observe(1, 30, "order") == [wm(30, "order"), wm(15, "ship")]


def test_a_done_input_is_left_out_and_the_watermark_rises_at_once() -> None:
    #   input 0   10      d
    #   input 1       20      30
    #   out       .   10  20  30
    merged = Coalescer(2)
    merged.observe(0, 10)
    merged.observe(1, 20)
    assert merged.done(0) == [wm(20)]
    assert merged.observe(1, 30) == [wm(30)]


@pytest.mark.parametrize(("mode", "out"), [("hold", [Idle()]), ("jump", [wm(50), Idle()])])
def test_all_are_idle_when_the_last_active_input_is_done(mode: str, out: list[object]) -> None:
    merged = Coalescer(2, mode)
    merged.observe(0, 50)
    merged.idle(0)
    merged.observe(1, 10)
    assert merged.done(1) == out
    assert merged.is_idle
    assert not merged.is_done


def test_an_idle_input_that_is_done_says_nothing_new() -> None:
    merged = Coalescer(3, "jump")
    merged.observe(0, 10)
    merged.idle(0)
    assert merged.done(0) == []
    merged.idle(1)
    assert merged.idle(2) == [wm(10), Idle()]
    assert merged.done(1) == []
    assert merged.is_idle


@pytest.mark.parametrize("mode", ["hold", "jump"])
def test_when_all_are_done_nothing_more_is_emitted(mode: str) -> None:
    merged = Coalescer(2, mode)
    merged.observe(0, 10)
    merged.observe(1, 20)
    assert merged.done(1) == []
    assert merged.done(0) == []
    assert merged.is_done
    assert not merged.is_idle
    assert merged.value() == 10


@pytest.mark.parametrize("mode", ["hold", "jump"])
def test_all_are_done_also_when_some_were_idle_before(mode: str) -> None:
    merged = Coalescer(2, mode)
    merged.observe(0, 10)
    merged.idle(0)
    merged.done(0)
    assert merged.done(1) == []
    assert merged.is_done
    assert not merged.is_idle


def test_a_done_input_that_never_gave_a_time_does_not_block() -> None:
    merged = Coalescer(2)
    merged.observe(0, 10)
    assert merged.done(1) == [wm(10)]


CALLS_AFTER_DONE: list[tuple[str, Callable[[Coalescer], object]]] = [
    ("observe", lambda merged: merged.observe("a", 99)),
    ("event", lambda merged: merged.event("a")),
    ("idle", lambda merged: merged.idle("a")),
    ("done", lambda merged: merged.done("a")),
]


@pytest.mark.parametrize(("name", "call"), CALLS_AFTER_DONE)
def test_anything_after_done_is_refused(name: str, call: Callable[[Coalescer], object]) -> None:
    merged = Coalescer(["a", "b"])
    merged.done("a")
    with pytest.raises(InputDone) as refusal:
        call(merged)
    assert (refusal.value.input, refusal.value.call) == ("a", name)


def test_an_unknown_input_is_named_with_those_that_are_known() -> None:
    with pytest.raises(UnknownInput, match=r"'c'.*'a', 'b'") as refusal:
        Coalescer(["a", "b"]).event("c")
    assert isinstance(refusal.value, StrandlineError)
    assert str(pickle.loads(pickle.dumps(refusal.value))) == str(refusal.value)


def test_inputs_may_have_any_hashable_names() -> None:
    merged = Coalescer([("orders", 0), "ships"])
    merged.observe(("orders", 0), 10)
    assert merged.observe("ships", 7) == [wm(7)]


@pytest.mark.parametrize("inputs", [0, -1, True, 2.0, "ab", [], ["a", "a"], None])
def test_inputs_that_make_no_sense_are_refused(inputs: object) -> None:
    with pytest.raises(InvalidConfig, match="inputs cannot be"):
        Coalescer(inputs)  # type: ignore[arg-type]  # what is refused is the wrong type too


@pytest.mark.parametrize("mode", ["", "Hold", "leap", None])
def test_a_mode_that_is_neither_hold_nor_jump_is_refused(mode: object) -> None:
    with pytest.raises(InvalidConfig, match="on_all_idle"):
        Coalescer(2, mode)  # type: ignore[arg-type]  # what is refused is the wrong type too


@pytest.mark.parametrize("value", [1.0, "1", None, True, 2**53, -(2**53)])
def test_a_value_that_is_no_time_is_refused_and_wakes_no_one(value: object) -> None:
    merged = Coalescer(2)
    merged.idle(0)
    with pytest.raises(InvalidConfig, match="value cannot be"):
        merged.observe(0, value)  # type: ignore[arg-type]  # what is refused is the wrong type too
    assert merged.observe(1, 5) == [wm(5)]
    assert merged.keys == ("",)


@pytest.mark.parametrize("key", [0, "with a blank"])
def test_a_key_that_is_no_name_is_refused(key: Any) -> None:
    with pytest.raises(InvalidName, match=f"key.*{key!r}"):
        Coalescer(1).observe(0, 5, key)


def test_times_may_be_negative() -> None:
    merged = Coalescer(1)
    assert merged.observe(0, -(2**53) + 1) == [wm(-(2**53) + 1)]
    assert merged.observe(0, -5) == [wm(-5)]


def test_a_coalescer_survives_pickling_in_mid_course() -> None:
    merged = Coalescer(["a", "b", "c"], "jump")
    merged.observe("a", 10)
    merged.observe("b", 20)
    merged.idle("c")
    again = pickle.loads(pickle.dumps(merged))
    assert again.observe("a", 15) == merged.observe("a", 15) == [wm(15)]
    assert again.idle("a") == merged.idle("a") == [wm(20)]


def test_the_values_are_values() -> None:
    assert Watermark("order", 5) == Watermark("order", 5) != Watermark("ship", 5)
    assert Idle() == Idle()
    assert len({Watermark("", 5), Watermark("", 5), Idle(), Idle()}) == 2
    assert pickle.loads(pickle.dumps([Watermark("", 5), Idle()])) == [Watermark("", 5), Idle()]
    with pytest.raises(InvalidConfig):
        Watermark("", 2**53)


def test_there_are_so_many_keys_and_no_more() -> None:
    merged = Coalescer(2)
    for number in range(KEYS_PER_COALESCER):
        merged.observe(0, 1, f"{number:05}")
    with pytest.raises(TooMany, match=f"^{KEYS_PER_COALESCER + 1} time keys.*{KEYS_PER_COALESCER}$"):
        merged.observe(0, 1, "one-more")
    assert len(merged.keys) == KEYS_PER_COALESCER
    assert merged.observe(1, 1, "00000") == [wm(1, "00000")]


def test_an_input_that_runs_ahead_takes_constant_room() -> None:
    merged = Coalescer(2)
    assert merged.value("never") is None
    merged.observe(0, 1)
    for value in range(2, 500):
        merged.observe(1, value)
    assert len(merged._keys[""]._queue) == 2
    assert merged.observe(0, 1_000) == [wm(499)]


def test_a_key_that_still_waits_keeps_no_other_from_rising() -> None:
    merged = Coalescer(3)
    merged.observe(0, 5, "a")
    merged.observe(0, 7, "b")
    merged.observe(1, 6, "b")
    assert merged.idle(2) == [wm(6, "b")]


def test_a_watermark_needs_a_key_that_can_be_one() -> None:
    with pytest.raises(InvalidName, match="key"):
        Watermark(5, 1)  # type: ignore[arg-type]  # what is refused is the wrong type
