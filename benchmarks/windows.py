"""Time windows among a million marks: how many a second, and what the marks cost to keep and to load.

    python -m benchmarks.windows [--marks 1000000] [--segments 16] [--milliseconds 1000] [--rounds 3]

    in the core          positions anywhere in the chain, beside two plain numpy searches of the same in a matrix
    through the cache    `TimeWindows(cached=True)`: positions anywhere, and a reader that moves on slowly
    over HTTP            among the newest marks, which the controller has in memory, and anywhere, where it searches its
                         store; beside a bare uvicorn application

The marks are written to the store directly, since noting a million of them takes longer. Kinds take turns, and medians
are printed.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Final, TypeVar

import numpy as np

from benchmarks.figures import Figure, Report, arguments, median, run
from benchmarks.made_marks import (
    STREAM,
    Asked,
    Rows,
    asked,
    by_columns,
    by_rows,
    cuts,
    moving_on,
    read_plainly,
    store,
    traced_chain,
)
from benchmarks.servers import (
    BARE,
    RunningServer,
    load,
    scratch,
    serving_bare,
    serving_controller,
    without_wrk,
)
from controller.storage.marks import LOADED_MARKS
from reader_client import TimeWindows
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.window import time_window
from tests.served import AT_ONCE

WINDOWS_AFTER: Final = 20
LOAD_DEADLINE_S: Final = 120
MEBIBYTE: Final = 1 << 20

Each = TypeVar("Each")


def a_second(work: Callable[[Each], object], given: Sequence[Each], seconds: float) -> float:
    """How often a second it can be done."""
    begun = time.perf_counter()
    for done, each in enumerate(cycle(given), start=1):
        work(each)
        if done % 16 == 0 and time.perf_counter() - begun > seconds:
            return done / (time.perf_counter() - begun)
    raise AssertionError("there is nothing to do")


@dataclass(slots=True)
class Rates:
    """Kinds that take turns."""

    seconds: float
    rounds: int
    connections: int  # over HTTP

    def of(self, kinds: dict[str, Callable[[], float]]) -> dict[str, float]:
        taken: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(self.rounds):
            for name, measure in kinds.items():
                taken[name].append(measure())
        found = {name: median(each) for name, each in taken.items()}
        for name, rate in found.items():
            print(f"{name:44}{rate:>12,.0f} windows/s", flush=True)
        return found


# -- the parts -----------------------------------------------------------------------------------------------------


def in_the_core(rows: Rows, rates: Rates, report: Report) -> None:
    begun = time.perf_counter()
    chain, mebibytes = traced_chain(rows)
    took = time.perf_counter() - begun
    print(f"a chain of {len(rows):,} marks of {rows.shape[1]} segments, made in {took:.1f} s")
    wanted = asked(rows, 0)
    columns = [np.ascontiguousarray(each) for each in rows.T]
    for cut, row in zip(wanted.cuts[:100], wanted.rows, strict=False):
        assert by_rows(rows, row)[0] == by_columns(columns, row)[0] == (chain.sides(cut).seq or 0)
    ours, searches, bisections = "in the core", "numpy.searchsorted, each segment", "bisect over whole cuts"
    found = rates.of(
        {
            ours: lambda: a_second(lambda cut: time_window(chain, cut, None), wanted.cuts, rates.seconds),
            searches: lambda: a_second(lambda row: by_columns(columns, row), list(wanted.rows), rates.seconds),
            bisections: lambda: a_second(lambda row: by_rows(rows, row), list(wanted.rows), rates.seconds),
        }
    )
    best = max((searches, bisections), key=found.__getitem__)
    many = f"{len(rows):,} marks"
    report.figures.append(
        Figure.of(f"windows a second among {many}, in the core", found[ours], best, found[best], "a second")
    )
    report.figures.append(
        Figure.of(f"memory of {many}", mebibytes, "a matrix of their cuts", rows.nbytes / MEBIBYTE, "MiB", "≤ 250 MiB")
    )


def first_window(url: str, rows: Rows, report: Report) -> None:
    """The first call after a start, for which the controller loads the stream, beside the next ones."""
    position, taken = asked(rows, len(rows) - 1).positions[0], []
    with Connection(url) as connection:
        connection.run(calls.ready())
        for _ in range(WINDOWS_AFTER + 1):
            begun = time.perf_counter()
            window = connection.run(calls.time_window(STREAM, position))
            taken.append(1000 * (time.perf_counter() - begun))
            assert window.mark_seq is not None and window.mark_seq >= len(rows) - 1
    first, then = taken[0], median(taken[1:])
    print(
        f"the first window after a start of the controller took {first:.0f} ms, then one took {then:.1f} ms", flush=True
    )
    report.figures.append(Figure.of("the first window after the controller's start", first, "the next", then, "ms"))


def through_the_cache(url: str, database: Path, rows: Rows, rates: Rates, report: Report) -> None:
    anywhere, moving = asked(rows, 0), moving_on(rows, len(rows) // 2)
    with TimeWindows(url, STREAM, cached=True, keep_marks=len(rows)) as windows:
        begun = time.perf_counter()
        windows.get_time_window({})
        while not windows.following[""].caught_up:
            if time.perf_counter() - begun > LOAD_DEADLINE_S:
                report.missing.append(f"windows through a cache, which had not all marks after {LOAD_DEADLINE_S} s")
                return
            time.sleep(0.01)
        took = time.perf_counter() - begun
        print(f"the reader's cache had them all after {took:.1f} s", flush=True)

        def kind(given: Asked) -> Callable[[], float]:
            return lambda: a_second(windows.get_time_window, given.positions, rates.seconds)

        cached, slowly = "through the cache, anywhere", "through the cache, moving on slowly"
        uncached = "a call each, of the same client"
        with TimeWindows(url, STREAM) as asking:
            newest = asked(rows, len(rows) - LOADED_MARKS // 2)
            found = rates.of(
                {
                    cached: kind(anywhere),
                    slowly: kind(moving),
                    uncached: lambda: a_second(asking.get_time_window, newest.positions, rates.seconds),
                }
            )
    for each in (cached, slowly):
        report.figures.append(Figure.of(f"windows a second {each}", found[each], uncached, found[uncached], "a second"))
    what, beside = "to load them all from the store into a reader's cache", "read by SQLite and json alone"
    report.figures.append(Figure.of(what, took, beside, read_plainly(database), "s", "≤ 60 s"))


def over_http(
    controller: RunningServer, bare: RunningServer, folder: Path, rows: Rows, rates: Rates, report: Report
) -> None:
    newest, anywhere = "over HTTP, the newest marks", "over HTTP, anywhere in the store"
    given = {
        BARE: (bare, asked(rows, 0)),
        newest: (controller, asked(rows, len(rows) - LOADED_MARKS // 2)),
        anywhere: (controller, asked(rows, 0)),
    }

    def kind(server: RunningServer, wanted: Asked) -> Callable[[], float]:
        seconds = max(1, round(rates.seconds))
        return lambda: load(server, script(wanted), folder, rates.connections, seconds).per_second

    found = rates.of({name: kind(*each) for name, each in given.items()})
    for each, aim in ((newest, "ratio ≥ 0.4"), (anywhere, "ratio ≥ 0.2")):
        report.figures.append(Figure.of(f"windows a second {each}", found[each], BARE, found[BARE], "a second", aim))


def script(wanted: Asked) -> str:
    """What wrk runs: a question for the window at each of the positions in turn."""
    bodies = ",\n".join(f"'{json.dumps({'position': each})}'" for each in wanted.positions)
    return f"""
local bodies = {{{bodies}}}
local made = 0
function request()
  made = made % #bodies + 1
  return wrk.format("POST", "/v1/streams/{STREAM}/time-window", {{["content-type"] = "application/json"}}, bodies[made])
end
"""


def measure(options: argparse.Namespace) -> Report:
    report, rates = Report(), Rates(options.milliseconds / 1000, options.rounds, options.connections)
    rows = cuts(options.marks, options.segments)
    in_the_core(rows, rates, report)
    with ExitStack() as opened:
        folder = opened.enter_context(scratch())
        database = folder / "store.db"
        with ExitStack() as first, Connection(serving_controller(first, database).url) as connection:
            connection.run(calls.create_stream(STREAM, options.segments, AT_ONCE))
        store(database, rows)
        controller = serving_controller(opened, database)
        first_window(controller.url, rows, report)
        through_the_cache(controller.url, database, rows, rates, report)
        lacking = without_wrk()
        if lacking is None:
            over_http(controller, serving_bare(opened), folder, rows, rates, report)
        else:
            report.missing.append(lacking)
    return report


def main() -> None:
    parser = arguments(__doc__, marks=1_000_000, segments=16, milliseconds=1000, rounds=3, connections=64)
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
