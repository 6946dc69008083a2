"""Each rule of the coalescer by itself. In the timelines `i` is idle, `e` an event, `d` done, `.` nothing."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from strandline.core.coalesce import KEYS_PER_COALESCER, Coalescer, Watermark
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


@pytest.mark.parametrize("value", [10, 9])
def test_an_equal_or_lower_value_is_refused_and_changes_nothing(value: int) -> None:
    merged = Coalescer(2)
    merged.observe(0, 10)
    merged.idle(0)
    with pytest.raises(WatermarkWentBack) as refusal:
        merged.observe(0, value)
    assert (refusal.value.input, refusal.value.value, refusal.value.previous) == (0, value, 10)
    assert merged.observe(1, 30) == [wm(30)]  # input 0 did not wake


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


def test_a_coalescer_survives_pickling_in_mid_course() -> None:
    merged = Coalescer(["a", "b", "c"], "jump")
    merged.observe("a", 10)
    merged.observe("b", 20)
    merged.idle("c")
    again = pickle.loads(pickle.dumps(merged))
    assert again.observe("a", 15) == merged.observe("a", 15) == [wm(15)]
    assert again.idle("a") == merged.idle("a") == [wm(20)]


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


def test_a_watermark_needs_a_key_that_can_be_one() -> None:
    with pytest.raises(InvalidName, match="key"):
        Watermark(5, 1)  # type: ignore[arg-type]  # what is refused is the wrong type
