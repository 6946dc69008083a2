"""Calls to the other controllers, over httpx: bounded in number, each part of an answer in time."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, cycle
from typing import Final, Self, TypeAlias, TypeVar

import httpx
import msgspec

from controller.cluster.records import ControllerRow
from controller.http.responses import JSON, to_json
from controller.limits import Limits
from controller.records.operator_log import REQUEST_ID, log_event
from controller.records.rate_limit import RateLimit
from strandline.client.exchange import ANSWER_BYTES
from strandline.errors import NotOwner, Overloaded

PEERS_KEPT: Final = 64  # other controllers, by address, whose calls are counted

PEER_CONNECT_MS: Final = 500  # how long connecting to another controller may take
PEER_ANSWER_MS: Final = 20_000  # between two pieces of its answer, besides the `wait_ms` of the call
PEER_IDLE_MS: Final = 3_000  # a connection to another controller that was unused for longer is not used again
PEER_LOG_MS: Final = 10_000  # between two lines about another controller that was not reached

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]
Value = TypeVar("Value")

HOP: Final = b"strandline-hop"
FOR: Final = b"strandline-for"
ONE_HOP: Final = b"1"
TIME: Final = b"strandline-time"
NOT_ITS_OWN: Final = "the controller that was asked does not own it"
# The errors of a call of which nothing was sent.
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL, httpx.UnsupportedProtocol)
# httpx looks at all connections of a pool with every call, so the calls are spread over several. Redirections, cookies
# and credentials, which a client adds to its transport, are of no use here.
_POOLS: Final = 8  # for calls that wait, and as many for those that do not
_IDLE_CONNECTIONS: Final = 32  # of a pool; if it has more connections, one is closed after its call


class NotTaken(Exception):
    """Nothing was done: the call may be made again, also elsewhere."""


class NoAnswer(Exception):
    """It is not known whether the call was carried out."""


class Stopping(NoAnswer):
    """This controller stops, and waits for the answer no longer."""


class PassOutcome(StrEnum):
    """What came of a request to another controller."""

    ANSWERED = "answered"  # also with a refusal of the owner
    NOT_TAKEN = "not_taken"  # it was not reached, or is not the owner: nothing was done
    UNDECIDED = "undecided"  # the answer did not come, or broke off
    OVERLOADED = "overloaded"  # so many were under way already that it was not sent


class ProblemHead(msgspec.Struct, frozen=True):
    """What a problem says to programs; an answer that is none leaves it empty."""

    status: int = 0
    code: str = ""


_problem_head: Final = msgspec.json.Decoder(ProblemHead)


def problem_head(body: bytes | msgspec.Raw) -> ProblemHead:
    """What an answer says, if it is a problem."""
    try:
        return _problem_head.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return ProblemHead()


@dataclass(frozen=True, slots=True)
class PassedCall:
    """A call as its owner gets it. `wait_ms` is how long the owner may wait on purpose; None: not at all."""

    method: str
    target: bytes
    headers: Headers
    body: bytes
    wait_ms: int | None = None

    @classmethod
    def of_ours(cls, method: str, path: str, token: bytes | None, body: object = None) -> Self:
        """A call that this controller makes itself, with a caller's token and the id of the caller's request."""
        named = ((b"authorization", token), (b"x-request-id", REQUEST_ID.get()))
        headers = ((b"content-type", JSON), *((name, value) for name, value in named if value is not None))
        return cls(method, path.encode("ascii"), headers, b"" if body is None else to_json(body))

    def to(self, owner: ControllerRow) -> httpx.Request:
        """The request, for this controller. Raises httpx.InvalidURL if its address is none."""
        hop = ((HOP, ONE_HOP), (FOR, b"%d" % owner.id))
        timeouts = {"connect": PEER_CONNECT_MS / 1000, "write": self.within_s}
        return httpx.Request(
            self.method,
            owner.address,
            headers=(*self.headers, *hop),
            content=self.body,
            extensions={"target": self.target, "timeout": timeouts},
        )

    @property
    def within_s(self) -> float:
        """How long each part of the answer may take."""
        return (PEER_ANSWER_MS + (self.wait_ms or 0)) / 1000


class PeerAnswer:
    """What the owner answers, of which the body may still come."""

    def __init__(self, answer: httpx.Response, within_s: float, client_address: str | None) -> None:
        self.status = answer.status_code
        self.headers: Headers = tuple((name.lower(), value) for name, value in answer.headers.raw)
        self.client_address = client_address  # at which clients may call the owner themselves
        self._coming = answer.aiter_raw()
        self._within_s = within_s
        self._body: bytes | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises NoAnswer where it breaks off."""
        if self._body is not None:
            yield self._body
            return
        while (piece := await _in_time(anext(self._coming, None), self._within_s)) is not None:
            yield piece

    async def whole(self) -> bytes:
        """The whole body. Raises NoAnswer where it breaks off, or is larger than an answer may be."""
        if self._body is None:
            body = bytearray()
            async for piece in self.pieces():
                body += piece
                if len(body) > ANSWER_BYTES:
                    raise NoAnswer(f"its answer is larger than {ANSWER_BYTES} bytes")
            self._body = bytes(body)
        return self._body

    @property
    def time(self) -> int | None:
        """The owner's clock."""
        return next((int(value) for name, value in self.headers if name == TIME and value.isdigit()), None)


async def _in_time(part: Awaitable[Value], within_s: float) -> Value:
    """Waits for a part of an answer. Raises NotTaken if nothing of the call was sent, or else NoAnswer."""
    try:
        async with asyncio.timeout(within_s):
            return await part
    except TimeoutError:
        raise NoAnswer(f"nothing came for {within_s:.0f} s") from None
    except _UNSENT as error:
        raise NotTaken(f"its controller was not reached: {_reason(error)}") from None
    except httpx.TransportError as error:
        raise NoAnswer(_reason(error)) from None


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__


class _Peer:
    """Another controller. Calls that wait for marks are counted by themselves: many of them keep none from others."""

    def __init__(self) -> None:
        self.under_way: Counter[bool] = Counter()  # by whether they wait
        self.pace = RateLimit(1, PEER_LOG_MS)


class Peers:
    """The other controllers that were called."""

    def __init__(self, tls: ssl.SSLContext | None, limits: Limits) -> None:
        """`tls` says whom to trust at addresses with https, None: as this machine does."""
        self._most_calls = {False: limits.peer_calls, True: limits.peer_waiting_calls}  # by whether they wait
        self.outcomes: Counter[PassOutcome] = Counter()
        self._by_address: dict[str, _Peer] = {}  # the one that was called last stands last
        verify = tls or ssl.create_default_context()
        pool = httpx.Limits(
            max_connections=None, max_keepalive_connections=_IDLE_CONNECTIONS, keepalive_expiry=PEER_IDLE_MS / 1000
        )
        self._pools = {
            waits: [httpx.AsyncHTTPTransport(verify=verify, limits=pool, trust_env=False) for _ in range(_POOLS)]
            for waits in (False, True)
        }
        self._turns = {waits: cycle(pools) for waits, pools in self._pools.items()}
        self._limits: dict[asyncio.Timeout, bool] = {}  # of the calls under way, by whether they wait
        self._answering_s = limits.cut_grace_s
        self._over_at: float | None = None  # set once this controller stops

    @asynccontextmanager
    async def ask(self, owner: ControllerRow, call: PassedCall) -> AsyncIterator[PeerAnswer]:
        """Sends a call; gives the answer when its head is there. Raises NotTaken, NoAnswer or Overloaded, and Stopping
        at any moment. Counts what came of it, unless its caller left before."""
        try:
            async with self._ask(owner, call) as answer:
                yield answer
        except NotTaken:
            self.outcomes[PassOutcome.NOT_TAKEN] += 1
            raise
        except NoAnswer as error:
            self.outcomes[PassOutcome.UNDECIDED] += 1
            if not isinstance(error, Stopping):
                self._log(owner, error)
            raise
        except Overloaded:
            self.outcomes[PassOutcome.OVERLOADED] += 1
            raise
        self.outcomes[PassOutcome.ANSWERED] += 1

    @asynccontextmanager
    async def _ask(self, owner: ControllerRow, call: PassedCall) -> AsyncIterator[PeerAnswer]:
        peer = self._peer(owner.address)
        waits = call.wait_ms is not None
        limit = self._most_calls[waits]
        if peer.under_way[waits] >= limit:
            raise Overloaded(waiting=limit, limit=limit, what="calls are passed on to another controller")
        peer.under_way[waits] += 1
        try:
            async with self._until_stop(waits):
                answer = await self._send(owner, call)
                try:
                    given = PeerAnswer(answer, call.within_s, owner.client_address)
                    if given.time is None:
                        raise NoAnswer("what answers at its address is no controller")
                    if given.status == NotOwner.status and problem_head(await given.whole()).code == NotOwner.code:
                        raise NotTaken(NOT_ITS_OWN)
                    yield given
                finally:
                    await answer.aclose()
        finally:
            peer.under_way[waits] -= 1

    def stop(self, calls_end_in_s: float) -> None:
        """Ends all calls that wait for marks, now and from now on, and the others in time for an answer."""
        self._over_at = asyncio.get_running_loop().time() + max(0.0, calls_end_in_s - self._answering_s)
        for limit, waits in self._limits.items():
            limit.reschedule(self._call_ends_at(waits))

    def _call_ends_at(self, waits: bool) -> float | None:
        if self._over_at is None:
            return None
        return asyncio.get_running_loop().time() if waits else self._over_at

    @asynccontextmanager
    async def _until_stop(self, waits: bool) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout_at(self._call_ends_at(waits)) as limit:
                self._limits[limit] = waits
                try:
                    yield
                finally:
                    del self._limits[limit]
        except TimeoutError:
            raise Stopping("the controller that passed it on is stopping") from None

    async def _send(self, owner: ControllerRow, call: PassedCall) -> httpx.Response:
        try:
            return await _in_time(self._begin(owner, call), call.within_s)
        except NotTaken as error:
            self._log(owner, error)
            raise

    def _log(self, owner: ControllerRow, error: NotTaken | NoAnswer) -> None:
        now = round(asyncio.get_running_loop().time() * 1000)
        if (suppressed := self._peer(owner.address).pace.allow(now)) is not None:
            log_event(
                "peer_not_reached", logging.WARNING, address=owner.address, reason=str(error), suppressed=suppressed
            )

    async def _begin(self, owner: ControllerRow, call: PassedCall) -> httpx.Response:
        return await next(self._turns[call.wait_ms is not None]).handle_async_request(call.to(owner))

    async def close(self) -> None:
        """Closes all connections, also those on which a call is under way."""
        for pool in chain(*self._pools.values()):
            await pool.aclose()

    def _peer(self, address: str) -> _Peer:
        peer = self._by_address.pop(address, None) or _Peer()
        self._by_address[address] = peer
        if len(self._by_address) > PEERS_KEPT:
            unused = next((each for each, known in self._by_address.items() if not known.under_way.total()), address)
            if unused != address:
                del self._by_address[unused]
        return peer
