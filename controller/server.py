"""Runs the application: a socket, uvicorn around it, and an orderly end."""

from __future__ import annotations

import gc
import ipaddress
import logging
import os
import resource
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Final, TypeAlias

import uvicorn
from fastapi import FastAPI

from controller.app import create_app
from controller.commit.store_threads import exit_past_hanging_calls
from controller.http.connection import Connections, HttpConnection
from controller.limits import DEFAULT_LIMITS, Limits
from controller.operator_log import log_event
from controller.operators.log_lines import log_lines
from controller.settings import START_DEADLINE_S, Settings
from controller.storage.database import check_store
from controller.storage.diagnosis import StoreSilent
from controller.storage.kinds import kind_of, parse_url
from controller.storage.refusals import StoreRefused, shown
from controller.storage.schema import REVISION
from controller.storage.tokens import has_tokens
from controller.storage.worker import within
from controller.terminal import WRONG_COMMAND_LINE_STATUS, Failure, say
from strandline.errors import InvalidConfig
from strandline.hosts import AllowedHosts, is_loopback

OTHER_FILES: Final = 160  # that the process may have open besides connections
LEAST_CONNECTIONS: Final = 16  # however few files the process may open
GARBAGE_OBJECTS: Final = 50_000  # a collection of young objects starts after this many more allocations than frees
SWITCH_S: Final = 0.0005  # so long a thread that loads a large stream keeps calls from the interpreter


log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Listener:
    """A socket that has an address, and whether callers there speak TLS."""

    socket: socket.socket
    tls: bool

    @property
    def url(self) -> tuple[str, str]:
        """As `address` has it."""
        host, port = self.socket.getsockname()[:2]
        return address(host, port, tls=self.tls)


# Serves with settings that were checked, on a listener, and says when it is ready; returns the exit status.
Run: TypeAlias = "Callable[[Settings, Listener, Callable[[], None], Limits], int]"


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready, and why it ends.

    At the end it answers waiting readers first, and then waits for the connections, which would otherwise stay busy.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        app: FastAPI,
        listener: Listener,
        on_ready: Callable[[], None],
        connections: Connections,
    ) -> None:
        """`on_ready` is called once it takes calls."""
        super().__init__(config)
        self._strandline = app
        self._listener = listener
        self._on_ready = on_ready
        self._connections = connections

    @property
    def refused(self) -> StoreRefused | None:
        """Why the store cannot be served, if so."""
        refused: StoreRefused | None = getattr(self._strandline.state, "refused", None)
        return refused

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup(sockets)
        except SystemExit:
            if self.refused is None:
                raise
            self.should_exit = True  # `_serve` reports why
            return
        gc.freeze()  # the present objects are long-lived: no collection needs to scan them
        # A few dozen calls in flight have more objects than Python's threshold of 700, and few of them are cycles.
        # The next generation is collected soon: after a million objects that took 0.4 s, for which all calls waited.
        gc.set_threshold(GARBAGE_OBJECTS, 2, 1_000)
        sys.setswitchinterval(SWITCH_S)
        if self.started:
            self._on_ready()
            log_event("ready", url=self._listener.url[0])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        controller = getattr(self._strandline.state, "controller", None)
        if controller is not None:
            waiting = controller.reading.waiting + controller.following.readers
            log_event("stopping", waiting_readers=waiting, waiting_calls=controller.measures.waiting_calls)
            controller.begin_stop()
            self.config.timeout_graceful_shutdown = controller.calls_end_in_s
            self._connections.stop(self.config.timeout_graceful_shutdown)
        await super().shutdown(sockets)
        if self.force_exit:  # after a second Ctrl-C uvicorn waits for nobody; the store is left in order all the same
            await self.lifespan.shutdown()
        log_event("stopped")


def serve(settings: Settings, limits: Limits = DEFAULT_LIMITS, run: Run | None = None) -> int:
    """Serves until a signal stops it, in this process or as `run` does; raises Failure if it cannot begin."""
    with logged(settings.log_format):
        check(settings)
        listener = Listener(listen(settings.host, settings.port), settings.ssl_certfile is not None)
        with listener.socket:
            prepare_store(settings)
            return (run or run_here)(settings, listener, partial(say_ready, listener), limits)


@contextmanager
def logged(form: str) -> Iterator[None]:
    """The log of a process that serves. On exit all lines are written, and it ends past calls of the store that
    hang."""
    try:
        with log_lines(form):
            yield
    except SystemExit as end:
        exit_past_hanging_calls(end.code if isinstance(end.code, int) else 1)
        raise
    except KeyboardInterrupt:
        exit_past_hanging_calls(0)
        raise


def check(settings: Settings) -> None:
    """Raises Failure for settings with which it cannot begin, as far as they alone show that."""
    check_certificate(settings)
    try:
        AllowedHosts.of(settings.allowed_hosts)
    except InvalidConfig as error:
        raise wrong(f"--allowed-host: {error}") from None
    try:
        url = parse_url(settings.database)
    except StoreRefused as refused:
        raise Failure(str(refused)) from None
    store = shown(url)
    if settings.workers > 1 and not kind_of(url).serves_many:
        raise wrong(f"--workers {settings.workers}: {store} takes one controller: leave it out, or use PostgreSQL")
    log_event("starting", store=store, host=settings.host, port=settings.port, process=os.getpid())


def wrong(reason: str) -> Failure:
    """The failure for options that no restart can make right."""
    return Failure(reason, WRONG_COMMAND_LINE_STATUS)


def prepare_store(settings: Settings) -> None:
    """Gives a fresh store its schema. Raises Failure for one that cannot be served.

    It comes after the socket, so that a port that is taken leaves no store behind.
    """
    store = shown(parse_url(settings.database))
    try:
        fresh = within(START_DEADLINE_S, partial(_check_store, settings))
    except StoreRefused as refused:
        raise Failure(str(refused)) from None
    except StoreSilent as silent:
        raise Failure(f"{store} cannot be opened: {silent}") from None
    log_event("schema_created" if fresh else "schema_found", store=store, revision=REVISION)


def connections_bound(limits: Limits) -> int:
    """How many connections the process can have. Raises the limit of open files as far as it is needed and allowed."""
    wanted = limits.connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return limits.connections
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        with suppress(OSError, ValueError):  # a system may have a lower bound of its own
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(LEAST_CONNECTIONS, limits.connections - max(0, wanted - soft))


def new_server(settings: Settings, listener: Listener, on_ready: Callable[[], None], limits: Limits) -> Server:
    """A server with settings that were checked."""
    app = create_app(settings, limits=limits)
    connections = Connections(limits, connections_bound(limits))
    config = uvicorn.Config(
        app,
        http=partial(HttpConnection, connections),  # type: ignore[arg-type]  # any callable that makes a protocol
        timeout_keep_alive=limits.keep_alive_s,
        loop="uvloop",
        ws="none",
        lifespan="on",
        log_config=None,
        log_level="warning",
        access_log=settings.access_log,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=round(limits.drain_s - limits.stop_s),
        ssl_certfile=settings.ssl_certfile,
        ssl_keyfile=settings.ssl_keyfile,
        ssl_keyfile_password=settings.ssl_keyfile_password,
    )
    logging.getLogger("uvicorn.access").setLevel(logging.INFO)  # uvicorn set it to its own level
    signal.signal(signal.SIGTERM, end_with_0)
    return Server(config, app, listener, on_ready, connections)


def run_here(settings: Settings, listener: Listener, on_ready: Callable[[], None], limits: Limits) -> int:
    """Serves with settings that were checked, until a signal stops it; see `Server`."""
    server = new_server(settings, listener, on_ready, limits)
    with listener.socket:
        server.run(sockets=[listener.socket])  # uvicorn raises the signal again that ended it
    if server.refused is not None:
        raise Failure(str(server.refused))
    return 0 if server.started else 1


def say_ready(listener: Listener) -> None:
    """Prints where callers reach this controller."""
    url, others = listener.url
    with suppress(Failure):  # serve even if standard output cannot be written
        say(f"strandline is ready at {url}{others}")


def _check_store(settings: Settings) -> bool:
    """Raises what the store says against serving; returns whether its schema was created."""
    check_callers(settings)
    return check_store(settings.database)


def check_callers(settings: Settings) -> None:
    """Raises Failure if everybody who reaches the address could call, and StoreRefused for an unusable store."""
    if is_loopback(settings.host):
        return
    if not settings.insecure and not has_tokens(settings.database):
        raise Failure(
            f"without tokens it serves this machine only, and {settings.host} is another address: make a token with "
            f"`strandline token create admin --role admin` and the same --database, or use --host 127.0.0.1, "
            f"or allow everybody with --insecure"
        )
    if settings.ssl_certfile is None:
        log.warning(
            "without --ssl-certfile, tokens and notes go over the network unencrypted: see "
            "docs/how-to/tokens-and-tls.md"
        )


def check_certificate(settings: Settings) -> None:
    """Raises Failure for a certificate, a key or a password that cannot be used."""
    if settings.ssl_certfile is None:
        if settings.ssl_keyfile is not None:
            raise wrong("--ssl-keyfile needs a certificate: name it with --ssl-certfile")
        return
    password = settings.ssl_keyfile_password or ""  # without one OpenSSL would ask at the terminal
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            settings.ssl_certfile, settings.ssl_keyfile, password=lambda: password
        )
    except (OSError, ValueError) as error:  # an SSLError is an OSError
        files = " and ".join(name for name in (settings.ssl_certfile, settings.ssl_keyfile) if name is not None)
        raise Failure(
            f"{files} cannot be used for TLS ({_reason(error)}): --ssl-certfile and --ssl-keyfile name a certificate "
            f"and its key in PEM form, STRANDLINE_SSL_KEYFILE_PASSWORD is the password of the key"
        ) from None


def _reason(error: Exception) -> str:
    return (error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)) or str(error)


def end_with_0(_number: int, _frame: FrameType | None) -> None:
    """Exits with 0: after an orderly end, uvicorn raises the signal again that stopped it."""
    raise SystemExit(0)


def listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        raise Failure(f"cannot listen on {host} port {port}: {error.strerror}; use another --host or --port") from None
    return listener


def address(host: str, port: int, *, tls: bool) -> tuple[str, str]:
    """A URL that can be opened on this machine, also if it listens everywhere, and a remark on other addresses."""
    others = ""
    if ipaddress.ip_address(host).is_unspecified:
        host, others = "::1" if ":" in host else "127.0.0.1", " and at every other address of this machine"
    scheme = "https" if tls else "http"
    return (f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"), others
