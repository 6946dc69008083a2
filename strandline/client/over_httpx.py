"""Exchanges over httpx: all those of asyncio clients, and those of blocking clients through a proxy.

No other module imports httpx. `http.py` imports this one when it is needed, since to import httpx takes as long as
everything else that a blocking client needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import httpx

from strandline.client.calls import Response
from strandline.client.exchange import AllInUse, Exchange, Exchanged
from strandline.client.retry import AnswerLost, NotReached
from strandline.limits import CONNECTIONS, IDLE_CONNECTION_MS

if TYPE_CHECKING:
    import ssl

# The errors of an attempt that sent no part of the request.
UNSENT: Final = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)


def machine_trust() -> ssl.SSLContext:
    """Trusts what the machine trusts; httpx takes SSL_CERT_FILE and SSL_CERT_DIR into account."""
    return httpx.create_ssl_context()


def blocking_client(trusted: ssl.SSLContext | None) -> httpx.Client:
    return httpx.Client(limits=_limits(), verify=trusted or True)


def async_client(trusted: ssl.SSLContext | None) -> httpx.AsyncClient:
    return httpx.AsyncClient(limits=_limits(), verify=trusted or True)


def exchange(client: httpx.Client, sent: Exchange) -> Exchanged:
    try:
        with client.stream(**_as_httpx_takes(sent)) as answer:
            for chunk in answer.iter_bytes():
                sent.add(chunk, answer.status_code)
            return _response(sent, answer)
    except (httpx.RequestError, TimeoutError) as error:
        return _outcome_of(error)


async def exchange_async(client: httpx.AsyncClient, sent: Exchange) -> Exchanged:
    import asyncio  # a blocking client needs none of it

    try:
        # httpx bounds each part of an answer, and not all of them; this comes after its own timeouts.
        async with asyncio.timeout(2 * sent.connect_s + sent.wait_s), client.stream(**_as_httpx_takes(sent)) as answer:
            async for chunk in answer.aiter_bytes():
                sent.add(chunk, answer.status_code)
            return _response(sent, answer)
    except (httpx.RequestError, TimeoutError) as error:
        return _outcome_of(error)


def _limits() -> httpx.Limits:
    return httpx.Limits(
        max_connections=CONNECTIONS,
        max_keepalive_connections=CONNECTIONS,
        keepalive_expiry=IDLE_CONNECTION_MS / 1000,
    )


def _as_httpx_takes(sent: Exchange) -> dict[str, Any]:
    return {
        "method": sent.request.method,
        "url": sent.address + sent.request.path,
        "content": sent.content,
        "headers": sent.headers,
        "timeout": httpx.Timeout(sent.connect_s, read=sent.wait_s),
    }


def _response(sent: Exchange, answer: httpx.Response) -> Response:
    headers = {name.lower(): value for name, value in answer.headers.items()}
    return Response(answer.status_code, headers, bytes(sent.body))


def _outcome_of(error: httpx.RequestError | TimeoutError) -> Exchanged:
    reason = str(error) or type(error).__name__
    if isinstance(error, httpx.PoolTimeout):
        return AllInUse(reason)
    return NotReached(reason) if isinstance(error, UNSENT) else AnswerLost(reason)
