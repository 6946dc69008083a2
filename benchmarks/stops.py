"""For how long a mark stops everything else that a controller does, in a stream of very many writers.

    python -m benchmarks.stops [--writers 10000] [--many 100000] [--rounds 3]

The controller runs in a process of its own, and a task ticks in its event loop, once a millisecond. All writers note,
in requests of 100. Then a call makes the mark. The longest time between two ticks is the longest stop; beside it is the
CPU time of the loop's own thread between two ticks, without what the machine took for others.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from benchmarks.figures import Figure, Report, arguments, median, run
from benchmarks.servers import RunningServer, scratch, serving
from controller.limits import DEFAULT_LIMITS
from controller.server import Listener, listen, run_here, say_ready
from controller.settings import Settings
from controller.storage.database import check_store
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.core.note import Note

TICK_S: Final = 0.001
NOTES: Final = 100  # in a request
SEGMENTS: Final = 4
CONFIG: Final = StreamConfig(mark_interval_ms=None, max_ahead_ms=None, writer_timeout_ms=None)  # marks by a call alone
STOPS_DEADLINE_S: Final = 10

Stops = tuple[float, float]  # the longest one, in ms, and the most CPU time of the loop's thread between two ticks


# -- in the controller's process -----------------------------------------------------------------------------------


class Ticking:
    """Ticks in the event loop. At each SIGUSR1 it writes the longest stops since the last one to a file."""

    def __init__(self, written: Path) -> None:
        self._written = written
        self._loop = asyncio.get_running_loop()
        self._loop.add_signal_handler(signal.SIGUSR1, self._print)
        self._begin()
        self._tick()

    def _begin(self) -> None:
        self._stops = (0.0, 0.0)
        self._last = (time.perf_counter(), time.thread_time())

    def _tick(self) -> None:
        self._measure()
        self._loop.call_later(TICK_S, self._tick)

    def _measure(self) -> None:
        now = (time.perf_counter(), time.thread_time())
        wall, cpu = (after - before for after, before in zip(now, self._last, strict=True))
        self._stops, self._last = (max(self._stops[0], wall - TICK_S), max(self._stops[1], cpu)), now

    def _print(self) -> None:
        self._measure()
        partly = self._written.with_suffix(".part")
        partly.write_text(" ".join(str(1000 * each) for each in self._stops))
        partly.replace(self._written)
        self._begin()


def serve_ticking(database: str, written: Path) -> None:
    """Serves a new store as `strandline serve` does, and ticks meanwhile."""
    check_store(database)
    listener = Listener(listen("127.0.0.1", 0), tls=False)
    ticking: list[Ticking] = []  # a timer alone does not keep it

    def begin() -> None:
        ticking.append(Ticking(written))
        say_ready(listener)

    run_here(Settings(database=database), listener, begin, DEFAULT_LIMITS)


# -- outside of it -------------------------------------------------------------------------------------------------


class Watched:
    """A controller whose stops are told."""

    def __init__(self, opened: ExitStack, folder: Path) -> None:
        self._written = folder / "stops"
        command = ("-m", "benchmarks.stops", "--serve", str(folder / "store.db"), "--written", str(self._written))
        self.server: RunningServer = serving(opened, *command)
        self.connection = opened.enter_context(Connection(self.server.url))

    def stops(self) -> Stops:
        """The longest ones since they were last asked for."""
        self._written.unlink(missing_ok=True)
        os.kill(self.server.process.pid, signal.SIGUSR1)
        deadline = time.monotonic() + STOPS_DEADLINE_S
        while not self._written.exists():
            if time.monotonic() > deadline:
                raise SystemExit("the controller did not tell its stops")
            time.sleep(0.01)
        wall, cpu = self._written.read_text().split()
        return float(wall), float(cpu)


def once(watched: Watched, stream: str, writers: int, moment: int) -> tuple[Stops, Stops]:
    """All writers note, then the mark is made: the longest stops in both."""
    run = watched.connection.run
    watched.stops()
    for begun in range(0, writers, NOTES):
        run(calls.notes(stream, [note(number, moment) for number in range(begun, min(begun + NOTES, writers))]))
    noting = watched.stops()
    if run(calls.evaluate(stream)).mark is None:
        raise SystemExit("the call made no mark")
    return noting, watched.stops()


def note(writer: int, moment: int) -> Note:
    position = {str((writer + each) % SEGMENTS): moment for each in range(2)}
    return Note(writer=f"writer-{writer}", times={"": moment}, position=position)


def measure(options: argparse.Namespace) -> Report:
    report = Report()
    print(f"{'longest stop, ms':18} {'noting':>8} {'CPU':>8} {'a mark':>8} {'CPU':>8}")
    for writers in (options.writers, options.many):
        with ExitStack() as opened:
            watched = Watched(opened, opened.enter_context(scratch()))
            watched.connection.run(calls.create_stream("crowd", SEGMENTS, CONFIG))
            once(watched, "crowd", writers, 1)  # they join
            rounds = [once(watched, "crowd", writers, 2 + number) for number in range(options.rounds)]
        noting, marking = (_medians([each[at] for each in rounds]) for at in (0, 1))
        print(f"{writers:10,} writers {noting[0]:8.1f} {noting[1]:8.1f} {marking[0]:8.1f} {marking[1]:8.1f}")
        name = f"longest stop of everything else, a mark of {writers:,} writers that have all noted"
        report.figures.append(Figure.of(name, marking[0], "CPU time of it", marking[1], "ms", "≤ 5 ms"))
        name = f"longest stop of everything else, {writers:,} writers note in requests of {NOTES}"
        report.figures.append(Figure.of(name, noting[0], "CPU time of it", noting[1], "ms"))
    return report


def _medians(stops: Sequence[Stops]) -> Stops:
    return median(wall for wall, _ in stops), median(cpu for _, cpu in stops)


def main() -> None:
    parser = arguments(__doc__, writers=10_000, many=100_000, rounds=3)
    parser.add_argument("--serve", metavar="DATABASE", help=argparse.SUPPRESS)
    parser.add_argument("--written", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve_ticking(options.serve, options.written)
        return
    run(measure, options)


if __name__ == "__main__":
    main()
