"""The coalescer against a model that works all out from the whole history, and the laws that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from hypothesis import example, given
from hypothesis import strategies as st

from strandline.core.coalesce import Coalescer, Emission, Idle, Join, Watermark

KEYS = ("", "order", "ship")


@dataclass(frozen=True)
class Observe:
    input: int
    value: int
    key: str


@dataclass(frozen=True)
class Event:
    input: int


@dataclass(frozen=True)
class GoIdle:
    input: int


@dataclass(frozen=True)
class Done:
    input: int


Call = Observe | Event | GoIdle | Done


def tell(merged: Coalescer, call: Call) -> list[Emission]:
    match call:
        case Observe(input, value, key):
            return merged.observe(input, value, key)
        case Event(input):
            return merged.event(input)
        case GoIdle(input):
            return merged.idle(input)
        case Done(input):
            return merged.done(input)
        case _:
            assert_never(call)


def legal(calls: Sequence[Call]) -> list[Call]:
    """The calls that a coalescer takes, decided without one."""
    kept: list[Call] = []
    done: set[int] = set()
    last: dict[tuple[int, str], int] = {}
    for call in calls:
        if call.input in done:
            continue
        if isinstance(call, Observe):
            if call.value <= last.get((call.input, call.key), call.value - 1):
                continue
            last[call.input, call.key] = call.value
        if isinstance(call, Done):
            done.add(call.input)
        kept.append(call)
    return kept


@dataclass(frozen=True)
class Standing:
    """What a history amounts to, with nothing remembered but the history."""

    inputs: int
    history: Sequence[Call]

    def active(self) -> set[int]:
        last_word = {call.input: call for call in self.history}
        return {
            input for input in range(self.inputs) if not isinstance(last_word.get(input, Event(input)), (GoIdle, Done))
        }

    def done(self) -> set[int]:
        return {call.input for call in self.history if isinstance(call, Done)}

    def all_idle(self) -> bool:
        return not self.active() and len(self.done()) < self.inputs

    def times(self, key: str) -> dict[int, int]:
        observed = [call for call in self.history if isinstance(call, Observe)]
        return {call.input: call.value for call in observed if call.key == key}

    def claim(self, key: str, mode: str) -> int | None:
        times, active = self.times(key), self.active()
        if mode == "join":
            return min((times[input] for input in active & set(times)), default=None)
        if active:
            return min(times[input] for input in active) if active <= set(times) else None
        return max(times.values(), default=None) if mode == "jump" and self.all_idle() else None


def expected(inputs: int, mode: str, history: Sequence[Call]) -> list[list[Emission]]:
    """What each call of the history makes known: claims above all earlier ones, and idle where it begins."""
    out: list[list[Emission]] = []
    emitted: dict[str, int] = {}
    was_idle = False
    for length in range(1, len(history) + 1):
        key_state = Standing(inputs, history[:length])
        step: list[Emission] = []
        for key in sorted(KEYS):
            claim = key_state.claim(key, mode)
            if claim is not None and claim > emitted.get(key, claim - 1):
                emitted[key] = claim
                step.append(Watermark(key, claim))
        if key_state.all_idle() and not was_idle:
            step.append(Idle())
        was_idle = key_state.all_idle()
        out.append(step)
    return out


inputs_and_calls = st.integers(1, 4).flatmap(
    lambda inputs: st.tuples(
        st.just(inputs),
        st.lists(
            st.one_of(
                st.builds(Observe, st.integers(0, inputs - 1), st.integers(-20, 40), st.sampled_from(KEYS)),
                st.builds(Observe, st.integers(0, inputs - 1), st.integers(-20, 40), st.just("")),
                st.builds(Event, st.integers(0, inputs - 1)),
                st.builds(GoIdle, st.integers(0, inputs - 1)),
                st.builds(GoIdle, st.integers(0, inputs - 1)),
                st.builds(Done, st.integers(0, inputs - 1)),
            ),
            max_size=40,
        ),
    )
)
modes = st.sampled_from(["hold", "jump"])


@given(inputs_and_calls, modes)
def test_every_call_makes_known_what_the_whole_history_says(case: tuple[int, list[Call]], mode: str) -> None:
    inputs, history = case[0], legal(case[1])
    merged = Coalescer(inputs, mode)
    assert [tell(merged, call) for call in history] == expected(inputs, mode, history)
    key_state = Standing(inputs, history)
    assert merged.is_idle == key_state.all_idle()
    assert merged.is_done == (len(key_state.done()) == inputs)
    for key in KEYS:
        for input in range(inputs):
            assert merged.input_value(input, key) == key_state.times(key).get(input)


@given(inputs_and_calls)
@example((3, [Observe(0, 10, ""), Observe(1, 20, ""), Observe(0, 30, "")]))  # input 2 never has the key
@example((3, [Observe(0, 10, ""), Done(0), Observe(1, 20, ""), Observe(1, 30, "")]))  # 1 alone has it
@example((3, [Observe(0, 9, ""), Observe(1, 5, ""), Observe(0, 10, ""), GoIdle(0), GoIdle(1), Event(0)]))
def test_a_join_forwards_each_key_over_the_active_inputs_that_have_it(case: tuple[int, list[Call]]) -> None:
    inputs, history = max(2, case[0]), legal(case[1])
    join = Join(*range(inputs))
    assert [tell(join, call) for call in history] == expected(inputs, "join", history)
    state = Standing(inputs, history)
    for key in KEYS:
        waits_for = [(time, input) for input, time in state.times(key).items() if input in state.active()]
        assert join.held_by(key) == (min(waits_for)[1] if waits_for else None)


@given(inputs_and_calls, modes)
def test_the_holder_of_a_key_is_its_slowest_active_input(case: tuple[int, list[Call]], mode: str) -> None:
    inputs, history = case[0], legal(case[1])
    merged = Coalescer(inputs, mode)
    for call in history:
        tell(merged, call)
    key_state = Standing(inputs, history)
    for key in KEYS:
        holder, times = merged.held_by(key), key_state.times(key)
        if not key_state.active():
            assert holder is None
            continue
        assert holder in key_state.active()
        assert isinstance(holder, int)
        assert times.get(holder, -100) == min(times.get(input, -100) for input in key_state.active())
