"""Runs the application: a socket, uvicorn around it, and an orderly end."""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import logging
import os
import resource
import signal
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Final
from urllib.parse import urlsplit

import uvicorn

from controller.app import Application, create_app
from controller.http.connection import Connections, HttpConnection
from controller.limits import DEFAULT_LIMITS, Limits
from controller.records.log_lines import log_lines
from controller.records.operator_log import log_event
from controller.settings import START_DEADLINE_S, Settings
from controller.storage.cluster import NameReused
from controller.storage.database import check_store
from controller.storage.diagnosis import StoreSilent
from controller.storage.kinds import parse_url
from controller.storage.refusals import StoreRefused, shown
from controller.storage.schema import REVISION
from controller.storage.terms import RESTORE, REWIND, TermOver
from controller.storage.tokens import has_tokens
from controller.storage.worker import within
from controller.terminal import TAKEN_OVER_STATUS, WRONG_COMMAND_LINE_STATUS, Failure, say
from strandline.client.addresses import check_addresses
from strandline.errors import InvalidConfig, InvalidName
from strandline.hosts import AllowedHosts, is_loopback
from strandline.names import is_name

EXAMPLE: Final = "like http://10.0.0.1:8433"  # of an address
OTHER_FILES: Final = 160  # that the process may have open besides connections
LEAST_CONNECTIONS: Final = 16  # however few files the process may open
GARBAGE_OBJECTS: Final = 50_000  # a collection of young objects starts after this many more allocations than frees


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


class Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready, and why it ends.

    At the end it answers waiting readers first, and then waits for the connections, which would otherwise stay busy.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        app: Application,
        listeners: Sequence[Listener],
        on_ready: Callable[[], None],
        parent: int | None,
        connections: Connections,
    ) -> None:
        """`on_ready` is called once it takes calls. `parent` is a file that ends with the process for which this one
        works, None if it works for itself."""
        super().__init__(config)
        self._strandline = app
        self._listeners = listeners
        self._on_ready = on_ready
        self._parent = parent
        self._connections = connections

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        try:
            await super().startup([])
        except SystemExit:
            if getattr(self._strandline.state, "refused", None) is None:
                raise
            self.should_exit = True  # `_serve` reports why
            return
        if self._parent is not None:
            asyncio.get_running_loop().add_reader(self._parent, self._end_without_parent)
        loop, state = asyncio.get_running_loop(), self.lifespan.state
        connect = partial(
            HttpConnection, self._connections, config=self.config, server_state=self.server_state, app_state=state
        )
        for listener in self._listeners if self.started else ():
            tls = self.config.ssl if listener.tls else None
            handshake_s = self._connections.limits.first_byte_s if listener.tls else None
            server = await loop.create_server(
                connect, sock=listener.socket, ssl=tls, backlog=self.config.backlog, ssl_handshake_timeout=handshake_s
            )
            self.servers.append(server)
        gc.freeze()  # the present objects are long-lived: no collection needs to scan them
        # A few dozen calls in flight have more objects than Python's threshold of 700, and few of them are cycles.
        gc.set_threshold(GARBAGE_OBJECTS, 20, 100)
        if self.started:
            self._on_ready()
            log_event("ready", url=self._listeners[-1].url[0])

    def _end_without_parent(self) -> None:
        """Ends in order: nobody would start this process again, or tell it to end."""
        assert self._parent is not None
        asyncio.get_running_loop().remove_reader(self._parent)
        log_event("parent_gone", logging.ERROR)
        self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        """Checks every tenth of a second whether to stop, also because another controller took the store over, or
        because a call asked this one to drain."""
        controller = getattr(self._strandline.state, "controller", None)
        if controller is not None and (controller.replaced is not None or controller.stopping):
            self.should_exit = True
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        controller = getattr(self._strandline.state, "controller", None)
        if controller is not None:
            waiting = controller.reading.waiting + controller.following.readers
            log_event("stopping", waiting_readers=waiting, waiting_calls=controller.measures.waiting_calls)
            controller.begin_stop()
            await controller.hand_over()  # until then it takes calls, and passes them on
            self.config.timeout_graceful_shutdown = controller.calls_end_in_s
            self._connections.stop(self.config.timeout_graceful_shutdown)
        await super().shutdown(sockets)
        if self.force_exit:  # after a second Ctrl-C uvicorn waits for nobody; the store is left in order all the same
            await self.lifespan.shutdown()
        log_event("stopped")


def serve(settings: Settings, limits: Limits = DEFAULT_LIMITS) -> int:
    """Serves until a signal stops it; raises Failure if it cannot begin."""
    with log_lines(settings.log_format, controller=settings.name):
        check(settings)
        listener = Listener(listen(settings.host, settings.port), settings.ssl_certfile is not None)
        with listener.socket:
            prepare_store(settings)
            return run(settings, [listener], partial(say_ready, listener), limits=limits)


def check(settings: Settings) -> None:
    """Raises Failure for settings with which it cannot begin, as far as they alone show that."""
    check_certificate(settings)
    peer_trust(settings)
    check_name(settings)
    try:
        AllowedHosts.of(settings.allowed_hosts)
    except InvalidConfig as error:
        raise wrong(f"--allowed-host: {error}") from None
    try:
        store = shown(parse_url(settings.database))
    except StoreRefused as refused:
        raise Failure(str(refused)) from None
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


def run(
    settings: Settings,
    listeners: Sequence[Listener],
    on_ready: Callable[[], None],
    parent: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> int:
    """Serves with settings that were checked, until a signal stops it or its `parent` ends; see `Server`."""
    app = create_app(settings, dashboard=True, peer_tls=peer_trust(settings), limits=limits)
    connections = Connections(limits, connections_bound(limits))
    config = uvicorn.Config(
        app,
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
    server = Server(config, app, listeners, on_ready, parent, connections)
    signal.signal(signal.SIGTERM, _end)
    with ExitStack() as closed:
        for listener in listeners:
            closed.enter_context(listener.socket)
        server.run(sockets=[listener.socket for listener in listeners])
    if getattr(app.state, "refused", None) is not None:
        raise Failure(str(app.state.refused))
    controller = getattr(app.state, "controller", None)
    if controller is not None and controller.replaced is not None:
        by = controller.replaced
        taken = isinstance(by, NameReused) or (isinstance(by, TermOver) and by.owner not in (RESTORE, REWIND))
        raise Failure(f"{controller.replaced}; this controller has ended", TAKEN_OVER_STATUS if taken else 1)
    return 0 if server.started else 1


def say_ready(listener: Listener) -> None:
    """Prints where callers reach this controller."""
    url, others = listener.url
    with suppress(Failure):  # serve even if standard output cannot be written
        say(f"strandline is ready at {url}{others}")


def _check_store(settings: Settings) -> bool:
    """Raises what the store says against serving; returns whether its schema was created."""
    check_callers(settings)
    return check_store(settings.database, joint=settings.name is not None)


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


def check_name(settings: Settings) -> None:
    """Raises Failure for a name or an address by which other controllers could not know this one."""
    addresses = {"--address": settings.address, "--client-address": settings.client_address}
    if settings.name is None:
        addresses["--peer-ca-file"] = settings.peer_ca_file
        for option, given in addresses.items():
            if given is not None:
                raise wrong(f"{option} is for a controller that serves together with others: give it a --name too")
        return
    if not is_name(settings.name):
        raise wrong(f"--name: {InvalidName(what='controller', name=settings.name)}")
    if settings.address is None and settings.processes == 1:
        raise wrong(f"--name needs the --address at which other controllers reach this one, {EXAMPLE}")
    for option, given in addresses.items():
        if given is not None and not _is_address(given):
            raise wrong(f"{option} is no address of a controller: name http or https and a host, {EXAMPLE}")


def _is_address(given: str) -> bool:
    try:
        (address,) = check_addresses(given)
    except (InvalidConfig, ValueError):
        return False
    return address == given.rstrip("/") and address.isascii() and not urlsplit(address).path


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


def peer_trust(settings: Settings) -> ssl.SSLContext | None:
    """Whom to trust at https addresses of other controllers, None: whom this machine trusts. Raises Failure."""
    if settings.peer_ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=settings.peer_ca_file)
    except (OSError, ValueError) as error:
        raise Failure(
            f"{settings.peer_ca_file} cannot be used ({_reason(error)}): --peer-ca-file names certificates in PEM form "
            f"by which other controllers are trusted"
        ) from None


def _reason(error: Exception) -> str:
    return (error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)) or str(error)


def _end(_number: int, _frame: FrameType | None) -> None:
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
