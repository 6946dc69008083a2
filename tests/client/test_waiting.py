"""The job that waits until everything older than a time is there, on answers and a clock that are given."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from strandline.client import calls
from strandline.client.loop import Remote
from strandline.client.retry import Pause
from strandline.client.time_wait import WAIT_PAUSE_MS, WAIT_STEP_MS, WAIT_UNTIL_BOUND_MS, OnWait, wait_until_there
from strandline.errors import ControllerAway, InvalidConfig, StrandlineError, TimeNotReached, UnknownStream
from strandline.wire.streams import HolderReply, MarksAt

SLOW = HolderReply(writer="slow", state="active", time=90, last_heard_ms_ago=5, released_in_ms=55)
NOT_YET = MarksAt(floor=None, ceiling=None, start={}, exact=True, reached=90, held_by=SLOW)
THERE = MarksAt(floor=None, ceiling=None, start={}, exact=True, there=True, complete=True, reached=100)
WITHOUT = MarksAt(floor=None, ceiling=None, start={}, exact=True, there=True, reached=100, excluded=("lost",))
AWAY = ControllerAway(controller="http://there", reason="refused", tried_ms=1)


class Waiting:
    """The job, driven by hand: each answer takes so much time, and pauses take theirs."""

    def __init__(
        self, timeout_ms: int = 60_000, *, allow_incomplete: bool = False, on_wait: OnWait | None = None
    ) -> None:
        self.now_ms = 1_000.0
        self.waits: list[int] = []
        self.pauses: list[float] = []
        self.job: Generator[Remote | Pause, Any, MarksAt] = wait_until_there(
            self._ask,
            stream="orders",
            key="",
            time=100,
            timeout_ms=timeout_ms,
            allow_incomplete=allow_incomplete,
            on_wait=on_wait,
            now_ms=lambda: self.now_ms,
        )
        self._step: Remote | Pause = next(self.job)

    def _ask(self, wait_ms: int) -> calls.Call[MarksAt]:
        self.waits.append(wait_ms)
        return calls.marks_at("orders", 100, wait_ms=wait_ms)

    def answer(self, outcome: MarksAt | StrandlineError, took_ms: float | None = None) -> MarksAt | None:
        """What the job returns, or None while it goes on. By default the answer takes as long as it may."""
        self.now_ms += self.waits[-1] if took_ms is None else took_ms
        try:
            if isinstance(outcome, StrandlineError):
                self._step = self.job.throw(outcome)
            else:
                self._step = self.job.send(outcome)
            while isinstance(self._step, Pause):
                self.pauses.append(self._step.pause_ms)
                self.now_ms += self._step.pause_ms
                self._step = self.job.send(None)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # it is the job's own
        return None


def test_it_asks_again_until_it_is_there_and_tells_of_every_answer() -> None:
    told: list[object] = []
    waiting = Waiting(on_wait=told.append)
    assert waiting.answer(NOT_YET) is None
    assert waiting.answer(NOT_YET) is None
    assert waiting.answer(THERE, 3) is THERE
    assert (told, waiting.waits, waiting.pauses) == ([NOT_YET, NOT_YET], [0, WAIT_STEP_MS, WAIT_STEP_MS], [])


SEALED = MarksAt(floor=None, ceiling=None, start={}, exact=True, there=True, excluded=("lost",), sealed=True)
GONE = UnknownStream(stream="orders")


@pytest.mark.parametrize(
    ("options", "answers", "end", "told"),
    [
        ({}, [(WITHOUT, None), (THERE, 3)], THERE, ""),
        ({"allow_incomplete": True}, [(WITHOUT, None)], WITHOUT, ""),
        ({"timeout_ms": 0}, [(NOT_YET, None)], TimeNotReached, "has come to 90 after 0 ms"),  # it asks once
        ({}, [(SEALED, 1)], TimeNotReached, "without lost, which is sealed now"),
        ({"allow_incomplete": True}, [(SEALED, 1)], SEALED, ""),
        # what fails from the first is the error at once, and a controller that goes away meanwhile is waited for
        ({}, [(AWAY, None)], ControllerAway, "refused"),
        ({}, [(GONE, None)], UnknownStream, "orders"),
        ({}, [(NOT_YET, None), (GONE, 1)], UnknownStream, "orders"),
        ({"timeout_ms": 5_000}, [(NOT_YET, None), (AWAY, None)], ControllerAway, "refused"),
    ],
)
def test_it_ends_with_what_is_there_or_with_what_went_wrong(
    options: dict[str, Any], answers: list[tuple[Any, float | None]], end: Any, told: str
) -> None:
    waiting, (last, took) = Waiting(**options), answers[-1]
    for answer in answers[:-1]:
        assert waiting.answer(*answer) is None
    if isinstance(end, MarksAt):
        assert waiting.answer(last, took) is end
    else:
        with pytest.raises(end, match=told):
            waiting.answer(last, took)


def test_after_the_timeout_the_error_says_how_far_time_came_and_who_held_it() -> None:
    waiting = Waiting(timeout_ms=15_000)
    assert waiting.answer(NOT_YET) is None
    assert waiting.answer(NOT_YET) is None
    with pytest.raises(TimeNotReached) as raised:
        waiting.answer(NOT_YET)
    assert waiting.waits == [0, 10_000, 5_000]
    assert (raised.value.reached, raised.value.holder, raised.value.waited_ms) == (90, "slow", 15_000)
    assert "has come to 90 after 15000 ms; 'slow' holds it back" in str(raised.value)


def test_a_controller_that_goes_away_meanwhile_is_waited_for() -> None:
    told: list[object] = []
    waiting = Waiting(on_wait=told.append)
    waiting.answer(NOT_YET)
    assert waiting.answer(AWAY, 1) is None
    assert waiting.answer(THERE, 1) is THERE
    assert (told, waiting.pauses) == ([NOT_YET, AWAY], [WAIT_PAUSE_MS])


def test_answers_that_come_too_soon_are_asked_for_at_a_pace() -> None:
    waiting = Waiting()
    for _ in range(4):
        waiting.answer(NOT_YET, 0)
    assert waiting.pauses == [WAIT_PAUSE_MS] * 3


@pytest.mark.parametrize("wrong", [-1, WAIT_UNTIL_BOUND_MS + 1, 1.5])
def test_a_timeout_out_of_bounds_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidConfig):
        Waiting(timeout_ms=wrong)
