"""Exchanges over httpx: over a client of the caller's, or one with the limits of ours.

`http.py` imports this module when a transport is made: to import httpx takes as long as the rest of a client.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache, partial
from typing import Final, TypedDict

import httpx

from strandline.client.calls import Response
from strandline.client.exchange import AllInUse, Exchange, Exchanged, Headers
from strandline.client.retry import AnswerLost, NotReached

CONNECTIONS: Final = 20  # from one client to a controller

IDLE_CONNECTION_MS: Final = 3_000  # below the 5 s after which common servers close a connection

# The errors of an attempt that sent no part of the request.
_UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
_LIMITS: Final = httpx.Limits(
    max_connections=CONNECTIONS,
    max_keepalive_connections=CONNECTIONS,
    keepalive_expiry=IDLE_CONNECTION_MS / 1000,
)
# httpx logs each request: a line for each note. A program that wants these sets the level itself.
if logging.getLogger("httpx").level == logging.NOTSET:
    logging.getLogger("httpx").setLevel(logging.WARNING)
_CHECK_S: Final = 0.25  # between two looks at what is overdue
_IDLE_CHECKS: Final = 40  # that find no exchange; then the thread ends until there is one again
_OVERDUE: Final = "the answer took too long, and its connection was closed"
_url: Final = lru_cache(256)(httpx.URL)  # a client has few
# Over plain HTTP nothing is verified, and to load what the machine trusts takes as long as a hundred notes.
_NOBODY: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class BlockingExchanges:
    """Exchanges of any number of threads over one `httpx.Client`.

    httpx bounds each read of an answer, and reads its head by itself, in as many reads as that takes; none but the
    thread that reads can end it. So a further thread closes the client of an exchange that is overdue. Its answer is
    lost, and so are those that other threads read from this client at that moment. The next exchange has a new client.
    """

    def __init__(self, make: Callable[[], httpx.Client]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._client = make()
        self._under_way: dict[Exchange, tuple[httpx.Client, int]] = {}  # how many looks it has left
        self._watched = False
        self._closed = threading.Event()

    def exchange(self, sent: Exchange) -> Exchanged:
        """Sends a request and reads its answer. Raises AnswerTooLarge for one that is."""
        client = self._begin(sent)
        try:
            with client.stream(**_request(sent)) as answer:
                for chunk in answer.iter_bytes():
                    sent.add(chunk)
            return _response(sent, answer)
        except httpx.RequestError as error:
            outcome = _outcome_of(error)
            return AnswerLost(_OVERDUE) if client.is_closed and isinstance(outcome, AnswerLost) else outcome
        except Exception:
            if not client.is_closed:
                raise
            return AnswerLost(_OVERDUE)  # a client that is closed meanwhile may raise anything
        finally:
            with self._lock:
                self._under_way.pop(sent, None)

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._client.close()

    def _begin(self, sent: Exchange) -> httpx.Client:
        with self._lock:
            if self._closed.is_set():
                raise RuntimeError("the connection to the controller is closed")
            if self._client.is_closed:
                self._client = self._make()
            if not self._watched:
                with suppress(RuntimeError):  # at the interpreter's end no thread begins
                    threading.Thread(target=self._watch, name="strandline-overdue", daemon=True).start()
                    self._watched = True
            self._under_way[sent] = self._client, 2 + int(sent.whole_s / _CHECK_S)
            return self._client

    def _watch(self) -> None:
        """Counts looks instead of reading a clock, so that a pause of the process makes nothing overdue."""
        idle = 0
        while not self._closed.wait(_CHECK_S):
            with self._lock:
                idle = 0 if self._under_way else idle + 1
                if idle > _IDLE_CHECKS:
                    self._watched = False
                    return
                for sent, (client, left) in tuple(self._under_way.items()):
                    self._under_way[sent] = client, left - 1
                    if left == 0:
                        client.close()
                        del self._under_way[sent]


def blocking(
    client: Callable[[], httpx.Client] | None, trusted: ssl.SSLContext | None, secure: bool
) -> BlockingExchanges:
    """`secure` is whether there are addresses with https."""
    return BlockingExchanges(client or partial(httpx.Client, limits=_LIMITS, verify=_verifying(trusted, secure)))


def async_client(trusted: ssl.SSLContext | None, secure: bool) -> httpx.AsyncClient:
    return httpx.AsyncClient(limits=_LIMITS, verify=_verifying(trusted, secure))


def _verifying(trusted: ssl.SSLContext | None, secure: bool) -> ssl.SSLContext | bool:
    return trusted or secure or _NOBODY


async def exchange_async(client: httpx.AsyncClient, sent: Exchange) -> Exchanged:
    """See `BlockingExchanges.exchange`."""
    is_sent = False

    async def follow(step: str, _: object) -> None:
        nonlocal is_sent
        is_sent = is_sent or step.endswith(".send_request_headers.started")

    try:
        async with (  # httpx bounds each read of an answer
            asyncio.timeout(sent.whole_s),
            client.stream(**_request(sent), extensions={"trace": follow}) as answer,
        ):
            async for chunk in answer.aiter_bytes():
                sent.add(chunk)
        return _response(sent, answer)
    except TimeoutError:
        return AnswerLost(_OVERDUE) if is_sent else NotReached("connecting took too long")
    except httpx.RequestError as error:
        return _outcome_of(error)


class _Sent(TypedDict):
    method: str
    url: httpx.URL
    content: bytes | None
    headers: Headers
    timeout: httpx.Timeout


def _request(sent: Exchange) -> _Sent:
    return {
        "method": sent.request.method,
        "url": _url(sent.address + sent.request.path),
        "content": sent.content,
        "headers": sent.headers,
        "timeout": httpx.Timeout(sent.connect_s, read=sent.wait_s),
    }


def _response(sent: Exchange, answer: httpx.Response) -> Response:
    headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers.raw}
    return Response(answer.status_code, headers, bytes(sent.body))


def _outcome_of(error: httpx.RequestError) -> Exchanged:
    if isinstance(error, httpx.PoolTimeout):
        return AllInUse()
    if not isinstance(error, _UNSENT):
        return AnswerLost(_reason(error))
    match _cause_of(error):
        case ssl.SSLError(reason="WRONG_VERSION_NUMBER" | "RECORD_LAYER_FAILURE"):
            return NotReached(
                "what answers there does not speak https: an address with http may be right", lasting=True
            )
        case ssl.SSLCertVerificationError():
            return NotReached(_reason(error), lasting=True)
    return NotReached(_reason(error))


def _cause_of(error: BaseException) -> BaseException:
    """The error of the socket that httpx and its transport were given."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error


def _reason(error: Exception) -> str:
    return str(error) or type(error).__name__
