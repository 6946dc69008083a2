"""What is measured over HTTP, and what it is measured against: controllers, a bare application, and wrk.

Servers run on the first core; wrk, PostgreSQL and other programs that take part on the last, all on the loopback
interface.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.figures import median
from tests.postgres import Postgres, programs
from tools.preflight import installing

ROOT: Final = Path(__file__).parents[1]
CORES: Final = sorted(os.sched_getaffinity(0))
END_DEADLINE_S: Final = 30
BARE: Final = "bare uvicorn"
ENDPOINT: Final = "an empty FastAPI endpoint"
# As an answer to a note or a question for a window, for clients that read it.
NOTED: Final = b'{"late":false,"floor":null,"marks":[]}'
WINDOW: Final = b'{"lower":null,"upper":null,"complete":true,"end_of_stream":false,"mark_seq":null}'


# -- servers -------------------------------------------------------------------------------------------------------


async def bare(scope: Any, receive: Any, send: Any) -> None:
    """The least that an application can do: take the body, and answer."""
    if scope["type"] == "lifespan":
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await send({"type": "lifespan.shutdown.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    body = WINDOW if scope["path"].endswith("/time-window") else NOTED
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


def serve_plainly(app: Any) -> None:
    """Serves an application as the controller serves itself, and says where."""
    import uvicorn

    class AnnouncingServer(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(f"ready at http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}", flush=True)

    config = uvicorn.Config(
        app, port=0, http="httptools", loop="uvloop", ws="none", log_level="warning", access_log=False,
        proxy_headers=False, server_header=False, date_header=False,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again when it has ended
    AnnouncingServer(config).run()


def on_core(which: int) -> list[str]:
    """How a command begins that is to run on that core of those that there are: 0, or -1 for the last."""
    return ["taskset", "-c", str(CORES[which])]


@contextmanager
def pinned(which: int) -> Iterator[None]:
    """Runs this thread on that core meanwhile: 0, or -1 for the last."""
    os.sched_setaffinity(0, {CORES[which]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, CORES)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server, and the process that it runs in."""

    url: str
    process: subprocess.Popen[str]

    @property
    def cpu_s(self) -> float:
        """The CPU time that it has taken so far, in all of its threads."""
        return cpu_s([self.process.pid])[self.process.pid]


@contextmanager
def running(*command: str, beginning: Sequence[str] = ()) -> Iterator[RunningServer]:
    """Runs a server, and ends it; `beginning` stands before its command."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            [*beginning, sys.executable, *command], stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT
        )
        try:
            assert process.stdout is not None
            found = re.search(r"http://\S+", process.stdout.readline())
            if found is None:
                process.wait(END_DEADLINE_S)
                log.seek(0)
                raise SystemExit(f"{' '.join(command)} did not start: {log.read()}")
            yield RunningServer(found[0], process)
        finally:
            process.terminate()
            process.wait(END_DEADLINE_S)


def serving(opened: ExitStack, *command: str) -> RunningServer:
    """Runs a server on the first core."""
    return opened.enter_context(running(*command, beginning=on_core(0)))


def serving_bare(opened: ExitStack) -> RunningServer:
    return serving(opened, "-m", "benchmarks.servers")


def serving_endpoint(opened: ExitStack) -> RunningServer:
    return serving(opened, "-m", "benchmarks.endpoint")


def serving_controller(opened: ExitStack, database: Path | str) -> RunningServer:
    return serving(opened, *controller_of(database))


def controller_of(database: Path | str) -> Sequence[str]:
    """The command of a controller of a store."""
    return "-m", "controller", "serve", "--port", "0", "--database", str(database)


def new_token(database: Path | str) -> str:
    """A token that may do everything. From then on every caller of a controller of this store needs one."""
    command = [sys.executable, "-m", "controller", "token", "create", "benchmark", "--role", "admin"]
    command += ["--database", str(database)]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()


def running_postgres(opened: ExitStack) -> Postgres | None:
    """A PostgreSQL on the last core; None where none is installed."""
    folder = programs()
    if folder is None:
        return None
    postgres = Postgres(folder)
    opened.callback(postgres.remove)
    os.sched_setaffinity(postgres.process_id, {CORES[-1]})  # its sessions inherit it
    return postgres


def serving_postgres(opened: ExitStack) -> str | None:
    """The URL of a new database; None where no PostgreSQL is installed."""
    postgres = running_postgres(opened)
    return None if postgres is None else postgres.new_database()


WITHOUT_POSTGRES: Final = f"PostgreSQL, which is not installed; to get it: {installing('postgresql')}"


def stores(opened: ExitStack, folder: Path, missing: list[str], *, postgres: bool = True) -> dict[str, Path | str]:
    """A new database of each kind that there is, by the name of the kind."""
    found: dict[str, Path | str] = {"SQLite": folder / "store.db"}
    if postgres:
        database = serving_postgres(opened)
        if database is None:
            missing.append(WITHOUT_POSTGRES)
        else:
            found["PostgreSQL"] = database
    return found


@contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="strandline-benchmark-") as folder:
        yield Path(folder)


# -- load ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Load:
    """What one run of wrk said."""

    per_second: float
    median_ms: float
    p99_ms: float
    cpu_us: float  # of the server, for one call


def without_wrk() -> str | None:
    """What to tell where there is no wrk."""
    return None if shutil.which("wrk") else f"what takes wrk, which is not installed; to get it: {installing('wrk')}"


class Answers(NamedTuple):
    """What wrk says at its end."""

    per_second: float
    calls: int
    median_ms: float
    p99_ms: float


def asking(url: str, script: str, path: Path, connections: int, seconds: int) -> list[str]:
    """The command of a wrk that asks as fast as it is answered. `script` is Lua, with a `request`; it is kept there."""
    path.write_text(script)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "--timeout", "20s", "-s", str(path)]
    return [*command, url]


def answers_in(output: str) -> Answers:
    if "Non-2xx" in output or "Socket errors" in output:
        raise SystemExit(f"some requests were refused:\n{output}")
    rate, calls = re.search(r"Requests/sec:\s*([\d.]+)", output), re.search(r"(\d+) requests in", output)
    assert rate is not None and calls is not None
    return Answers(float(rate[1]), int(calls[1]), _latency(output, 50), _latency(output, 99))


def load(server: RunningServer, script: str, folder: Path, connections: int, seconds: int) -> Load:
    """Lets wrk ask as fast as it is answered. `script` is Lua, with a `request`."""
    command = asking(server.url, script, folder / "load.lua", connections, seconds)
    before = server.cpu_s
    output = subprocess.run([*on_core(-1), *command], capture_output=True, text=True, check=True).stdout
    spent = server.cpu_s - before
    said = answers_in(output)
    return Load(said.per_second, said.median_ms, said.p99_ms, 1e6 * spent / said.calls)


def _latency(output: str, percent: int) -> float:
    found = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)\b", output)
    assert found is not None
    return float(found[1]) * {"us": 0.001, "ms": 1, "s": 1000}[found[2]]


def middle(runs: Iterable[Load]) -> Load:
    """The medians of several runs."""
    taken = list(runs)
    return Load(
        median(each.per_second for each in taken),
        median(each.median_ms for each in taken),
        median(each.p99_ms for each in taken),
        median(each.cpu_us for each in taken),
    )


# -- processes -----------------------------------------------------------------------------------------------------


def cpu_s(processes: Sequence[int]) -> dict[int, float]:
    """The CPU time that each of these processes has taken; those that have ended are left out."""
    found = {}
    for process in processes:
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
            found[process] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def resident_mib(process: int) -> float:
    """The memory that a process has in use."""
    found = [line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("VmRSS")]
    return int(found[0].split()[1]) / 1024


if __name__ == "__main__":
    serve_plainly(bare)
