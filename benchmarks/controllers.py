"""Durable notes that two and three controllers of one PostgreSQL take, beside one: with each stream's writers at one of
them, and at all of them; for few callers and many; beside two busy loops; and with a slow way to PostgreSQL. And how
long notes wait that a controller has not answered and that are repeated at another one, after the first was killed, or
stopped, in the midst of commits.

    python -m benchmarks.controllers [--seconds 3] [--rounds 2] [--few 32] [--many 300] [--delay-ms 5] [--stops 5]

Controllers, PostgreSQL and wrk share all cores, so the rates say less than the CPU time of a note. The slow way is a
proxy on the loopback interface that holds back what comes, half of the delay in each direction. Kinds take turns, and
the medians are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import httpx

from benchmarks.figures import Figure, Report, arguments, median, number, run
from benchmarks.notes import NOTES_A_ROUND, make_streams, prefix
from benchmarks.servers import (
    WITHOUT_POSTGRES,
    RunningServer,
    answers_in,
    asking,
    controller_of,
    running,
    running_postgres,
    scratch,
    without_wrk,
)
from tests.postgres import Postgres

STREAMS: Final = 12  # which two and three controllers can share
MOST: Final = 3
AT_ONE, AT_ALL = "each stream at one", "each stream at all"
FLEETS: Final = [(1, AT_ONE), *((count, how) for count in range(2, MOST + 1) for how in (AT_ONE, AT_ALL))]
WRITERS: Final = 1_000  # of all callers together; each notes in several streams
WARM_UP_S: Final = 3  # in which each writer has noted in each of its streams: first notes are journaled
BUSY_LOOPS: Final = 2
HAMMERING: Final = 8  # callers of the controller that ends
SCRIPT: Final = """
local made = 0
local headers = {["content-type"] = "application/json"}
function request()
  made = made + 1
  local stream = made * STEP % 12
  local writer = made % WRITERS
  local body = string.format(
    '{"writer":"wWHOSE-%d","time":%d,"position":{"%d":%d}}', writer, START + made, writer % 4, START + made)
  return wrk.format("POST", "/v1/streams/PREFIX" .. (stream + OFFSET) % 12 .. "/notes", headers, body)
end
"""


class Noted(NamedTuple):
    """What all controllers took together."""

    per_second: float
    cpu_us: float  # of all controllers, for one note
    p99_ms: float  # of the slowest controller

    @property
    def shown(self) -> str:
        return f"{number(self.per_second)} / {number(self.cpu_us)} µs / {number(self.p99_ms)} ms"


@contextmanager
def delayed(port: int, delay_ms: int) -> Iterator[int]:
    """A proxy to a port of this machine, whose answers take so much longer; its own port."""
    loop = asyncio.new_event_loop()

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65_536):
                loop.call_later(delay_ms / 2_000, writer.write, data)
        loop.call_later(delay_ms / 2_000, writer.close)

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(pass_on(reader, back), pass_on(there, writer))

    server = loop.run_until_complete(asyncio.start_server(connect, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """So many processes that only compute meanwhile."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in processes:
            each.kill()
            each.wait()


def load(
    servers: Sequence[RunningServer], how: str, round_: int, folder: Path, connections: int, seconds: int
) -> Noted:
    """Lets a wrk for each controller note as fast as it is answered."""
    count = len(servers)
    commands = []
    for place, server in enumerate(servers):
        step, offset = (count, place) if how == AT_ONE else (1, 0)
        text = SCRIPT.replace("STEP", str(step)).replace("OFFSET", str(offset)).replace("WHOSE", str(place))
        text = text.replace("PREFIX", prefix(STREAMS)).replace("WRITERS", str(WRITERS // count))
        text = text.replace("START", str(round_ * NOTES_A_ROUND))
        each = max(1, connections // count)
        commands.append(asking(server.url, text, folder / f"{place}.lua", each, seconds))
    before = sum(each.cpu_s for each in servers)
    running_now = [subprocess.Popen(each, stdout=subprocess.PIPE, text=True) for each in commands]
    said = [answers_in(each.communicate()[0]) for each in running_now]
    spent = sum(each.cpu_s for each in servers) - before
    notes = sum(each.calls for each in said)
    return Noted(sum(each.per_second for each in said), 1e6 * spent / notes, max(each.p99_ms for each in said))


def measure_notes(
    options: argparse.Namespace,
    postgres: Postgres,
    port: int,
    folder: Path,
    loads: dict[str, tuple[int, int]],
    report: Report,
) -> None:
    """Measures every number of controllers under each of these loads: connections and busy loops, by name. `port` is
    that of PostgreSQL, or of a way to it."""
    runs: dict[str, dict[tuple[int, str], list[Noted]]] = {name: {fleet: [] for fleet in FLEETS} for name in loads}
    numbers = iter(range(1, sys.maxsize))
    for count, how in FLEETS * options.rounds:
        database = postgres.new_database().replace(f":{postgres.port}/", f":{port}/")
        with ExitStack() as opened:  # of their own, like the database: thousands of earlier writers would fall silent
            servers = [opened.enter_context(running(*controller_of(database))) for _ in range(count)]
            make_streams(servers[0].url, STREAMS)
            load(servers, how, next(numbers), folder, options.many, WARM_UP_S)
            for name, (connections, loops) in loads.items():
                with busy_loops(loops):
                    found = load(servers, how, next(numbers), folder, connections, options.seconds)
                runs[name][count, how].append(found)
    for name, taken in runs.items():
        alone, *several = (Noted(*map(median, zip(*taken[fleet], strict=True))) for fleet in FLEETS)
        print(f"\nPostgreSQL{name}: {options.rounds} runs of {options.seconds} s")
        for (count, how), found in zip(FLEETS, (alone, *several), strict=True):
            print(f"{count}, {how:20} {found.per_second:8,.0f}/s {found.cpu_us:7.1f} µs {found.p99_ms:8.2f} ms (p99)")
            if count > 1:
                what = f"{count} controllers on PostgreSQL{name}, {how}: notes a second, CPU of one, p99"
                ratios = " / ".join(number(each / of_one) for each, of_one in zip(found, alone, strict=True))
                report.figures.append(Figure(what, found.shown, f"one controller: {alone.shown}", ratios))


def until_repeated_elsewhere(database: str, how: signal.Signals) -> float:
    """Seconds until a note that the first controller has not answered is answered at a second one, once the first has
    ended in the midst of commits."""
    ended, times = threading.Event(), iter(range(1, sys.maxsize))
    unanswered = dict[str, dict[str, object]]()  # by writer, the note
    with running(*controller_of(database)) as first, running(*controller_of(database)) as second:
        path = "/v1/streams/taken-over"
        settings = {"segments": 1, "max_ahead_ms": None}
        httpx.put(f"{first.url}{path}", json=settings, timeout=30).raise_for_status()

        def note(url: str, body: dict[str, object]) -> None:
            httpx.post(f"{url}{path}/notes", json=body, timeout=20).raise_for_status()

        def hammer(writer: str) -> None:
            with suppress(httpx.HTTPError):
                while not ended.is_set():
                    at = next(times)
                    body = unanswered[writer] = {"writer": writer, "time": at, "position": {"0": at}}
                    note(first.url, body)

        threads = [threading.Thread(target=hammer, args=(f"h{each}",)) for each in range(HAMMERING)]
        for each in threads:
            each.start()
        note(second.url, {"writer": "other", "time": 1, "position": {"0": 1}})
        time.sleep(0.5)
        first.process.send_signal(how)
        begun = time.perf_counter()
        for body in list(unanswered.values()):  # one at least was in the commit that was under way
            note(second.url, body)
        waited = time.perf_counter() - begun
        ended.set()
        first.process.kill()
        for each in threads:
            each.join()
    return waited


def measure(options: argparse.Namespace) -> Report:
    lacking = without_wrk()
    if lacking is not None:
        return Report(missing=[lacking])
    report = Report()
    with ExitStack() as opened:
        folder = opened.enter_context(scratch())
        postgres = running_postgres(opened)
        if postgres is None:
            return Report(missing=[WITHOUT_POSTGRES])
        loads = {f", {each} connections": (each, 0) for each in (options.few, options.many)}
        busy = {f", {options.many} connections beside {BUSY_LOOPS} busy loops": (options.many, BUSY_LOOPS)}
        measure_notes(options, postgres, postgres.port, folder, loads | busy, report)
        with delayed(postgres.port, options.delay_ms) as through:
            away = {f" {options.delay_ms} ms away{name}": each for name, each in loads.items()}
            measure_notes(options, postgres, through, folder, away, report)
        for name, how in (("kill -9", signal.SIGKILL), ("SIGSTOP", signal.SIGSTOP)):
            waited = [until_repeated_elsewhere(postgres.new_database(), how) for _ in range(options.stops)]
            what = f"unanswered notes, repeated at another controller on PostgreSQL after {name} of the first"
            longest = f"longest of {options.stops}: {max(waited):.2f} s"
            report.figures.append(Figure(what, f"{median(waited):.2f} s", longest, "", "≤ 2.5 s"))
    return report


def main() -> None:
    parser = arguments(__doc__, seconds=3, rounds=2, few=32, many=300, delay_ms=5, stops=5)
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
