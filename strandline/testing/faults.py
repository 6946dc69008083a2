"""What goes wrong between a client and the controller: a script with one entry for each request."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Protocol, TypeAlias, assert_never

from strandline.client.calls import Request, Response
from strandline.client.http import AsyncTransport, Seams, Transport
from strandline.client.retry import AnswerLost, NotReached, Outcome
from strandline.core.checks import check_whole
from strandline.errors import StoreUnavailable
from strandline.wire.problems import MEDIA_TYPE, status_of, to_problem


class Fault(StrEnum):
    """What becomes of one request."""

    CONTROLLER_AWAY = auto()
    """It does not get there, and the client knows it."""
    REQUEST_LOST = auto()
    """It does not get there, and for all the client knows it did."""
    ANSWER_LOST = auto()
    """The controller does what is asked, and the client never hears of it."""
    STORE_AWAY = auto()
    """The controller answers that it cannot use its store just now, and changes nothing."""


@dataclass(frozen=True, slots=True)
class Slow:
    """The answer takes so long, by the client's own time. Where the client does not wait that long it is lost."""

    answer_ms: int

    def __post_init__(self) -> None:
        check_whole("answer_ms", self.answer_ms, least=0)


Entry: TypeAlias = Fault | Slow | None  # None: all goes well


class Script(Protocol):
    """Says what becomes of each request, maybe by what it is: `Faults`, or one of your own."""

    def take(self, request: Request) -> Entry: ...


class Faults:
    """The script of one connection or of several. Requests that it has no entry for go well, or as `always` says."""

    def __init__(self, *entries: Entry) -> None:
        self._entries = deque(entries)
        self._always: Entry = None
        self.requests: list[Request] = []
        """All that were made, each attempt by itself."""

    def then(self, *entries: Entry) -> None:
        """What becomes of the requests that come next, one after the other."""
        self._entries.extend(entries)

    def always(self, entry: Entry) -> None:
        """What becomes of all requests that have no entry of their own, from now on."""
        self._always = entry

    def take(self, request: Request) -> Entry:
        """The entry of a request, which is noted down."""
        self.requests.append(request)
        return self._entries.popleft() if self._entries else self._always


class ClientTime:
    """The time that a client spends waiting, in which nobody waits: pauses and slow answers only add to it."""

    def __init__(self) -> None:
        self._now_ms = 0.0

    def now_ms(self) -> float:
        return self._now_ms

    def spend(self, milliseconds: float) -> None:
        self._now_ms += milliseconds

    def sleep(self, seconds: float) -> None:
        self.spend(seconds * 1000)

    async def sleep_async(self, seconds: float) -> None:
        self.spend(seconds * 1000)
        await asyncio.sleep(0)  # others have their turn, as they would

    def seams(self) -> Seams:
        """Where the loops of a connection meet this time. Pauses are as long as they are on average."""
        return Seams(now_ms=self.now_ms, sleep=self.sleep, sleep_async=self.sleep_async, random=lambda: 0.5)


class FaultyTransport:
    """Sends requests over another transport, each as the script has it. Its `time` is the connection's to go by."""

    def __init__(self, inner: Transport, faults: Script, time: ClientTime | None = None) -> None:
        self.time = time if time is not None else ClientTime()
        self._inner = inner
        self._faults = faults

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        course = _course(self._faults.take(request), self.time, timeout_ms)
        try:
            next(course)
            course.send(self._inner.send(request, timeout_ms))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # it is the course's own
        raise AssertionError("a request is sent once")

    def close(self) -> None:
        self._inner.close()


class AsyncFaultyTransport:
    """The same, async."""

    def __init__(self, inner: AsyncTransport, faults: Script, time: ClientTime | None = None) -> None:
        self.time = time if time is not None else ClientTime()
        self._inner = inner
        self._faults = faults

    async def send(self, request: Request, timeout_ms: float) -> Outcome:
        course = _course(self._faults.take(request), self.time, timeout_ms)
        try:
            next(course)
            course.send(await self._inner.send(request, timeout_ms))
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # it is the course's own
        raise AssertionError("a request is sent once")

    async def close(self) -> None:
        await self._inner.close()


def _course(entry: Entry, time: ClientTime, timeout_ms: float) -> Generator[None, Outcome, Outcome]:
    """What becomes of a request: yields where it is sent, is told what came of it, returns what the client hears."""
    match entry:
        case None:
            return (yield)
        case Fault.CONTROLLER_AWAY:
            return NotReached("a scripted fault: the controller is away")
        case Fault.REQUEST_LOST:
            return AnswerLost("a scripted fault: the request was lost")
        case Fault.ANSWER_LOST:
            yield
            return AnswerLost("a scripted fault: the answer was lost")
        case Fault.STORE_AWAY:
            return _store_away()
        case Slow(answer_ms):
            outcome = yield
            time.spend(min(answer_ms, timeout_ms))
            return outcome if answer_ms <= timeout_ms else AnswerLost("a scripted fault: the answer came too late")
        case _:
            assert_never(entry)


def _store_away() -> Response:
    error = StoreUnavailable(reason="a scripted fault")
    return Response(status_of(error), {"content-type": MEDIA_TYPE}, json.dumps(to_problem(error)).encode())
