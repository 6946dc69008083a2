"""What open pages of the dashboard cost: durable notes a second with ten of them open, and with none.

    python -m benchmarks.dashboard [--seconds 3] [--rounds 3] [--pages 10]

The server runs on the first core; wrk, and a program that has the pages open as a browser would, on the last. With and
without pages take turns on one controller with SQLite, and the medians are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import count
from typing import Final

import httpx

from benchmarks.figures import Figure, Report, arguments, run
from benchmarks.notes import make_streams, noting
from benchmarks.servers import ROOT, Load, load, middle, on_core, scratch, serving_controller, without_wrk

PATHS: Final = ("/", "/streams/s0", "/streams/s1", "/", "/streams/s2/writers/t0-w1")
_PAGE: Final = re.compile(r"""query: \{.*?client_id['"]: ?['"]([0-9a-f-]+)['"]""")


async def look(url: str, path: str) -> None:
    """Has a page open, and takes what it is sent."""
    import websockets

    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        text = (await client.get(path)).raise_for_status().text
    found = _PAGE.search(text)
    if found is None:
        raise SystemExit("this version of the library tells its pages otherwise where to connect")
    query = {"client_id": found[1], "next_message_id": 0, "implicit_handshake": "true", "EIO": 4}
    query |= {"tab_id": secrets.token_hex(8), "document_id": secrets.token_hex(8), "transport": "websocket"}
    asked = httpx.QueryParams(query)
    address = f"ws{url.removeprefix('http')}/_nicegui_ws/socket.io/?{asked}"
    updates = 0
    async with websockets.connect(address, max_size=None) as socket:
        async for frame in socket:
            said = frame if isinstance(frame, str) else ""
            if said.startswith("0"):
                await socket.send("40")  # joins
            elif said == "2":
                await socket.send("3")  # is still there
            elif said.startswith("42"):
                updates += 1
                if updates == 3:  # the page as it came, and what is new since
                    print("live", flush=True)


async def look_at_all(url: str, pages: int) -> None:
    await asyncio.gather(*(look(url, PATHS[number % len(PATHS)]) for number in range(pages)))


@contextmanager
def looking(url: str, pages: int) -> Iterator[None]:
    """Has so many pages open."""
    command = [sys.executable, "-m", "benchmarks.dashboard", "--look", url, "--pages", str(pages)]
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
                with looking(server.url, options.pages) if kind == some else nullcontext():
                    runs[kind].append(load(server, noting(next(rounds)), folder, options.connections, options.seconds))
    rate, reference = middle(runs[some]).per_second, middle(runs[none]).per_second
    print(f"{'':10} {'notes/s':>9} {'p50 ms':>7} {'p99 ms':>7} {'of none':>8}")
    for kind, taken in runs.items():
        found = middle(taken)
        times = f"{found.median_ms:7.2f} {found.p99_ms:7.2f}"
        print(f"{kind:10} {found.per_second:9,.0f} {times} {found.per_second / reference:8.0%}")
    what = f"durable notes a second, SQLite, {some} of the dashboard open"
    return Report([Figure.of(what, rate, none, reference, "a second")])


def main() -> None:
    parser = arguments(__doc__, seconds=3, rounds=3, connections=64, warm_up=1, pages=10)
    parser.add_argument("--look", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.look is not None:
        asyncio.run(look_at_all(options.look, options.pages))
        return
    run(measure, options)


if __name__ == "__main__":
    main()
