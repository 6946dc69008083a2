"""What is sent again, when, and what is raised in the end. No clock runs here: the tests say what the time is.

A timeline reads like "send@0 lost pause:37 send@137 200": what was done, at which millisecond, and what came of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strandline.client.backoff import backoff_ms
from strandline.client.calls import Call, Request, Response, ask
from strandline.client.retry import AnswerLost, NotReached, Outcome, Patience, Pause, Send, StepResult, persist
from strandline.errors import (
    ControllerAway,
    InternalFailure,
    InvalidConfig,
    OutcomeUnknown,
    Overloaded,
    StoreUnavailable,
    TimeWentBack,
    UnexpectedAnswer,
)
from strandline.wire.problems import to_problem

PATIENCE = Patience(deadline_ms=1000, attempt_ms=300, first_pause_ms=50, pause_bound_ms=200)
OK = Response(200, {}, b'"done"')
AWAY = NotReached("refused")
LOST = AnswerLost("cut")


def problem(error: Any, headers: Mapping[str, str] | None = None) -> Response:
    body = to_problem(error)
    return Response(body["status"], headers if headers is not None else {}, json.dumps(body).encode())


OVERLOADED = problem(Overloaded(waiting=9, limit=8))
PROXY_503 = Response(503, {}, b"<html>try later</html>")
GATEWAY = Response(502, {}, b"")


def call(*, repeatable: bool = True, wait_ms: int = 0) -> Call[object]:
    return ask("POST", "/v1/x?y=1", json.loads, {}, repeatable=repeatable, wait_ms=wait_ms)


class Story:
    """Plays a call against outcomes, each after `took_ms`; what was done stands in `timeline`."""

    def __init__(
        self, outcomes: Iterable[Outcome], *, took_ms: float = 10, random: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.timeline: list[str] = []
        self.sent: list[Send] = []
        self.pauses: list[float] = []
        self.now_ms = 5000.0
        self._outcomes = iter(outcomes)
        self._took_ms = took_ms
        self._random = random

    def play(self, call: Call[object], patience: Patience = PATIENCE) -> object:
        steps = persist(call, patience=patience, random=self._random, controller="http://there", now_ms=self.now_ms)
        try:
            step = next(steps)
            while True:
                step = steps.send(self._take(step))
        except StopIteration as stop:
            return stop.value

    def _take(self, step: Send | Pause) -> StepResult:
        if isinstance(step, Pause):
            self.timeline.append(f"pause:{step.pause_ms:.0f}")
            self.pauses.append(step.pause_ms)
            self.now_ms += step.pause_ms
            return StepResult(None, self.now_ms)
        outcome = next(self._outcomes)
        word = {AWAY: "away", LOST: "lost"}.get(outcome) if not isinstance(outcome, Response) else outcome.status
        self.timeline.append(f"send@{self.now_ms - 5000:.0f} {word}")
        self.sent.append(step)
        self.now_ms += self._took_ms
        return StepResult(outcome, self.now_ms)

    def __str__(self) -> str:
        return " ".join(self.timeline)


def asked_to_wait(retry_after: str) -> Response:
    return problem(Overloaded(waiting=9, limit=8), {"retry-after": retry_after})


ONCE = {"repeatable": False}
LONG = Patience(deadline_ms=10_000)
UNKNOWN = (("lost", LOST), ("502", GATEWAY), ("503", PROXY_503), ("504", Response(504, {}, b"")))


@pytest.mark.parametrize(
    ("outcomes", "made", "patience", "timeline", "end"),
    [
        (
            [AWAY, AWAY, AWAY, AWAY, OK], {}, PATIENCE,
            "send@0 away pause:25 send@35 away pause:50 send@95 away pause:100 send@205 away pause:100 send@315 200",
            "done",
        ),
        ([AWAY, OVERLOADED, OK], ONCE, PATIENCE, "send@0 away pause:25 send@35 503 pause:50 send@95 200", "done"),
        # what may have been done is not done again, unless that is harmless
        *(([unknown], ONCE, PATIENCE, f"send@0 {word}", OutcomeUnknown) for word, unknown in UNKNOWN),
        *(([unknown, OK], {}, PATIENCE, f"send@0 {word} pause:25 send@35 200", "done") for word, unknown in UNKNOWN),
        # what cannot be reached for good is not tried again
        ([NotReached("no https here", lasting=True)], {}, PATIENCE, "send@0 None", ControllerAway),
        # the time to wait that an answer names
        ([asked_to_wait("3"), OK], {}, LONG, "send@0 503 pause:3025 send@3035 200", "done"),
        ([asked_to_wait("3")], {}, PATIENCE, "send@0 503", Overloaded),  # no time is wasted past the deadline
        *(
            ([asked_to_wait(text), OK], {}, PATIENCE, "send@0 503 pause:25 send@35 200", "done")
            for text in ("soon", "-1", "9" * 50, "1.5", "")
        ),
        # what is an answer is never asked for again
        ([problem(TimeWentBack(writer="w1", key="", time=1, stored_time=2))], {}, PATIENCE, "send@0 409", TimeWentBack),
        ([problem(InternalFailure(reason="a fault"))], {}, PATIENCE, "send@0 500", InternalFailure),
        ([Response(404, {}, b"nginx")], {}, PATIENCE, "send@0 404", UnexpectedAnswer),
        ([Response(302, {}, b"")], {}, PATIENCE, "send@0 302", UnexpectedAnswer),
        ([Response(200, {}, b"<html>")], {}, PATIENCE, "send@0 200", UnexpectedAnswer),
        # attempts are counted as well
        ([AWAY, AWAY], {}, replace(PATIENCE, attempts=2), "send@0 away pause:25 send@35 away", ControllerAway),
    ],
)  # fmt: skip
def test_what_is_sent_again_and_when(
    outcomes: list[Outcome], made: dict[str, Any], patience: Patience, timeline: str, end: Any
) -> None:
    story = Story(outcomes)
    if end == "done":
        assert story.play(call(**made), patience) == "done"
    else:
        with pytest.raises(end):
            story.play(call(**made), patience)
    assert str(story) == timeline


def test_a_controller_that_is_never_reached_is_away_and_nothing_is_unknown() -> None:
    story = Story([AWAY] * 100)
    with pytest.raises(ControllerAway) as raised:
        story.play(call())
    assert raised.value.controller == "http://there"
    assert raised.value.reason == "refused"
    assert 800 <= raised.value.tried_ms <= 1000


@pytest.mark.parametrize("error", [Overloaded(waiting=9, limit=8), StoreUnavailable(reason="disk full")])
def test_a_controller_that_stays_unavailable_says_so_itself_in_the_end(error: Any) -> None:
    story = Story([problem(error)] * 100)
    with pytest.raises(type(error)) as raised:
        story.play(call())
    assert raised.value.values == error.values


def test_an_attempt_gets_its_time_and_never_more_than_is_left() -> None:
    story = Story([LOST, LOST, OK], took_ms=280)
    assert story.play(call(), Patience(deadline_ms=700, attempt_ms=300)) == "done"
    assert str(story) == "send@0 lost pause:25 send@305 lost pause:50 send@635 200"
    assert [sent.timeout_ms for sent in story.sent] == [300, 300, 65]


def test_what_the_controller_takes_on_purpose_comes_on_top() -> None:
    story = Story([LOST, OK], took_ms=20_300)
    assert story.play(call(wait_ms=20_000)) == "done"
    assert [round(sent.timeout_ms) for sent in story.sent] == [20_300, 675]


def test_a_call_of_several_requests_has_one_deadline() -> None:
    def twice() -> Call[object]:
        yield Request(method="PUT", path="/v1/a", repeatable=True)
        return (yield from call())

    story = Story([AWAY, OK, AWAY, OK], took_ms=300)
    assert story.play(twice(), Patience(deadline_ms=2000, attempt_ms=300)) == "done"
    assert [sent.request.method for sent in story.sent] == ["PUT", "PUT", "POST", "POST"]
    story = Story([OK, *[AWAY] * 100], took_ms=300)
    with pytest.raises(ControllerAway) as raised:
        story.play(twice())
    assert raised.value.tried_ms <= 1300


def test_a_call_that_is_given_up_is_closed() -> None:
    closed = []

    def watched() -> Call[object]:
        try:
            return (yield from call())
        finally:
            closed.append(True)

    kept = watched()
    with pytest.raises(ControllerAway):
        Story([AWAY] * 100).play(kept)
    assert closed == [True]


@pytest.mark.parametrize("name", ["deadline_ms", "attempt_ms", "first_pause_ms", "pause_bound_ms", "attempts"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, None])
def test_patience_is_made_of_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(InvalidConfig) as raised:
        Patience(**{name: value})
    assert raised.value.name == name


OUTCOMES = st.sampled_from([AWAY, LOST, GATEWAY, PROXY_503, OVERLOADED])


@given(
    st.lists(OUTCOMES, min_size=200, max_size=200),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20),
    st.integers(1, 500),
    st.booleans(),
)
def test_a_call_ends_in_time_and_reports_unknown_outcomes_truthfully(
    outcomes: Sequence[Outcome], randoms: Sequence[float], took_ms: int, repeatable: bool
) -> None:
    drawn = cycle(randoms)
    story = Story(outcomes, took_ms=took_ms, random=lambda: next(drawn))
    with pytest.raises((ControllerAway, Overloaded, OutcomeUnknown)) as raised:
        story.play(call(repeatable=repeatable))
    tried = outcomes[: len(story.sent)]
    assert isinstance(raised.value, OutcomeUnknown) == any(each in (LOST, GATEWAY, PROXY_503) for each in tried)
    if isinstance(raised.value, OutcomeUnknown):
        assert (raised.value.call, raised.value.repeatable) == ("POST /v1/x", repeatable)
    assert len({id(sent.request) for sent in story.sent}) == 1
    assert story.now_ms - 5000 <= PATIENCE.deadline_ms + took_ms
    for number, pause_ms in enumerate(story.pauses):
        full_ms = min(50 * 2**number, 200)
        assert full_ms / 2 <= pause_ms <= full_ms
    for sent in story.sent:
        assert 0 < sent.timeout_ms <= PATIENCE.attempt_ms


@given(st.integers(1, 10_000), st.integers(1, 10**6), st.integers(1, 10**9), st.floats(0, 1))
def test_a_pause_is_at_least_half_and_at_most_the_whole(failures: int, first: int, bound: int, random: float) -> None:
    whole, longer = (backoff_ms(each, first_ms=first, bound_ms=bound) for each in (failures, failures + 1))
    assert whole / 2 <= backoff_ms(failures, first_ms=first, bound_ms=bound, random=random) <= whole <= longer <= bound
