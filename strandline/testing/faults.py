"""What goes wrong between a client and the controller: a script with one entry for each request."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import TypeAlias, assert_never

from strandline.checks import check_whole
from strandline.errors import StoreUnavailable
from strandline.protocol.attempts import AnswerLost, NotReached, Outcome
from strandline.protocol.calls import Request, Response
from strandline.protocol.problems import MEDIA_TYPE, status_of, to_problem
from strandline.protocol.transport import AsyncTransport, Seams


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
    """Sends requests over another transport, each as the script has it."""

    def __init__(self, inner: AsyncTransport, faults: Faults, time: ClientTime) -> None:
        self._inner = inner
        self._faults = faults
        self._time = time

    async def send(self, request: Request, timeout_ms: float) -> Outcome:
        match self._faults.take(request):
            case None:
                return await self._inner.send(request, timeout_ms)
            case Fault.CONTROLLER_AWAY:
                return NotReached("a scripted fault: the controller is away")
            case Fault.REQUEST_LOST:
                return AnswerLost("a scripted fault: the request was lost")
            case Fault.ANSWER_LOST:
                await self._inner.send(request, timeout_ms)
                return AnswerLost("a scripted fault: the answer was lost")
            case Fault.STORE_AWAY:
                return _store_away()
            case Slow(answer_ms):
                outcome = await self._inner.send(request, timeout_ms)
                self._time.spend(min(answer_ms, timeout_ms))
                return outcome if answer_ms <= timeout_ms else AnswerLost("a scripted fault: the answer came too late")
            case _ as never:
                assert_never(never)

    async def close(self) -> None:
        await self._inner.close()


def _store_away() -> Response:
    error = StoreUnavailable(reason="a scripted fault")
    return Response(status_of(error), {"content-type": MEDIA_TYPE}, json.dumps(to_problem(error)).encode())
