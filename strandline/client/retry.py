"""Decides what is sent again and when, and which error is raised in the end: a generator, without a clock.

    persist(call, …) yields      and receives
      Send(request, timeout)       a Response, NotReached or AnswerLost, and the time
      Pause(pause)                 the time

    outcome of an attempt                      the request is sent again …       and in the end
    NotReached: no part of it arrived          unless that lasts                 ControllerAway
    503 with a code of ours: not done          always, after Retry-After         that error
    AnswerLost, or 502, 503, 504 of a proxy    only if that is harmless          OutcomeUnknown
    any other response                         never: it is the answer           –

"It failed" and "we do not know" stay different: after a lost answer, only the answer to a repetition settles it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, TypeAlias, TypeVar, assert_never

from strandline.client.backoff import backoff_ms
from strandline.client.calls import Call, Request, Response, error_of
from strandline.core.checks import check_whole
from strandline.errors import ControllerAway, OutcomeUnknown, Unavailable

CALL_DEADLINE_DEFAULT_MS: Final = 15_000  # of a call, with all attempts and pauses
ATTEMPT_DEFAULT_MS: Final = 5_000  # how long one attempt waits for its answer

FIRST_PAUSE_DEFAULT_MS: Final = 50  # the first pause between attempts; each further one is twice as long
PAUSE_BOUND_DEFAULT_MS: Final = 2_000  # the longest pause between attempts
ATTEMPTS_DEFAULT: Final = 100  # of one request

Value = TypeVar("Value")

RETRY_AFTER_DIGITS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a call may try, how long one attempt may take, and how the pauses between attempts grow.

    The time that the controller waits on purpose (`wait_ms`) is added to the deadline and to the attempt's time. An
    attempt may take longer by the time that it takes to connect, up to two seconds, and its call with it.
    """

    deadline_ms: int = CALL_DEADLINE_DEFAULT_MS
    attempt_ms: int = ATTEMPT_DEFAULT_MS
    first_pause_ms: int = FIRST_PAUSE_DEFAULT_MS
    pause_bound_ms: int = PAUSE_BOUND_DEFAULT_MS
    attempts: int = ATTEMPTS_DEFAULT

    def __post_init__(self) -> None:
        for name in ("deadline_ms", "attempt_ms", "first_pause_ms", "pause_bound_ms", "attempts"):
            check_whole(name, getattr(self, name), least=1)

    def pause_ms(self, failures: int, random: float, *, bound_ms: int | None = None) -> float:
        """The pause after so many failures in a row; `bound_ms` shortens it."""
        bound_ms = self.pause_bound_ms if bound_ms is None else bound_ms
        return backoff_ms(failures, first_ms=self.first_pause_ms, bound_ms=bound_ms, random=random)


@dataclass(frozen=True, slots=True)
class Send:
    """A step: send this, and wait so long for the answer."""

    request: Request
    timeout_ms: float


@dataclass(frozen=True, slots=True)
class Pause:
    """A step: wait before the next attempt; `reason` is why one is needed."""

    pause_ms: float
    reason: str = ""


@dataclass(frozen=True, slots=True)
class NotReached:
    """No part of the request reached the controller."""

    reason: str
    lasting: bool = False  # to try again is of no use


@dataclass(frozen=True, slots=True)
class AnswerLost:
    """The request may have arrived, and no answer came in time."""

    reason: str


Step: TypeAlias = Send | Pause
Outcome: TypeAlias = Response | NotReached | AnswerLost


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step (None for a pause), and the time after it, on a clock that never steps back."""

    outcome: Outcome | None
    now_ms: float


Steps: TypeAlias = Generator[Step, StepResult, Value]


def persist(
    call: Call[Value], *, patience: Patience, random: Callable[[], float], controller: str, now_ms: float
) -> Steps[Value]:
    """Repeats a call until it has an answer or its time is over; returns the call's result, or raises its error.

    `random` gives numbers from 0 to 1 and spreads the pauses; `controller` is named in errors. Raises ControllerAway or
    OutcomeUnknown if there is no answer.
    """
    attempts = _Attempts(patience, random, controller, now_ms)
    try:
        request = next(call)
        while True:
            request = call.send((yield from attempts.answer_to(request)))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]  # it is the call's own
    finally:
        call.close()


class _Attempts:
    """The attempts of one call, all of its requests under one deadline."""

    def __init__(self, patience: Patience, random: Callable[[], float], controller: str, now_ms: float) -> None:
        self._patience = patience
        self._random = random
        self._controller = controller
        self._start_ms = self._now_ms = now_ms
        self._deadline_ms = now_ms + patience.deadline_ms

    def answer_to(self, request: Request) -> Steps[Response]:
        self._deadline_ms += request.wait_ms
        lost: str | None = None
        for attempt in range(1, self._patience.attempts + 1):
            outcome = yield from self._send(request)
            asked_ms, lasting = 0, False
            match outcome:
                case NotReached(_, lasting):
                    pass
                case AnswerLost(reason):
                    lost = reason
                case Response() if _nothing_changed(request, outcome):
                    asked_ms = _retry_after_ms(outcome)
                case Response(502 | 503 | 504 as status):
                    asked_ms, lost = _retry_after_ms(outcome), f"status {status}"
                case Response():
                    return outcome
                case _:
                    assert_never(outcome)
            pause_ms = asked_ms + self._patience.pause_ms(attempt, self._random())
            over = lasting or attempt == self._patience.attempts or self._now_ms + pause_ms >= self._deadline_ms
            if over or (lost is not None and not request.repeatable):
                return self._give_up(request, outcome, lost)
            self._now_ms = (yield Pause(pause_ms, _reason_of(outcome))).now_ms
        raise AssertionError("the last attempt returns or raises")

    def _send(self, request: Request) -> Steps[Outcome]:
        left_ms = max(1.0, self._deadline_ms - self._now_ms)
        result = yield Send(request, min(left_ms, self._patience.attempt_ms + request.wait_ms))
        self._now_ms = result.now_ms
        if result.outcome is None:
            raise TypeError("a request has an outcome")
        return result.outcome

    def _give_up(self, request: Request, outcome: Outcome, lost: str | None) -> Response:
        """The last response, if that settles the call; otherwise raises the error for what is known."""
        tried_ms = round(self._now_ms - self._start_ms)
        if lost is not None:
            raise OutcomeUnknown(call=request.name, reason=lost, tried_ms=tried_ms, repeatable=request.repeatable)
        match outcome:
            case Response():
                return outcome
            case NotReached(reason) | AnswerLost(reason):
                raise ControllerAway(controller=self._controller, reason=reason, tried_ms=tried_ms)


def _reason_of(outcome: Outcome) -> str:
    return f"status {outcome.status}" if isinstance(outcome, Response) else outcome.reason


def _nothing_changed(request: Request, response: Response) -> bool:
    """Whether the controller itself says that it could not take the call just now."""
    return response.status == 503 and isinstance(error_of(request, response), Unavailable)


def _retry_after_ms(response: Response) -> int:
    text = response.headers.get("retry-after", "")
    return int(text) * 1000 if text.isdecimal() and len(text) <= RETRY_AFTER_DIGITS else 0
