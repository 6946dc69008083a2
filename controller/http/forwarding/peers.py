"""HTTP to the other controllers: bounded connections to each, and what a call that failed means.

NotTaken      nothing of the call got there, or the other one says that it is not the owner: nothing was done
AnswerLost    the call was sent, and no whole answer came: whether it was carried out is not known
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

import httpx
import msgspec

from controller.cluster.records import ControllerRow
from controller.limits import (
    PEER_ANSWER_MS,
    PEER_CALLS,
    PEER_CONNECT_MS,
    PEER_IDLE_MS,
    PEER_WAITING_CALLS,
    PEERS_KEPT,
)
from strandline.client.http import UNSENT
from strandline.errors import NotOwner, Overloaded
from strandline.limits import ANSWER_BYTES

Headers = tuple[tuple[bytes, bytes], ...]

HOP: Final = b"strandline-hop"
FOR: Final = b"strandline-for"
ONE_HOP: Final = b"1"
TIME: Final = b"strandline-time"
NOT_ITS_OWN: Final = "the controller that was asked does not own it"


class NotTaken(Exception):
    """Nothing was done: the call may be made again, also elsewhere."""


class AnswerLost(Exception):
    """It is not known whether the call was carried out."""


class Told(msgspec.Struct, frozen=True):
    """What a problem says to programs; an answer that is none leaves it empty."""

    status: int = 0
    code: str = ""


_told: Final = msgspec.json.Decoder(Told)


def told(body: bytes | msgspec.Raw) -> Told:
    """What an answer says, if it is a problem."""
    try:
        return _told.decode(body)
    except msgspec.DecodeError:
        return Told()


@dataclass(frozen=True, slots=True)
class PassedCall:
    """A call as its owner gets it. `wait_ms` is how long the owner may wait on purpose; None: not at all."""

    method: str
    target: bytes
    headers: Headers
    body: bytes
    wait_ms: int | None = None


class PeerAnswer:
    """What the owner answers, of which the body may still come."""

    def __init__(self, response: httpx.Response, client_address: str | None) -> None:
        self.status = response.status_code
        self.headers: Headers = tuple((name.lower(), value) for name, value in response.headers.raw)
        self.client_address = client_address  # at which clients may call the owner themselves
        self._response = response
        self._body: bytes | None = None

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises AnswerLost where it breaks off."""
        if self._body is not None:
            yield self._body
            return
        try:
            async for piece in self._response.aiter_raw():
                yield piece
        except httpx.RequestError as error:
            raise AnswerLost(_reason(error)) from None

    async def whole(self) -> bytes:
        """The whole body. Raises AnswerLost where it breaks off, or is larger than an answer may be."""
        if self._body is None:
            body = bytearray()
            async for piece in self.pieces():
                body += piece
                if len(body) > ANSWER_BYTES:
                    raise AnswerLost(f"its answer is larger than {ANSWER_BYTES} bytes")
            self._body = bytes(body)
        return self._body

    @property
    def time(self) -> int | None:
        """The owner's clock."""
        return next((int(value) for name, value in self.headers if name == TIME and value.isdigit()), None)

    async def close(self) -> None:
        await self._response.aclose()


class _Peer:
    """The address of another controller. Calls that wait for marks have connections of their own."""

    def __init__(self, address: str, tls: ssl.SSLContext | None) -> None:
        self.url = httpx.URL(address)
        self.under_way = 0
        trusted = (tls or ssl.create_default_context()) if self.url.scheme == "https" else None
        self._calls, self._waits = (_client(most, trusted) for most in (PEER_CALLS, PEER_WAITING_CALLS))

    def client(self, *, waits: bool) -> httpx.AsyncClient:
        return self._waits if waits else self._calls

    async def close(self) -> None:
        await self._calls.aclose()
        await self._waits.aclose()


class Peers:
    """The other controllers that were called."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls` replaces what this machine trusts, for addresses with https."""
        self._tls = tls
        self._by_address: dict[str, _Peer] = {}  # the one that was called last stands last

    @asynccontextmanager
    async def ask(self, owner: ControllerRow, call: PassedCall) -> AsyncIterator[PeerAnswer]:
        """Sends a call; gives the answer when its head is there. Raises NotTaken, AnswerLost or Overloaded."""
        peer = await self._peer(owner.address)
        peer.under_way += 1
        try:
            answer = PeerAnswer(await self._send(peer, owner, call), owner.client_address)
            try:
                if answer.status == NotOwner.status and told(await answer.whole()).code == NotOwner.code:
                    raise NotTaken(NOT_ITS_OWN)
                yield answer
            finally:
                await answer.close()
        finally:
            peer.under_way -= 1

    async def close(self) -> None:
        """Closes all connections."""
        while self._by_address:
            _, peer = self._by_address.popitem()
            await peer.close()

    async def _send(self, peer: _Peer, owner: ControllerRow, call: PassedCall) -> httpx.Response:
        answer_s = (PEER_ANSWER_MS + (call.wait_ms or 0)) / 1000
        timeout = httpx.Timeout(answer_s, connect=PEER_CONNECT_MS / 1000, pool=0)
        request = httpx.Request(
            call.method,
            peer.url,
            headers=[*call.headers, (HOP, ONE_HOP), (FOR, b"%d" % owner.id)],
            content=call.body or None,
            extensions={"target": call.target, "timeout": timeout.as_dict()},
        )
        try:
            return await peer.client(waits=call.wait_ms is not None).send(request, stream=True)
        except httpx.PoolTimeout:
            limit = PEER_CALLS if call.wait_ms is None else PEER_WAITING_CALLS
            raise Overloaded(waiting=limit, limit=limit, what="calls are passed on to another controller") from None
        except UNSENT as error:
            raise NotTaken(f"its controller was not reached: {_reason(error)}") from None
        except httpx.UnsupportedProtocol as error:
            raise NotTaken(f"its controller has no address that can be called: {_reason(error)}") from None
        except httpx.RequestError as error:
            raise AnswerLost(_reason(error)) from None

    async def _peer(self, address: str) -> _Peer:
        peer = self._by_address.pop(address, None)
        if peer is None:
            try:
                peer = _Peer(address, self._tls)
            except httpx.InvalidURL as error:
                raise NotTaken(f"its controller has no address that can be called: {error}") from None
        self._by_address[address] = peer
        for unused in [each for each, kept in self._by_address.items() if not kept.under_way and kept is not peer]:
            if len(self._by_address) <= PEERS_KEPT:
                break
            await self._by_address.pop(unused).close()
        return peer


def _client(most: int, tls: ssl.SSLContext | None) -> httpx.AsyncClient:
    """`tls` is None for an address with http."""
    limits = httpx.Limits(max_connections=most, max_keepalive_connections=most, keepalive_expiry=PEER_IDLE_MS / 1000)
    return httpx.AsyncClient(limits=limits, verify=tls or False, trust_env=False)


def _reason(error: httpx.RequestError) -> str:
    return str(error) or type(error).__name__
