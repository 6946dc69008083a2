"""Connections make calls over a transport.

A transport sends one request and returns its outcome; it uses httpx (`over_httpx.py`), or a test's script.
It never raises for a controller that is away: that is an outcome. `retry.py` decides what is repeated.
"""

from __future__ import annotations

import os
import random
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Generic, Protocol, Self, TypedDict, TypeVar, assert_never

from strandline.client.addresses import AddressChoice, check_addresses
from strandline.client.calls import Call, Request, Response
from strandline.client.credentials import check_token, find_token, trust
from strandline.client.exchange import ANSWER_BYTES, AllInUse, Exchange, Exchanged, Headers
from strandline.client.loop import drive, drive_async
from strandline.client.retry import (
    AnswerLost,
    NotReached,
    Outcome,
    Patience,
    Pause,
    Send,
    Step,
    StepResult,
    Steps,
    persist,
)
from strandline.core.checks import check_options
from strandline.errors import InvalidConfig
from strandline.fork import OwningProcess
from strandline.paced_log import PacedLog, Waiting

if TYPE_CHECKING:
    import httpx

Value = TypeVar("Value")

SEEN_KEPT: Final = 10_000  # streams whose versions a connection remembers
REGISTRATION_BYTES: Final = 8  # random bytes in the name of a registration, which make it unique
VERSION_HEADER: Final = "strandline-version"  # of the stream that an answer shows


class Transport(Protocol):
    """Sends requests, from several threads at once."""

    def send(self, request: Request, timeout_ms: float) -> Outcome: ...

    def close(self) -> None: ...


class AsyncTransport(Protocol):
    """Sends requests, from several tasks of one event loop at once."""

    async def send(self, request: Request, timeout_ms: float) -> Outcome: ...

    async def close(self) -> None: ...


AnyTransport = TypeVar("AnyTransport")


def new_registration() -> str:
    """A name for a registration of a writer or a reader, by which a repeated request is known."""
    return os.urandom(REGISTRATION_BYTES).hex()


def monotonic_ms() -> float:
    return time.monotonic() * 1000


async def _sleep_async(seconds: float) -> None:
    import asyncio  # which takes long

    await asyncio.sleep(seconds)


@dataclass(frozen=True, slots=True)
class Seams:
    """What the loops need from outside: a clock that never steps back, sleep in seconds, random numbers from 0 to 1."""

    now_ms: Callable[[], float] = monotonic_ms
    sleep: Callable[[float], None] = time.sleep
    sleep_async: Callable[[float], Awaitable[None]] = _sleep_async
    random: Callable[[], float] = random.random


class _Connection(Generic[AnyTransport]):
    """The part that the blocking and the asyncio connection share."""

    def __init__(
        self,
        controller: str | Sequence[str],
        *,
        token: str | None = None,
        token_file: str | None = None,
        ca_file: str | None = None,
        patience: Patience | None = None,
        transport: AnyTransport | None = None,
        seams: Seams | None = None,
    ) -> None:
        """`controller` is a URL, or several of them: a list, or one text with commas.

        Without `token` and `token_file` the environment's STRANDLINE_TOKEN and STRANDLINE_TOKEN_FILE count, without
        `ca_file`, which has the certificates to trust, its STRANDLINE_CA_FILE and SSL_CERT_FILE. A transport brings its
        own of both. Raises InvalidConfig for a URL that is none, http beside https, a token that cannot be sent, files
        without either.
        """
        if transport is None:
            transport = self._over_http(controller, find_token(token, token_file), trust(ca_file))
        self.controller = check_controller(controller)
        if patience is not None and not isinstance(patience, Patience):
            raise InvalidConfig(name="patience", value=patience, wanted="a Patience, as Patience(deadline_ms=5_000)")
        self.patience = patience if patience is not None else Patience()
        self._origin = OwningProcess(f"a connection to {self.controller}")
        self._transport = transport
        self._seams = seams if seams is not None else Seams()
        self._log = PacedLog("strandline")

    def with_patience(self, patience: Patience) -> Self:
        """A connection over the same transport, whose calls try for a longer or shorter time."""
        return type(self)(self.controller, patience=patience, transport=self._transport, seams=self._seams)

    def _over_http(
        self, controller: str | Sequence[str], token: str | None, trusted: ssl.SSLContext | None
    ) -> AnyTransport:
        raise NotImplementedError

    def _waiting(self) -> Waiting:
        return Waiting(self._log, lambda: self._seams.now_ms() / 1000)

    def _waiting_line(self, reason: str) -> str:
        return f"waiting for the controller at {self.controller}: {reason}"

    def _steps(self, call: Call[Value]) -> Steps[Value]:
        self._origin.check()
        seams = self._seams
        return persist(
            call, patience=self.patience, random=seams.random, controller=self.controller, now_ms=seams.now_ms()
        )


class Connection(_Connection[Transport]):
    """A controller's address, or several, and how calls reach it. Any number of writers and readers may share one.

    With several addresses calls about one stream go to one of them, and to the next one if that cannot be reached.
    """

    def _over_http(
        self, controller: str | Sequence[str], token: str | None, trusted: ssl.SSLContext | None
    ) -> Transport:
        return HttpTransport(controller, token=token, trusted=trusted)

    def run(self, call: Call[Value]) -> Value:
        """Makes a call; returns its result, or raises its error, ControllerAway or OutcomeUnknown. Raises UsedAfterFork
        in a process that was forked from the one that made the connection."""
        waiting = self._waiting()
        result = drive(self._steps(call), lambda step: self._take(step, waiting))
        if waiting.told:
            waiting.ends(f"the controller at {self.controller} has answered again")
        return result

    def _take(self, step: Step, waiting: Waiting) -> StepResult:
        outcome: Outcome | None
        match step:
            case Send(request, timeout_ms):
                outcome = self._transport.send(request, timeout_ms)
            case Pause(pause_ms, reason):
                outcome = None
                waiting.goes_on(self._waiting_line(reason))
                self._seams.sleep(pause_ms / 1000)
            case _:
                assert_never(step)
        return StepResult(outcome, self._seams.now_ms())

    def close(self) -> None:
        if self._origin.is_here:  # otherwise the parent still uses it
            self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncConnection(_Connection[AsyncTransport]):
    """The same for one event loop."""

    def _over_http(
        self, controller: str | Sequence[str], token: str | None, trusted: ssl.SSLContext | None
    ) -> AsyncTransport:
        return AsyncHttpxTransport(controller, token=token, trusted=trusted)

    async def run(self, call: Call[Value]) -> Value:
        """See `Connection.run`."""
        waiting = self._waiting()
        result = await drive_async(self._steps(call), lambda step: self._take(step, waiting))
        if waiting.told:
            waiting.ends(f"the controller at {self.controller} has answered again")
        return result

    async def _take(self, step: Step, waiting: Waiting) -> StepResult:
        outcome: Outcome | None
        match step:
            case Send(request, timeout_ms):
                outcome = await self._transport.send(request, timeout_ms)
            case Pause(pause_ms, reason):
                outcome = None
                waiting.goes_on(self._waiting_line(reason))
                await self._seams.sleep_async(pause_ms / 1000)
            case _:
                assert_never(step)
        return StepResult(outcome, self._seams.now_ms())

    async def close(self) -> None:
        if self._origin.is_here:
            await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


SharedConnection = TypeVar("SharedConnection", Connection, AsyncConnection)


class Reaching(TypedDict, total=False):
    """What every client takes, as `Connection` does, to reach the controller."""

    token: str | None
    token_file: str | None
    ca_file: str | None
    patience: Patience | None


def reach(
    controller: str | Sequence[str] | Connection, reaching: Reaching, client: type
) -> tuple[Connection, Callable[[], None]]:
    """The connection of a client, and the function that releases it. For URLs, the client makes its own and closes it.
    A shared one has its own token, and stays open. Raises InvalidConfig for an option that the client does not take."""
    check_options(reaching, Reaching.__annotations__, client)
    if isinstance(controller, Connection):
        return _shared(controller, reaching), lambda: None
    own = Connection(controller, **reaching)
    return own, own.close


def reach_async(
    controller: str | Sequence[str] | AsyncConnection, reaching: Reaching, client: type
) -> tuple[AsyncConnection, Callable[[], Awaitable[None]]]:
    """The same for one event loop."""
    check_options(reaching, Reaching.__annotations__, client)
    if isinstance(controller, AsyncConnection):
        return _shared(controller, reaching), _stay_open
    own = AsyncConnection(controller, **reaching)
    return own, own.close


def _shared(connection: SharedConnection, reaching: Reaching) -> SharedConnection:
    check_left_out(reaching, ("token", "token_file", "ca_file"), "a connection")
    patience = reaching.get("patience")
    return connection if patience is None else connection.with_patience(patience)


def check_left_out(reaching: Reaching, names: Iterable[str], shared: str) -> None:
    """Raises InvalidConfig for what a client takes from something shared."""
    for name in names:
        if reaching.get(name) is not None:
            raise InvalidConfig(name=name, value="…", wanted=f"left out with {shared}, which has its own")


async def _stay_open() -> None:
    pass


class _Transport:
    """What the waiting and the awaiting transport share: where a request goes, and what came of it."""

    def __init__(self, controller: str | Sequence[str], token: str | None, answer_bytes: int) -> None:
        addresses = check_addresses(controller)
        self._choice = AddressChoice(addresses, time.monotonic)
        self._secure = addresses[0].lower().startswith("https:")  # as all of them are
        self._headers = _headers(token)
        self._answer_bytes = answer_bytes
        self._seen: dict[str, str] = {}  # by stream, how new the newest answer was: no later one is to be older
        self._lock = threading.Lock()  # around what is seen

    def _attempt(self, request: Request, timeout_ms: float) -> Generator[Exchange, Exchanged, Outcome]:
        """Sends a request to one address; if that cannot be reached, to the next one, while there is time.

        Each address has the whole timeout for its answer: passing over others takes nothing from a long poll.
        """
        over_at = time.monotonic() + timeout_ms / 1000
        unreached: list[NotReached] = []
        subject = _subject_of(request.path)
        addresses = self._choice.in_order(subject)
        with self._lock:
            seen = self._seen.get(subject)
        headers = self._headers if seen is None else (*self._headers, (b"Strandline-Seen", seen.encode()))
        for address in addresses:
            whose = f"{address}: " if len(addresses) > 1 else ""
            outcome = yield Exchange(request, address, headers, timeout_ms, self._answer_bytes)
            if isinstance(outcome, Response) and (version := outcome.headers.get(VERSION_HEADER)) is not None:
                self._remember(subject, version)
            match outcome:
                case Response(502 | 503 | 504):
                    self._choice.leave(address)
                    return outcome
                case Response():
                    return outcome
                case NotReached(reason, lasting):
                    self._choice.leave(address)
                    unreached.append(NotReached(whose + reason, lasting))
                case AnswerLost(reason):
                    self._choice.leave(address)
                    return AnswerLost(whose + reason)
                case AllInUse():
                    return NotReached("all connections are in use")
                case _:
                    assert_never(outcome)
            if time.monotonic() >= over_at:
                break
        reasons = "; ".join(each.reason for each in unreached)
        return NotReached(reasons, lasting=all(each.lasting for each in unreached))

    def _remember(self, subject: str, version: str) -> None:
        """Notes how new an answer was. Those of other threads may have overtaken it."""
        with self._lock:
            seen = self._seen.pop(subject, None)
            if len(self._seen) >= SEEN_KEPT:
                del self._seen[next(iter(self._seen))]  # the one that was asked about least recently
            self._seen[subject] = _newer(version, seen)


class HttpTransport(_Transport):
    """Requests over httpx, and over the proxy that the environment names for an address.

    An attempt may take as much longer than its timeout as it takes to connect.
    """

    def __init__(
        self,
        controller: str | Sequence[str],
        *,
        token: str | None = None,
        trusted: ssl.SSLContext | None = None,
        client: Callable[[], httpx.Client] | None = None,
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        """`trusted` instead of what the machine trusts; `client` makes a client instead of ours, again when an answer
        was overdue."""
        from strandline.client import over_httpx

        super().__init__(controller, token, answer_bytes)
        self._exchanges = over_httpx.blocking(client, trusted, self._secure)

    def send(self, request: Request, timeout_ms: float) -> Outcome:
        return drive(self._attempt(request, timeout_ms), self._exchanges.exchange)

    def close(self) -> None:
        self._exchanges.close()


class AsyncHttpxTransport(_Transport):
    """The same, async. It gets slower with concurrency: send many notes at once in one request."""

    def __init__(
        self,
        controller: str | Sequence[str],
        *,
        token: str | None = None,
        trusted: ssl.SSLContext | None = None,
        client: httpx.AsyncClient | None = None,
        answer_bytes: int = ANSWER_BYTES,
    ) -> None:
        """`trusted` instead of what the machine trusts; `client` instead of one made here; it is closed too."""
        from strandline.client import over_httpx

        super().__init__(controller, token, answer_bytes)
        self._client = client if client is not None else over_httpx.async_client(trusted, self._secure)
        self._exchange = partial(over_httpx.exchange_async, self._client)

    async def send(self, request: Request, timeout_ms: float) -> Outcome:
        return await drive_async(self._attempt(request, timeout_ms), self._exchange)

    async def close(self) -> None:
        await self._client.aclose()


def _subject_of(path: str) -> str:
    """The path of the stream or reader group that a request is about; empty for one about none."""
    parts = path.partition("?")[0].split("/", 4)
    return "/".join(parts[2:4]) if len(parts) > 3 and parts[2] in ("streams", "reader-groups") else ""


def _newer(version: str, seen: str | None) -> str:
    """The newer of two versions, if they are of one stream; else the one that was sent last."""
    (identity, _, number), (other, _, before) = version.rpartition("-"), (seen or "").rpartition("-")
    if seen is None or identity != other or not (number.isdigit() and before.isdigit()):
        return version
    return seen if int(before) > int(number) else version


def check_controller(controller: str | Sequence[str]) -> str:
    """Returns the addresses of a controller as one text. Raises InvalidConfig, see `check_addresses`."""
    return ",".join(check_addresses(controller))


def _headers(token: str | None) -> Headers:
    headers = (
        (b"Accept", b"application/json, application/problem+json"),
        (b"Accept-Encoding", b"identity"),
        (b"User-Agent", b"strandline"),
    )
    return headers if token is None else (*headers, (b"Authorization", b"Bearer " + check_token(token).encode()))
