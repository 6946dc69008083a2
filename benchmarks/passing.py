"""What it costs that a call came to the wrong controller, beside the same call at its owner, in the same run.

    python -m benchmarks.passing [--seconds 3] [--rounds 3] [--connections 64]

One controller owns all streams; another one passes every call on to it. Both run on the first core, wrk on the last:
so the ratio of the rates compares the work of two controllers with that of one.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import sys
from contextlib import ExitStack
from time import monotonic_ns
from typing import Final

from benchmarks.figures import Figure, Report, arguments, run, spread
from benchmarks.notes import make_streams, noting
from benchmarks.servers import Load, load, middle, scratch, serving, serving_controller, without_wrk
from controller.cluster.actions import PassOn, Route
from controller.cluster.records import ControllerRow, Kind

STRAIGHT: Final = "straight"
READING: Final = """
wrk.method = "POST"
wrk.path = "/v1/streams/s0/time-window"
wrk.headers["content-type"] = "application/json"
wrk.body = '{"position":{"0":1}}'
"""


class OneOwner:
    """Says that one other controller owns everything. It is asked without a hop only, since it passes all calls on."""

    me = 1

    def __init__(self, address: str) -> None:
        self._row = ControllerRow(2, "owner", address, None, "", 0, 0, 0, False, None)

    def monotonic(self) -> int:
        return monotonic_ns() // 1_000_000

    def route(self, kind: Kind, name: str, *, passed_on_to: int | None = None) -> Route:
        return PassOn(self._row)

    def refresh(self) -> None:
        """Nothing changes here."""

    async def changed(self, until: int) -> bool:
        await asyncio.sleep(max(0, until - self.monotonic()) / 1000)
        return False


def serve(database: str, owner: str) -> None:
    """Serves a controller that passes all calls on."""
    import uvicorn

    from controller.app import create_app
    from controller.server import Server
    from controller.settings import Settings

    app = create_app(Settings(database=database), directory=OneOwner(owner))
    config = uvicorn.Config(
        app, loop="uvloop", ws="none", lifespan="on", log_level="warning", access_log=False,
        proxy_headers=False, server_header=False, date_header=False,
    )  # fmt: skip
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Server(config, app).run(sockets=[listener])


def measure(options: argparse.Namespace) -> Report:
    lacking = without_wrk()
    if lacking is not None:
        return Report(missing=[lacking])
    report = Report()
    with ExitStack() as opened:
        folder = opened.enter_context(scratch())
        owner = serving_controller(opened, folder / "owner.db")
        command = ("-m", "benchmarks.passing", "serve", str(folder / "other.db"), owner)
        urls = {STRAIGHT: owner, "passed on": opened.enter_context(serving(*command))}
        make_streams(owner)
        print(f"{options.connections} connections, {options.rounds} runs of {options.seconds} s")
        print(f"{'':28} {'a second':>9} {'lowest–highest':>16} {'p50 ms':>7} {'p99 ms':>7} {'ratio':>7}")
        for what in ("notes", "windows"):
            runs: dict[str, list[Load]] = {kind: [] for kind in urls}
            for number in range(options.rounds + 1):  # the first one is not counted
                for kind, url in urls.items():
                    script = noting(2 * number + (kind != STRAIGHT)) if what == "notes" else READING
                    runs[kind].append(load(url, script, folder, options.connections, options.seconds))
            show(what, {kind: taken[1:] for kind, taken in runs.items()}, report)
    return report


def show(what: str, runs: dict[str, list[Load]], report: Report) -> None:
    reference = middle(runs[STRAIGHT]).per_second
    for kind, taken in runs.items():
        found = middle(taken)
        rate, between = found.per_second, spread([each.per_second for each in taken])
        times = f"{found.median_ms:7.2f} {found.p99_ms:7.2f}"
        print(f"{f'{what}, {kind}':28} {rate:9,.0f} {between:>16} {times} {rate / reference:7.0%}")
        if kind != STRAIGHT:
            report.figures.append(Figure.of(f"{what} a second, {kind}", rate, STRAIGHT, reference, "a second"))


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        serve(*sys.argv[2:])
        return
    run(measure, arguments(__doc__, seconds=3, rounds=3, connections=64).parse_args())


if __name__ == "__main__":
    main()
