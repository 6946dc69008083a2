"""What a `note_time` in background mode costs the thread that calls it.

    python -m benchmarks.noting [--notes 100000] [--rounds 5]

A real controller runs in a process of its own; the log is the embedded one. Each call is timed by itself, so the
figures have the clock's own cost in them (the line `nothing`). `controller away`: nobody listens where it should be.
"""

from __future__ import annotations

import argparse
import socket
import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter_ns
from typing import Final

from benchmarks.figures import Figure, Report, arguments, median, percentile, run
from benchmarks.servers import scratch
from strandline.client import calls
from strandline.logs.sqlite import SqliteLog
from tests.served import AT_ONCE, served
from writer_client import BackgroundWriter, Event, Writer

GOAL_MICROSECONDS: Final = 10
NOTHING: Final = "nothing"
WAITING: Final = "waiting for the answer"
WAITING_SHARE: Final = 100  # one waiting note for so many that do not wait


def timed(work: Callable[[], object], times: int) -> list[int]:
    """How long each call takes, in nanoseconds."""
    taken = []
    for _ in range(times):
        start = perf_counter_ns()
        work()
        taken.append(perf_counter_ns() - start)
    return taken


@contextmanager
def away() -> Iterator[str]:
    """An address at which nobody listens, and nobody else can."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{bound.getsockname()[1]}"


def kinds(opened: ExitStack, folder: Path) -> dict[str, Callable[[], object]]:
    """What is measured, by name: each call notes the next time."""
    connection = opened.enter_context(served(folder / "store.db"))
    connection.run(calls.create_stream("benchmark", 2, AT_ONCE))
    log = opened.enter_context(SqliteLog.create(folder / "log.db", 2))
    log.append([Event(b"x", segment="0")])

    def background(name: str, controller: str) -> BackgroundWriter:
        writer = BackgroundWriter(controller, "benchmark", name, log=log)
        opened.callback(writer.release)
        return writer

    bound, given = background("bound", connection.controller), background("given", connection.controller)
    alone = background("alone", opened.enter_context(away()))
    waiting = opened.enter_context(Writer(connection, "benchmark", "waiting", log=log))
    times = count(1)
    return {
        NOTHING: lambda: None,
        "positions from the log": lambda: bound.note_time(next(times)),
        "positions given": lambda: given.note_time(next(times), {"0": 1}),
        "controller away": lambda: alone.note_time(next(times)),
        WAITING: lambda: waiting.note_time(next(times)),
    }


def measure(options: argparse.Namespace) -> Report:
    with ExitStack() as opened:
        measured = kinds(opened, opened.enter_context(scratch()))
        rounds: dict[str, list[list[int]]] = {name: [] for name in measured}
        for _ in range(options.rounds):
            for name, work in measured.items():
                rounds[name].append(timed(work, options.notes // (WAITING_SHARE if name == WAITING else 1)))
    report, means = Report(), dict[str, float]()
    print(f"microseconds for one note_time: medians of {options.rounds} rounds of {options.notes:,} notes")
    print(f"{'':24} {'mean':>8} {'p50':>8} {'p99':>8}   goal: below {GOAL_MICROSECONDS} on average")
    for name, taken in rounds.items():
        mean = means[name] = median(statistics.fmean(each) for each in taken) / 1000
        p50, p99 = (median(percentile(each, percent) for each in taken) / 1000 for percent in (50, 99))
        print(f"{name:24} {mean:8.2f} {p50:8.2f} {p99:8.2f}")
    for name, mean in means.items():
        if name not in (NOTHING, WAITING):
            what = f"`note_time` in the background, {name}"
            report.figures.append(Figure.of(what, mean, "one that waits for its answer", means[WAITING], "µs"))
    return report


def main() -> None:
    run(measure, arguments(__doc__, notes=100_000, rounds=5).parse_args())


if __name__ == "__main__":
    main()
