"""How many durable notes a second one controller takes, beside a bare uvicorn application in the same run.

    python -m benchmarks.notes [--seconds 3] [--rounds 3] [--connections 64]

Servers run on the first core, wrk and PostgreSQL on the last, all on the loopback interface; kinds take turns, and the
medians are printed. Machines differ and are shared: the ratios are what to look at.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.postgres import Postgres, programs
from tools.preflight import installing

ROOT = Path(__file__).parents[1]
STREAMS, WRITERS = 10, 100
START_DEADLINE_S = 30
LOAD = """
local made = 0
local thread_count = 0
function setup(thread) thread:set("number", thread_count); thread_count = thread_count + 1 end
function request()
  made = made + 1
  local stream = made % STREAMS
  local writer = math.floor(made / STREAMS) % WRITERS
  local body = string.format(
    '{"writer":"t%d-w%d","time":%d,"position":{"%d":%d,"%d":%d}}',
    number, writer, START + made, writer % 4, START + made, (writer + 1) % 4, START + made)
  return wrk.format("POST", "/v1/streams/s" .. stream .. "/notes", {["content-type"] = "application/json"}, body)
end
"""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of wrk said."""

    per_second: float
    median_ms: float
    p99_ms: float


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
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": b'{"marks":[]}'})


def serve_bare() -> None:
    """Serves `bare` as the controller serves itself, and says where."""
    import uvicorn

    class Telling(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            print(f"ready at http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}", flush=True)

    config = uvicorn.Config(
        bare, port=0, http="httptools", loop="uvloop", ws="none", log_level="warning", access_log=False,
        proxy_headers=False, server_header=False, date_header=False,
    )  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises the signal again when it has ended
    Telling(config).run()


@contextmanager
def serving(*command: str) -> Iterator[str]:
    """Runs a server on the first core; gives the address that it says."""
    first = min(os.sched_getaffinity(0))
    process = subprocess.Popen(
        ["taskset", "-c", str(first), sys.executable, *command], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+", process.stdout.readline())
        if found is None:
            raise SystemExit(f"{' '.join(command)} did not start")
        yield found[0]
    finally:
        process.terminate()
        process.wait(START_DEADLINE_S)


def make_streams(url: str) -> None:
    with httpx.Client(base_url=url, timeout=30) as client:
        for number in range(STREAMS):
            client.put(f"/v1/streams/s{number}", json={"segments": 4, "max_ahead_ms": None}).raise_for_status()


def load(url: str, script: Path, connections: int, seconds: int, start: int) -> Run:
    """Lets wrk note as fast as it is answered."""
    last = max(os.sched_getaffinity(0))
    text = LOAD.replace("STREAMS", str(STREAMS)).replace("WRITERS", str(WRITERS)).replace("START", str(start))
    script.write_text(text)
    command = ["taskset", "-c", str(last), "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency"]
    said = subprocess.run([*command, "-s", str(script), url], capture_output=True, text=True, check=True).stdout
    if "Non-2xx" in said or "Socket errors" in said:
        raise SystemExit(f"some notes were not taken:\n{said}")
    rate = re.search(r"Requests/sec:\s*([\d.]+)", said)
    assert rate is not None
    return Run(float(rate[1]), _latency(said, 50), _latency(said, 99))


def _latency(said: str, percent: int) -> float:
    found = re.search(rf"{percent}%\s+([\d.]+)(us|ms|s)\b", said)
    assert found is not None
    return float(found[1]) * {"us": 0.001, "ms": 1, "s": 1000}[found[2]]


def measure(options: argparse.Namespace, opened: ExitStack) -> dict[str, list[Run]]:
    scratch = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="strandline-benchmark-")))
    urls = {"bare uvicorn": opened.enter_context(serving("-m", "benchmarks.notes", "--bare"))}
    serve = ("-m", "controller", "serve", "--port", "0", "--database")
    urls["SQLite"] = opened.enter_context(serving(*serve, str(scratch / "store.db")))
    folder = programs()
    if folder is None:
        print(f"without PostgreSQL, which is not installed: {installing('postgresql')}")
    else:
        postgres = Postgres(folder)
        opened.callback(postgres.remove)
        os.sched_setaffinity(postgres.process_id, {max(os.sched_getaffinity(0))})  # its sessions inherit it
        urls["PostgreSQL"] = opened.enter_context(serving(*serve, postgres.new_database()))
    for kind, url in urls.items():
        if kind != "bare uvicorn":
            make_streams(url)
    runs: dict[str, list[Run]] = {kind: [] for kind in urls}
    for number in range(options.rounds + 1):
        for kind, url in urls.items():
            start = number * 10_000_000
            run = load(url, scratch / "load.lua", options.connections, options.seconds if number else 1, start)
            if number:  # the first one is to warm up
                runs[kind].append(run)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3, help="how long each run takes")
    parser.add_argument("--rounds", type=int, default=3, help="how many runs of each kind")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--bare", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.bare:
        serve_bare()
        return
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed: apt-get install -y wrk")
    with ExitStack() as opened:
        runs = measure(options, opened)
    print(f"{options.connections} connections, {options.rounds} runs of {options.seconds} s")
    print(f"{'':14} {'notes/s':>9} {'lowest–highest':>16} {'p50 ms':>7} {'p99 ms':>7} {'of bare':>8}")
    reference = statistics.median(run.per_second for run in runs["bare uvicorn"])
    for kind, taken in runs.items():
        rates = [run.per_second for run in taken]
        spread = f"{min(rates):,.0f}–{max(rates):,.0f}"
        p50 = statistics.median(run.median_ms for run in taken)
        p99 = statistics.median(run.p99_ms for run in taken)
        rate = statistics.median(rates)
        print(f"{kind:14} {rate:9,.0f} {spread:>16} {p50:7.2f} {p99:7.2f} {rate / reference:8.0%}")


if __name__ == "__main__":
    main()
