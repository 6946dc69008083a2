"""What open pages of the dashboard cost: durable notes a second with ten of them open, and with none.

    python -m benchmarks.dashboard [--seconds 3] [--rounds 3] [--pages 10]

The server runs on the first core; wrk, and a program that has the pages open as a browser would, on the last. With and
without pages take turns on one controller with SQLite, and the medians are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import httpx

from benchmarks.notes import ROOT, Run, load, make_streams, serving

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
    last = max(os.sched_getaffinity(0))
    command = [sys.executable, "-m", "benchmarks.dashboard", "--look", url, "--pages", str(pages)]
    process = subprocess.Popen(["taskset", "-c", str(last), *command], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        for _ in range(pages):
            if process.stdout.readline() != "live\n":
                raise SystemExit("a page did not come alive")
        yield
    finally:
        process.terminate()
        process.wait()


def measure(options: argparse.Namespace, folder: Path) -> dict[str, list[Run]]:
    command = ("-m", "controller", "serve", "--port", "0", "--database", str(folder / "store.db"))
    runs: dict[str, list[Run]] = {"no page": [], f"{options.pages} pages": []}
    with serving(*command) as url:
        make_streams(url)
        script, start = folder / "load.lua", 0
        load(url, script, options.connections, 1, start)
        for number in range(options.rounds):
            # Each goes first in turn: a store that grows, or a machine that warms up, favours neither.
            for kind, taken in list(runs.items())[:: -1 if number % 2 else 1]:
                start += 10_000_000
                if kind == "no page":
                    taken.append(load(url, script, options.connections, options.seconds, start))
                    continue
                with looking(url, options.pages):
                    taken.append(load(url, script, options.connections, options.seconds, start))
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=3, help="how long each run takes")
    parser.add_argument("--rounds", type=int, default=3, help="how many runs of each kind")
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--pages", type=int, default=10)
    parser.add_argument("--look", metavar="URL", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.look is not None:
        asyncio.run(look_at_all(options.look, options.pages))
        return
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is not installed: apt-get install -y wrk")
    with tempfile.TemporaryDirectory(prefix="strandline-benchmark-") as folder:
        runs = measure(options, Path(folder))
    reference = statistics.median(run.per_second for run in runs["no page"])
    print(f"{'':10} {'notes/s':>9} {'p50 ms':>7} {'p99 ms':>7} {'of none':>8}")
    for kind, taken in runs.items():
        rate = statistics.median(run.per_second for run in taken)
        p50, p99 = (statistics.median(values) for values in zip(*((r.median_ms, r.p99_ms) for r in taken), strict=True))
        print(f"{kind:10} {rate:9,.0f} {p50:7.2f} {p99:7.2f} {rate / reference:8.0%}")


if __name__ == "__main__":
    main()
