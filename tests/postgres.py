"""A PostgreSQL for the tests: Debian's package, started in a scratch folder on a free port of the loopback interface.

It runs as another user where the tests run as root, since it refuses root, and it takes anybody who reaches its port.
What it writes does not survive the machine, which no test needs; it does survive every process.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from contextlib import suppress
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.ports import free_port

if TYPE_CHECKING:
    from psycopg import Connection

USERS = ("postgres", "nobody")  # to run as instead of root
START_DEADLINE_S = 60
STOP_DEADLINE_S = 30


def programs() -> Path | None:
    """The folder of the newest server that is installed: Debian keeps it off the PATH."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if found:
        return max(found, key=lambda folder: int(folder.parent.name))
    initdb = shutil.which("initdb")
    return None if initdb is None else Path(initdb).resolve().parent


class Postgres:
    """A server of its own. `url` names one of its databases."""

    def __init__(self, programs: Path, *settings: str, primary: Postgres | None = None) -> None:
        """`settings` are given to the server as they are: "fsync=off". With a `primary` it is that one's standby."""
        self._programs = programs
        self._settings = settings
        self._user = _unprivileged_user() if os.geteuid() == 0 else None
        self._folder = Path(tempfile.mkdtemp(prefix="strandline-postgres-"))
        self._count = 0
        self._empty: list[str] = []  # databases that were given back
        self.port = free_port()
        if self._user is not None:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        data = str(self._folder / "data")
        who = ("--username", "strandline")
        if primary is None:
            self._run("initdb", "--pgdata", data, *who, "--auth", "trust", "--no-sync", "-E", "UTF8")
        else:
            of = ("--host", "127.0.0.1", "--port", str(primary.port), "--write-recovery-conf", "--checkpoint", "fast")
            self._run("pg_basebackup", "--pgdata", data, *who, *of, "--no-sync")
        self._server: subprocess.Popen[bytes]
        self.start()

    def standby(self) -> Postgres:
        """A new server that follows this one."""
        return Postgres(self._programs, *self._settings, primary=self)

    def start(self) -> None:
        """Starts the server; returns when it takes connections."""
        command = [str(self._programs / "postgres"), "-D", str(self._folder / "data")]
        settings = ["listen_addresses=127.0.0.1", f"port={self.port}", f"unix_socket_directories={self._folder}"]
        for setting in [*settings, *self._settings]:
            command += ["-c", setting]
        with open(self._folder / "log", "ab") as log:
            self._server = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder, **self._as_user())
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Returns when it takes connections, after its start or a crash of one of its processes."""
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._answers():
            if self._server.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"PostgreSQL did not start: {self.log()}")

    @property
    def is_up(self) -> bool:
        """Whether the server runs."""
        return self._server.poll() is None

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Ends the server and all sessions: SIGINT in order, SIGQUIT as a crash would."""
        if self.is_up:
            self._server.send_signal(how)
            try:
                self._server.wait(STOP_DEADLINE_S)
            except subprocess.TimeoutExpired:
                self._server.kill()
                self._server.wait()

    def log(self) -> str:
        """What the server has said so far."""
        return (self._folder / "log").read_text()

    @property
    def process_id(self) -> int:
        return self._server.pid

    def remove(self) -> None:
        """Ends the server, and nothing of it is left."""
        self.stop(signal.SIGQUIT)  # nobody needs what it would still write to its files
        shutil.rmtree(self._folder, ignore_errors=True)

    def new_database(self) -> str:
        """An empty database of a name that was never used; returns its URL."""
        if self._empty:
            return self._url(self._empty.pop())
        name = self._new_name()
        self.execute(f"CREATE DATABASE {name}")
        return self._url(name)

    def give_back(self, url: str) -> None:
        """Takes a database back that nobody needs any more, and empties it for who wants a new one next.

        Making one takes five times as long. Its sessions are ended and its name is gone: nobody finds it who lives on.
        """
        import psycopg

        old, new = url.rpartition("/")[2], self._new_name()
        try:
            with self._connected("postgres") as connection:
                _close_and_rename(connection, old, new)
            with self._connected(new) as connection:
                _empty(connection)
        except (psycopg.Error, NotEmpty):  # a test did to it what takes more than that
            for name in (old, new):
                self.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        else:
            self._empty.append(new)

    def execute(self, sql: str, url: str | None = None) -> list[Any]:
        """Runs one statement, in the database of a URL or in the server's own; returns its rows."""
        with self._connected("postgres" if url is None else url.rpartition("/")[2]) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def _connected(self, name: str) -> Connection[Any]:
        import psycopg

        return psycopg.connect(host="127.0.0.1", port=self.port, user="strandline", dbname=name, autocommit=True)

    def _new_name(self) -> str:
        self._count += 1
        return f"test_{self._count}"

    def _url(self, name: str) -> str:
        return f"postgresql://strandline@127.0.0.1:{self.port}/{name}"

    def _answers(self) -> bool:
        command = [str(self._programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port), "-t", "1"]
        return subprocess.run(command, check=False, cwd=self._folder).returncode == 0

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self._folder, **self._as_user())
        if done.returncode != 0:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise RuntimeError(f"{program} failed: {done.stdout}{done.stderr}")

    def _as_user(self) -> dict[str, Any]:
        if self._user is None:
            return {}
        return {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}


class NotEmpty(Exception):
    """A database has more in it than tables."""


def _close_and_rename(connection: Connection[Any], old: str, new: str) -> None:
    """Ends all sessions of a database, takes its settings back, and gives it a new name."""
    connection.execute(f"ALTER DATABASE {old} ALLOW_CONNECTIONS false".encode())
    connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [old])
    deadline = time.monotonic() + STOP_DEADLINE_S
    while connection.execute("SELECT FROM pg_stat_activity WHERE datname = %s", [old]).rowcount:
        if time.monotonic() > deadline:
            raise TimeoutError(f"sessions of {old} do not end")
    for change in (f"{old} RESET ALL", f"{old} RENAME TO {new}", f"{new} ALLOW_CONNECTIONS true"):
        connection.execute(f"ALTER DATABASE {change}".encode())


_TABLES = "SELECT string_agg(oid::regclass::text, ', ') FROM pg_class WHERE relkind IN ('r', 'p') AND oid >= 16384"
# The server gives what it makes for itself lesser numbers.
_LEFT = """
SELECT oid FROM pg_class WHERE oid >= 16384
UNION ALL SELECT oid FROM pg_proc WHERE oid >= 16384
UNION ALL SELECT oid FROM pg_type WHERE oid >= 16384
UNION ALL SELECT oid FROM pg_extension WHERE oid >= 16384
UNION ALL SELECT oid FROM pg_namespace WHERE oid >= 16384 AND nspname NOT LIKE 'pg_%'
"""


def _empty(connection: Connection[Any]) -> None:
    """Drops all tables; raises NotEmpty where anything else is left."""
    ((tables,),) = connection.execute(_TABLES).fetchall()
    if tables is not None:
        connection.execute(f"DROP TABLE {tables} CASCADE".encode())
    if connection.execute(_LEFT.encode()).rowcount:
        raise NotEmpty


def _unprivileged_user() -> pwd.struct_passwd:
    known = {each.pw_name: each for each in pwd.getpwall()}
    return next(known[name] for name in USERS if name in known)


class Fault(Enum):
    """What happens to the next COMMIT that passes a Wire. The connection is cut for who sent it."""

    LOSE = auto()  # the server never gets it
    ANSWER_LOST = auto()  # the server carries it out
    HOLD = auto()  # the server gets it when the test says so, and carries it out then


class Wire:
    """A way to a server that can cut a COMMIT off."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.fault: Fault | None = None
        self.round_trips = 0  # how often something was sent since the last answer
        self._answered = True
        self.struck = threading.Event()
        self.timed_out = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def url(self, url: str) -> str:
        """The same database over this way."""
        return url.replace(f":{self._to}/", f":{self.port}/")

    def close(self) -> None:
        self.timed_out.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._to))
                threading.Thread(target=self._forth, args=(client, server), daemon=True).start()
                threading.Thread(target=self._back, args=(client, server), daemon=True).start()

    def _forth(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                self.round_trips, self._answered = self.round_trips + self._answered, False
                if self.fault is None or b"COMMIT\0" not in data:
                    server.sendall(data)
                else:
                    self._strike(client, server, data)
                    return
        _shut(server)

    def _strike(self, client: socket.socket, server: socket.socket, data: bytes) -> None:
        fault, self.fault = self.fault, None
        _shut(client)
        self.struck.set()
        if fault is Fault.HOLD:
            self.timed_out.wait(60)
        if fault is not Fault.LOSE:
            server.sendall(data)
        _shut(server, socket.SHUT_WR)  # the server reads what was sent, and then the end

    def _back(self, client: socket.socket, server: socket.socket) -> None:
        with suppress(OSError):
            while data := server.recv(65_536):
                self._answered = True
                with suppress(OSError):
                    client.sendall(data)
        _shut(client)


def _shut(connection: socket.socket, how: int = socket.SHUT_RDWR) -> None:
    with suppress(OSError):
        connection.shutdown(how)
