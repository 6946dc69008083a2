"""What a `note_time` in background mode costs the thread that calls it.

    python -m benchmarks.noting [--notes 100000] [--rounds 5]

A real controller runs in a process of its own; the log is the embedded one. Each call is timed by itself, so the
figures have the clock's own cost in them (the line `nothing`). `away`: nobody listens where the controller should be.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from time import perf_counter_ns

from logs.sqlite import SqliteLog
from strandline.protocol import calls
from tests.served import AT_ONCE, served
from writer_client import BackgroundWriter, Event

GOAL_MICROSECONDS = 10


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


def kinds(opened: ExitStack, scratch: Path) -> dict[str, Callable[[], object]]:
    """What is measured, by name: each call notes the next time."""
    connection = opened.enter_context(served(scratch / "store.db"))
    log = opened.enter_context(SqliteLog.create(scratch / "log.db", 2))
    found: dict[str, Callable[[], object]] = {"nothing": lambda: None}

    def noting(name: str, controller: str, *, bound: bool) -> None:
        writer = BackgroundWriter(controller, "benchmark", name, log=log if bound else None)
        opened.callback(writer.release)
        times = count()
        if bound:
            found[name] = lambda: writer.note_time(next(times))
        else:
            found[name] = lambda: writer.note_time(time := next(times), {"0": time})

    connection.run(calls.create_stream("benchmark", 2, AT_ONCE))
    log.append([Event(b"x", segment="0")])
    noting("positions-from-the-log", connection.controller, bound=True)
    noting("positions-given", connection.controller, bound=False)
    noting("away", opened.enter_context(away()), bound=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--notes", type=int, default=100_000, help="how many notes each round makes")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    with ExitStack() as opened:
        scratch = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="strandline-benchmark-")))
        measured = kinds(opened, scratch)
        rounds: dict[str, list[list[int]]] = {name: [] for name in measured}
        for _ in range(options.rounds):
            for name, work in measured.items():
                rounds[name].append(timed(work, options.notes))
    print(f"microseconds for one note_time: medians of {options.rounds} rounds of {options.notes:,} notes")
    print(f"{'':24} {'mean':>8} {'p50':>8} {'p99':>8}   goal: below {GOAL_MICROSECONDS} on average")
    for name, taken in rounds.items():
        mean = statistics.median(statistics.fmean(each) for each in taken) / 1000
        p50 = statistics.median(statistics.median(each) for each in taken) / 1000
        p99 = statistics.median(statistics.quantiles(each, n=100)[98] for each in taken) / 1000
        print(f"{name:24} {mean:8.2f} {p50:8.2f} {p99:8.2f}")


if __name__ == "__main__":
    main()
