"""What open pages of the dashboard cost: durable notes a second with ten of them open, and with none; and the
controller's CPU for an update of the overview with 300 streams.

    python -m benchmarks.dashboard [--seconds 3] [--rounds 3] [--pages 10] [--streams 300] [--updates 20]

The server runs on the first core; wrk, and a program that has the pages open as a browser would, on the last. With and
without pages take turns on one controller with SQLite, and the medians are printed. The CPU for updates is that of the
whole process, less what it takes while nobody looks; that of an update is with all that it brings about.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import count
from pathlib import Path
from typing import Final

import httpx

from benchmarks.figures import Figure, Report, arguments, number, run
from benchmarks.notes import make_streams, noting
from benchmarks.servers import ROOT, Load, load, middle, on_core, scratch, serving_controller, without_wrk

PATHS: Final = ("/", "/streams/s0", "/streams/s1", "/", "/streams/s2/writers/t0-w1")
PART: Final = {"Strandline-Part": "main"}  # as the script of a page asks for an update
REFRESH_S: Final = 1.0
CPU_AIM_MS: Final = 20


async def visit(url: str, path: str) -> None:
    """Has a page open, and asks for its updates as its script does."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        (await client.get(path)).raise_for_status()
        for updates in count(1):
            await asyncio.sleep(REFRESH_S)
            (await client.get(path, headers=PART)).raise_for_status()
            if updates == 2:
                print("live", flush=True)


async def visit_all(url: str, pages: int) -> None:
    await asyncio.gather(*(visit(url, PATHS[number % len(PATHS)]) for number in range(pages)))


@contextmanager
def visiting(url: str, pages: int) -> Iterator[None]:
    """Has so many pages open."""
    command = [sys.executable, "-m", "benchmarks.dashboard", "--visit", url, "--pages", str(pages)]
    process = subprocess.Popen([*on_core(-1), *command], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        for _ in range(pages):
            if process.stdout.readline() != "live\n":
                raise SystemExit("a page did not come alive")
        yield
    finally:
        process.terminate()
        process.wait()


def measure(options: argparse.Namespace) -> Report:
    lacking = without_wrk()
    if lacking is not None:
        return Report(missing=[lacking])
    none, some = "no page", f"{options.pages} pages"
    runs: dict[str, list[Load]] = {none: [], some: []}
    with ExitStack() as opened:
        folder = opened.enter_context(scratch())
        server = serving_controller(opened, folder / "store.db")
        make_streams(server.url)
        if options.warm_up:
            load(server, noting(0), folder, options.connections, options.warm_up)
        rounds = count(1)
        for number in range(options.rounds):
            # Each goes first in turn: a store that grows, or a machine that warms up, favours neither.
            for kind in (some, none) if number % 2 else (none, some):
                with visiting(server.url, options.pages) if kind == some else nullcontext():
                    runs[kind].append(load(server, noting(next(rounds)), folder, options.connections, options.seconds))
    rate, reference = middle(runs[some]).per_second, middle(runs[none]).per_second
    print(f"{'':10} {'notes/s':>9} {'p50 ms':>7} {'p99 ms':>7} {'of none':>8}")
    for kind, taken in runs.items():
        found = middle(taken)
        times = f"{found.median_ms:7.2f} {found.p99_ms:7.2f}"
        print(f"{kind:10} {found.per_second:9,.0f} {times} {found.per_second / reference:8.0%}")
    what = f"durable notes a second, SQLite, {some} of the dashboard open"
    of_notes = Figure.of(what, rate, none, reference, "a second", "≥ 0.95")
    return Report([of_notes, updating(options.streams, options.updates)])


def updating(streams: int, updates: int) -> Figure:
    """The CPU of an update of the overview."""
    with ExitStack() as opened:
        folder: Path = opened.enter_context(scratch())
        server = serving_controller(opened, folder / "store.db")
        client = opened.enter_context(httpx.Client(base_url=server.url, timeout=30))
        for number_of in range(streams):
            settings = {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None}
            client.put(f"/v1/streams/s{number_of}", json=settings).raise_for_status()
            for writer in ("a", "b"):
                note = {"writer": writer, "time": 1_700_000_000_000 + number_of, "position": {"0": 1}}
                client.post(f"/v1/streams/s{number_of}/notes", json=note).raise_for_status()

        def spent_ms(ask: bool) -> float:
            before = server.cpu_s
            for _ in range(updates):
                time.sleep(REFRESH_S)
                if ask:
                    client.get("/", headers=PART).raise_for_status()
            return 1000 * (server.cpu_s - before) / updates

        spent_ms(True)
        idle = spent_ms(False)
        each = max(0.0, spent_ms(True) - idle)
    print(f"an update of the overview with {streams} streams takes {each:.1f} ms of CPU")
    what = f"CPU of an update of the overview with {streams} streams"
    return Figure(what, f"{number(each)} ms", "", "", f"≤ {CPU_AIM_MS} ms", each)


def main() -> None:
    parser = arguments(__doc__, seconds=3, rounds=3, connections=64, warm_up=1, pages=10, streams=300, updates=20)
    parser.add_argument("--visit", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.visit is not None:
        asyncio.run(visit_all(options.visit, options.pages))
        return
    run(measure, options)


if __name__ == "__main__":
    main()
