"""Calls to the other controllers: bounded in number, over connections that are kept for a while."""

from __future__ import annotations

import logging
import ssl
from asyncio import get_running_loop
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Self

import msgspec

from controller.cluster.records import ControllerRow
from controller.http.forwarding.wire import Address, Headers, NoAnswer, NotTaken, Wire
from controller.http.responses import JSON, to_json
from controller.limits import PEER_ANSWER_MS, PEER_CALLS, PEER_IDLE_MS, PEER_TELLING_MS, PEER_WAITING_CALLS, PEERS_KEPT
from controller.records.operator_log import REQUEST_ID, log_event
from controller.records.rate_limit import RateLimit
from strandline.errors import NotOwner, Overloaded
from strandline.limits import ANSWER_BYTES

HOP: Final = b"strandline-hop"
FOR: Final = b"strandline-for"
ONE_HOP: Final = b"1"
TIME: Final = b"strandline-time"
NOT_ITS_OWN: Final = "the controller that was asked does not own it"


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


_told: Final = msgspec.json.Decoder(ProblemHead)


def told(body: bytes | msgspec.Raw) -> ProblemHead:
    """What an answer says, if it is a problem."""
    try:
        return _told.decode(body)
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

    def encoded(self, authority: bytes, owner: int) -> bytes:
        """The request, for the controller with this id."""
        fields = (
            (b"host", authority),
            *self.headers,
            (HOP, ONE_HOP),
            (FOR, b"%d" % owner),
            (b"content-length", b"%d" % len(self.body)),
        )
        lines = (b"%b %b HTTP/1.1" % (self.method.encode(), self.target), *(b"%b: %b" % each for each in fields))
        head = b"\r\n".join(lines)
        if head.count(b"\n") != len(fields) or head.count(b"\r") != len(fields):
            raise ValueError("a header of the call has a character that would end it")
        return head + b"\r\n\r\n" + self.body

    @property
    def within_s(self) -> float:
        """How long each part of the answer may take."""
        return (PEER_ANSWER_MS + (self.wait_ms or 0)) / 1000


class PeerAnswer:
    """What the owner answers, of which the body may still come."""

    def __init__(self, wire: Wire, within_s: float, client_address: str | None) -> None:
        self.status = wire.status
        self.headers: Headers = tuple(wire.headers)
        self.client_address = client_address  # at which clients may call the owner themselves
        self._wire = wire
        self._within_s = within_s
        self._body: bytes | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises NoAnswer where it breaks off."""
        if self._body is not None:
            yield self._body
            return
        async for piece in self._wire.pieces(self._within_s):
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


class _Peer:
    """Another controller. Calls that wait for marks are counted by themselves: many of them keep none from others."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        self.address = Address(address, tls)
        self.under_way: Counter[bool] = Counter()  # by whether they wait
        self._free: list[Wire] = []  # the one that was used last stands last
        self._url = address
        self._pace = RateLimit(1, PEER_TELLING_MS, self._now())

    async def take(self) -> Wire:
        """A connection for a call. Raises NotTaken."""
        now = get_running_loop().time()
        while self._free:
            wire = self._free.pop()
            if wire.is_free and now - wire.free_since < PEER_IDLE_MS / 1000:
                return wire
            wire.close()
        try:
            return await self.address.connect()
        except NotTaken as error:
            if (untold := self._pace.let_in(self._now())) is not None:
                log_event("peer_not_reached", logging.WARNING, address=self._url, reason=str(error), untold=untold)
            raise

    def _now(self) -> int:
        return round(get_running_loop().time() * 1000)

    def give_back(self, wire: Wire) -> None:
        """Keeps a connection for another call, or ends it and the call on it."""
        if wire.is_free:
            wire.free_since = get_running_loop().time()
            self._free.append(wire)
        else:
            wire.close()

    def close(self) -> None:
        while self._free:
            self._free.pop().close()


class Peers:
    """The other controllers that were called."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls` says whom to trust at addresses with https, None: as this machine does."""
        self.outcomes: Counter[PassOutcome] = Counter()
        self._tls = tls
        self._by_address: dict[str, _Peer] = {}  # the one that was called last stands last

    @asynccontextmanager
    async def ask(self, owner: ControllerRow, call: PassedCall) -> AsyncIterator[PeerAnswer]:
        """Sends a call; gives the answer when its head is there. Raises NotTaken, NoAnswer or Overloaded. Counts what
        came of it, unless its caller left before."""
        try:
            async with self._ask(owner, call) as answer:
                yield answer
        except NotTaken:
            self.outcomes[PassOutcome.NOT_TAKEN] += 1
            raise
        except NoAnswer:
            self.outcomes[PassOutcome.UNDECIDED] += 1
            raise
        except Overloaded:
            self.outcomes[PassOutcome.OVERLOADED] += 1
            raise
        self.outcomes[PassOutcome.ANSWERED] += 1

    @asynccontextmanager
    async def _ask(self, owner: ControllerRow, call: PassedCall) -> AsyncIterator[PeerAnswer]:
        peer = self._peer(owner.address)
        waits = call.wait_ms is not None
        limit = PEER_WAITING_CALLS if waits else PEER_CALLS
        if peer.under_way[waits] >= limit:
            raise Overloaded(waiting=limit, limit=limit, what="calls are passed on to another controller")
        peer.under_way[waits] += 1
        try:
            wire = await peer.take()
            try:
                wire.send(call.encoded(peer.address.authority, owner.id))
                await wire.head(call.within_s)
                answer = PeerAnswer(wire, call.within_s, owner.client_address)
                if answer.status == NotOwner.status and told(await answer.whole()).code == NotOwner.code:
                    raise NotTaken(NOT_ITS_OWN)
                yield answer
            finally:
                peer.give_back(wire)
        finally:
            peer.under_way[waits] -= 1

    def close(self) -> None:
        """Closes the connections on which no call is under way."""
        for peer in self._by_address.values():
            peer.close()

    def _peer(self, address: str) -> _Peer:
        peer = self._by_address.pop(address, None) or _Peer(address, self._tls)
        self._by_address[address] = peer
        if len(self._by_address) > PEERS_KEPT:
            unused = next((each for each, kept in self._by_address.items() if not kept.under_way.total()), address)
            if unused != address:
                self._by_address.pop(unused).close()
        return peer
