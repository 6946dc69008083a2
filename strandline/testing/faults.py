"""Faults between a client and the controller: a script with one entry for each request."""

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
from strandline.client.loop import drive, drive_async
from strandline.client.retry import AnswerLost, NotReached, Outcome
from strandline.core.checks import check_whole
from strandline.errors import StoreUnavailable
from strandline.wire.problems import MEDIA_TYPE, status_of, to_problem


class Fault(StrEnum):
    """The fault of one request."""

    CONTROLLER_AWAY = auto()
    """The request does not arrive, and the client knows it."""
    REQUEST_LOST = auto()
    """The request does not arrive, and the client does not know."""
    ANSWER_LOST = auto()
    """The controller carries out the call, and the client gets no answer."""
    STORE_AWAY = auto()
    """The controller answers that it cannot use its store now, and changes nothing."""


@dataclass(frozen=True, slots=True)
class Slow:
    """The answer takes `answer_ms` of the client's time. If the client does not wait that long, the answer is lost."""

    answer_ms: int

    def __post_init__(self) -> None:
        check_whole("answer_ms", self.answer_ms, least=0)


Entry: TypeAlias = Fault | Slow | None  # None: no fault


class Script(Protocol):
    """Chooses the fault of each request: `Faults`, or a script of your own, which may use the request."""

    def take(self, request: Request) -> Entry: ...


class Faults:
    """The script of one or several connections. Requests without an entry get that of `always`, at first no fault."""

    def __init__(self, *entries: Entry) -> None:
        self._entries = deque(entries)
        self._always: Entry = None
        self.requests: list[Request] = []
        """All requests, one for each attempt."""

    def then(self, *entries: Entry) -> None:
        """Adds entries for the next requests, in order."""
        self._entries.extend(entries)

    def always(self, entry: Entry) -> None:
        """Sets the entry of all further requests that have none of their own."""
        self._always = entry

    def take(self, request: Request) -> Entry:
        """Records a request; returns its entry."""
        self.requests.append(request)
        return self._entries.popleft() if self._entries else self._always


class ClientTime:
    """A client's clock that does not wait: pauses and slow answers only add to it."""

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
        await asyncio.sleep(0)  # other tasks run, as in a real pause

    def seams(self) -> Seams:
        """The seams of a connection on this clock. Pauses have their average length."""
        return Seams(now_ms=self.now_ms, sleep=self.sleep, sleep_async=self.sleep_async, random=lambda: 0.5)


class FaultyTransport:
    """Sends requests over another transport, with the faults of a script. Its connection uses its `time`."""

    def __init__(self, inner: Transport, faults: Script, time: ClientTime | None = None) -> None:
        self.time = time if time is not None else ClientTime()
        self._inner = inner
        self._faults = faults

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        course = _course(self._faults.take(request), self.time, timeout_ms)
        return drive(course, lambda _: self._inner.send(request, timeout_ms))

    def close(self) -> None:
        self._inner.close()


class AsyncFaultyTransport:
    """An async `FaultyTransport`."""

    def __init__(self, inner: AsyncTransport, faults: Script, time: ClientTime | None = None) -> None:
        self.time = time if time is not None else ClientTime()
        self._inner = inner
        self._faults = faults

    async def send(self, request: Request, timeout_ms: float) -> Outcome:
        course = _course(self._faults.take(request), self.time, timeout_ms)
        return await drive_async(course, lambda _: self._inner.send(request, timeout_ms))

    async def close(self) -> None:
        await self._inner.close()


def _course(entry: Entry, time: ClientTime, timeout_ms: float) -> Generator[None, Outcome, Outcome]:
    """One request with its fault: yields to send it, gets the outcome, returns the outcome that the client sees."""
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
