"""The coalescer against a model that works all out from the whole history, and the laws that follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from hypothesis import example, given
from hypothesis import strategies as st

from strandline.core.coalesce import Coalescer, Emission, Idle, Join, Watermark
from strandline.errors import InputDone, WatermarkWentBack

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
def test_emissions_of_a_key_strictly_rise(case: tuple[int, list[Call]], mode: str) -> None:
    inputs, history = case[0], legal(case[1])
    merged = Coalescer(inputs, mode)
    last: dict[str, int] = {}
    for call in history:
        for emission in tell(merged, call):
            if isinstance(emission, Watermark):
                assert emission.value > last.get(emission.key, emission.value - 1)
                last[emission.key] = emission.value
    assert {key: merged.value(key) for key in merged.keys if merged.value(key) is not None} == last


@given(inputs_and_calls)
def test_with_hold_no_watermark_exceeds_an_active_inputs_time(case: tuple[int, list[Call]]) -> None:
    inputs, history = case[0], legal(case[1])
    merged = Coalescer(inputs)
    for length, call in enumerate(history, start=1):
        key_state = Standing(inputs, history[:length])
        for emission in tell(merged, call):
            if isinstance(emission, Watermark):
                own = [merged.input_value(input, emission.key) for input in key_state.active()]
                assert own
                assert all(value is not None and value >= emission.value for value in own)


@given(inputs_and_calls, modes)
def test_a_refused_call_changes_nothing(case: tuple[int, list[Call]], mode: str) -> None:
    inputs, calls = case
    told_all, told_legal = Coalescer(inputs, mode), Coalescer(inputs, mode)
    accepted: list[Call] = []
    for call in calls:
        try:
            out = tell(told_all, call)
        except (WatermarkWentBack, InputDone):
            continue
        accepted.append(call)
        assert out == tell(told_legal, call)
    assert accepted == legal(calls)


@given(inputs_and_calls, modes, st.sampled_from(KEYS))
def test_a_key_is_coalesced_as_if_the_others_were_only_events(
    case: tuple[int, list[Call]], mode: str, key: str
) -> None:
    inputs, history = case[0], legal(case[1])
    merged, alone = Coalescer(inputs, mode), Coalescer(inputs, mode)
    for call in history:
        other = isinstance(call, Observe) and call.key != key
        ours = [out for out in tell(merged, call) if isinstance(out, Idle) or out.key == key]
        assert ours == tell(alone, Event(call.input) if other else call)


@given(inputs_and_calls, modes)
def test_one_input_alone_is_forwarded_as_it_is(case: tuple[int, list[Call]], mode: str) -> None:
    merged = Coalescer(1, mode)
    asleep = False
    for call in legal([type(call)(**{**vars(call), "input": 0}) for call in case[1]]):
        out = tell(merged, call)
        match call:
            case Observe(_, value, key):
                assert out == [Watermark(key, value)]
            case GoIdle():
                assert out == ([] if asleep else [Idle()])
            case Event() | Done():
                assert out == []
            case _:
                assert_never(call)
        asleep = isinstance(call, GoIdle)


rising = st.lists(st.integers(-50, 50), unique=True, min_size=1, max_size=6).map(sorted)


@given(st.lists(rising, min_size=1, max_size=5), st.data())
def test_the_order_of_inputs_does_not_change_the_final_watermark(spoken: list[list[int]], data: st.DataObject) -> None:
    turns = [input for input, values in enumerate(spoken) for _ in values]
    ends = []
    for _ in range(2):
        left = [list(values) for values in spoken]
        merged = Coalescer(len(spoken))
        for input in data.draw(st.permutations(turns)):
            merged.observe(input, left[input].pop(0))
        ends.append(merged.value())
    assert ends == [min(values[-1] for values in spoken)] * 2


@given(st.lists(rising, min_size=1, max_size=5), st.data())
def test_with_jump_the_order_in_which_inputs_fall_asleep_does_not_matter(
    spoken: list[list[int]], data: st.DataObject
) -> None:
    merged = Coalescer(len(spoken), "jump")
    for input, values in enumerate(spoken):
        for value in values:
            merged.observe(input, value)
    *early, last = data.draw(st.permutations(range(len(spoken))))
    assert all(Idle() not in merged.idle(input) for input in early)
    assert merged.idle(last)[-1] == Idle()
    assert merged.value() == max(values[-1] for values in spoken)


def test_with_hold_the_order_in_which_inputs_fall_asleep_does_matter() -> None:
    ends = []
    for order in [(0, 1), (1, 0)]:
        merged = Coalescer(2)
        merged.observe(0, 1)
        merged.observe(1, 2)
        for input in order:
            merged.idle(input)
        ends.append(merged.value())
    assert ends == [2, 1]  # what holds is what an awake input had vouched for


@given(st.lists(rising, min_size=2, max_size=6), st.data())
def test_a_tree_of_coalescers_gives_what_one_flat_coalescer_gives(spoken: list[list[int]], data: st.DataObject) -> None:
    split = data.draw(st.integers(1, len(spoken) - 1))
    flat = Coalescer(len(spoken))
    leaves = [Coalescer(range(split)), Coalescer(range(split, len(spoken)))]
    root = Coalescer(2)
    left = [list(values) for values in spoken]
    for input in data.draw(st.permutations([input for input, values in enumerate(spoken) for _ in values])):
        value = left[input].pop(0)
        branch = int(input >= split)
        through: list[Emission] = []
        for emission in leaves[branch].observe(input, value):
            assert isinstance(emission, Watermark)
            through += root.observe(branch, emission.value)
        assert through == flat.observe(input, value)


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
