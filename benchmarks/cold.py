"""What the first call to a stream costs that the controller has to load: 10 000 of them, in turn and 64 at a time. And
what it costs to list them all.

    python -m benchmarks.cold [--streams 10000] [--together 64] [--writers 10000]

Each stream has a writer and a mark. The controller starts again, and every stream is asked for a window once, and then
once more, when it is loaded. The caller's clock tells the time. It runs on the last core and speaks HTTP by hand.

For the status of all streams, the controller starts again too, and is asked once more when it has loaded them. Then it
is asked for a stream with very many writers. Meanwhile somebody else sends notes, one after another. So it is when the
writers of all streams have timed out while no controller was there to see it, and it starts again.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

from benchmarks.figures import Figure, Report, arguments, number, run
from benchmarks.raw_http import RawConnection
from benchmarks.servers import RunningServer, pinned, resident_mib, scratch, serving_controller

SETTINGS: Final = json.dumps({"segments": 4, "max_ahead_ms": None, "mark_interval_ms": 0}).encode()
NOTE: Final = json.dumps({"writer": "w", "time": 1, "position": {"0": 1, "1": 1}}).encode()
QUESTION: Final = json.dumps({"position": {"0": 2, "1": 2}}).encode()
NOTED: Final = "noted"
DUE: Final = "SELECT count(*) FROM head WHERE kind = 'stream' AND wake_at < ?"
LARGE: Final = "large"


TimedCall = Callable[[RawConnection, str], Coroutine[Any, Any, None]]


async def make(connection: RawConnection, stream: str) -> None:
    await _send(connection, "PUT", f"/v1/streams/{stream}", SETTINGS)
    await _send(connection, "POST", f"/v1/streams/{stream}/notes", NOTE)


async def ask(connection: RawConnection, stream: str) -> None:
    await _send(connection, "POST", f"/v1/streams/{stream}/time-window", QUESTION)


async def _send(connection: RawConnection, method: str, path: str, body: bytes) -> None:
    status, answer = await connection.send(method, path, body)
    if status >= 300:
        raise SystemExit(f"{method} {path}: {status} {answer.decode()}")


async def all_of(server: RunningServer, streams: Sequence[str], together: int, what: TimedCall) -> float:
    """How long a call takes, in ms, if so many are made at a time: the time of all by their number."""
    left: Iterator[str] = iter(streams)
    connections = [RawConnection(server.url) for _ in range(together)]

    async def some(connection: RawConnection) -> None:
        for stream in left:
            await what(connection, stream)

    begun = time.perf_counter()
    await asyncio.gather(*(some(each) for each in connections))
    took = time.perf_counter() - begun
    for each in connections:
        each.close()
    return 1000 * took / len(streams)


def asked(database: Path, streams: Sequence[str], together: int) -> tuple[list[float], list[float], float]:
    """The milliseconds of a first and of a second call, the CPU time of each in the controller, and by how many KiB a
    stream in memory makes it larger."""
    times, cpus = [], []
    with ExitStack() as opened:
        server = serving_controller(opened, database)
        empty_mib = resident_mib(server.process.pid)
        for _ in range(2):
            before = server.cpu_s
            times.append(asyncio.run(all_of(server, streams, together, ask)))
            cpus.append(1000 * (server.cpu_s - before) / len(streams))
        stream_kib = 1024 * (resident_mib(server.process.pid) - empty_mib) / len(streams)
    return times, cpus, stream_kib


async def beside_notes(url: str, what: Callable[[], Coroutine[Any, Any, None]]) -> tuple[float, float]:
    """How long something takes in ms, and the longest wait for a note meanwhile."""
    noting, waits, done = RawConnection(url), [0.0], asyncio.Event()

    async def note() -> None:
        while not done.is_set():
            begun = time.perf_counter()
            await _send(noting, "POST", f"/v1/streams/{NOTED}/notes", NOTE)
            waits.append(time.perf_counter() - begun)

    await _send(noting, "POST", f"/v1/streams/{NOTED}/notes", NOTE)
    notes = asyncio.create_task(note())
    begun = time.perf_counter()
    await what()
    took = time.perf_counter() - begun
    done.set()
    await notes
    noting.close()
    return 1000 * took, 1000 * max(waits)


def listed(database: Path, streams: Sequence[str], together: int, writers: int) -> list[tuple[str, float, float]]:
    """What was asked for, how long the answer took in ms, and the longest wait for a note meanwhile."""
    found: list[tuple[str, float, float]] = []
    with ExitStack() as opened:
        server = serving_controller(opened, database)

        def ask_for(what: str, path: str) -> None:
            async def asked() -> None:
                asking = RawConnection(server.url)
                await _send(asking, "GET", path, b"")
                asking.close()

            found.append((what, *asyncio.run(beside_notes(server.url, asked))))

        asyncio.run(all_of(server, [NOTED], 1, make))
        ask_for(f"the status of {len(streams):,} streams, none of them loaded", "/v1/status?limit=1000")
        asyncio.run(all_of(server, streams, together, ask))
        asyncio.run(all_of(server, [LARGE], 1, make))
        for first in range(0, writers, 5_000):
            names = range(first, min(writers, first + 5_000))
            notes = [{"writer": f"w{number}", "time": number, "position": {"0": 1}} for number in names]
            body = json.dumps({"notes": notes}).encode()
            asyncio.run(_send(RawConnection(server.url), "POST", f"/v1/streams/{LARGE}/notes", body))
        ask_for(f"the status of {len(streams):,} streams, all of them loaded", "/v1/status?limit=1000")
        ask_for(f"the status of a stream with {writers:,} writers", f"/v1/streams/{LARGE}")
        ask_for(f"the page of a stream with {writers:,} writers", f"/streams/{LARGE}")
        ask_for(f"the metrics of {len(streams):,} streams", "/metrics")
    return found


async def _until_advanced(url: str, database: Path) -> tuple[float, float]:
    """How long it takes until nothing is due, in ms, and the longest wait for a note meanwhile."""
    with closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as store:

        async def all_done() -> None:
            while store.execute(DUE, (time.time_ns() // 1_000_000,)).fetchone()[0]:
                await asyncio.sleep(0.2)

        return await beside_notes(url, all_done)


def overdue(database: Path) -> tuple[float, float]:
    """The same after all writers have been silent for longer than they may."""
    with closing(sqlite3.connect(database)) as store, store:
        store.execute("UPDATE service SET unserved_ms = unserved_ms - 3600000")
        store.execute("UPDATE head SET wake_at = wake_at - 3600000")
    with ExitStack() as opened:
        server = serving_controller(opened, database)
        asyncio.run(all_of(server, [NOTED], 1, make))
        return asyncio.run(_until_advanced(server.url, database))


def measure(options: argparse.Namespace) -> Report:
    report, streams = Report(), [f"s{number}" for number in range(options.streams)]
    with ExitStack() as opened:
        database = opened.enter_context(scratch()) / "store.db"
        opened.enter_context(pinned(-1))
        with ExitStack() as first:
            asyncio.run(all_of(serving_controller(first, database), streams, options.together, make))
        stream_kib = 0.0
        print(f"{'ms a call':20} {'first':>8} {'CPU':>8} {'second':>8} {'CPU':>8}")
        for together, name in ((1, "one after another"), (options.together, f"{options.together} at a time")):
            times, cpus, stream_kib = asked(database, streams, together)
            print(f"{name:20} {times[0]:8.3f} {cpus[0]:8.3f} {times[1]:8.3f} {cpus[1]:8.3f}")
            what = f"the first call to each of {options.streams:,} streams, {name}"
            report.figures.append(Figure.of(what, times[0], "the second", times[1], "ms", "≤ 0.3 ms"))
        name = "memory of a loaded stream"
        report.figures.append(Figure(name, f"{number(stream_kib)} KiB", "", "", "", stream_kib))
        print(f"{name}: {number(stream_kib)} KiB")
        print(f"{'ms':60} {'answer':>8} {'a note':>8}")
        rows = listed(database, streams, options.together, options.writers)
        rows.append((f"the silent writers of {len(streams):,} streams time out after a restart", *overdue(database)))
        for what, took, waited in rows:
            print(f"{what:60} {took:8.1f} {waited:8.1f}")
            meanwhile = "the longest wait for a note meanwhile"
            wanted = "≤ 10 s; ≤ 100 ms" if "time out" in what else "≤ 0.5 s; ≤ 50 ms"
            report.figures.append(Figure.of(what, took, meanwhile, waited, "ms", wanted))
    return report


def main() -> None:
    run(measure, arguments(__doc__, streams=10_000, together=64, writers=10_000).parse_args())


if __name__ == "__main__":
    main()
