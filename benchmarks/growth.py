"""How costs grow with what a controller serves: writers, segments, streams, marks.

    python -m benchmarks.growth [--most 100000] [--streams 1000] [--marks 100000] [--seconds 1] [--rounds 3]

Each curve has one cost at sizes that grow by a factor. The exponent is the slope of a straight line through its points
on axes that are both logarithmic: 0 is a cost that does not grow, 1 one that doubles with its size. `make growth`
measures this part, and draws the pictures in docs/images.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import httpx

from benchmarks import cold, made_marks, notes, stops, windows
from benchmarks.core import Crowd, writer_bytes
from benchmarks.figures import Curve, Report, arguments, median, run
from benchmarks.servers import (
    load,
    pinned,
    resident_mib,
    scratch,
    serving_controller,
    without_wrk,
)
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.window import time_window
from tests.served import AT_ONCE

FEW: Final = 4  # segments, where something else grows
SEGMENTS: Final = 16  # of marks
MOST_SEGMENTS: Final = 1_024
WRITERS: Final = 100  # where segments grow
MARKS: Final = 10_000  # where segments grow
MOST_TRACED: Final = 10_000  # writers whose memory is traced, which takes time
NOTES: Final = 2_000
TOGETHER: Final = 64
ROUND_MS: Final = 100.0  # in which a kind of window is asked for


def powers(base: int, first: int, most: int) -> list[int]:
    """The powers of the base from `first` to `most`."""
    found = [first]
    while found[-1] * base <= most:
        found.append(found[-1] * base)
    return found


def curve(
    picture: str, what: str, unit: str, against: str, sizes: Iterable[int], cost: Callable[[int], float]
) -> Curve:
    points = []
    for size in sizes:
        points.append((size, cost(size)))
        print(f"{what:44} {size:>9,} {against:12} {points[-1][1]:12,.3f} {unit}", flush=True)
    gc.collect()
    return Curve(picture, what, unit, against, points)


# -- in one thread -------------------------------------------------------------------------------------------------


def note_us(writers: int, segments: int, rounds: int) -> float:
    """A note, while no mark is due."""
    crowd = Crowd(writers, segments, mark_interval_ms=None)
    crowd.all_note()
    crowd.all_note()
    return median(crowd.note_us(NOTES) for _ in range(rounds))


def mark_ms(writers: int, segments: int, rounds: int) -> float:
    """A mark after all writers have noted, while none was due."""
    crowd = Crowd(writers, segments, mark_interval_ms=None)
    crowd.all_note()
    found = []
    for _ in range(rounds):
        crowd.all_note()
        begun = time.process_time()
        mark = crowd.stream.evaluate("", crowd.stream.clock)
        found.append(1000 * (time.process_time() - begun))
        assert mark is not None
    return median(found)


def window_us(marks: int, segments: int, rounds: int) -> float:
    rows = made_marks.cuts(marks, segments)
    chain, wanted = made_marks.chain_of(rows), made_marks.asked(rows, 0).cuts
    rates = [
        windows.a_second(lambda cut: time_window(chain, cut, None), wanted, ROUND_MS / 1000) for _ in range(rounds)
    ]
    return 1e6 / median(rates)


def marks_mib(marks: int) -> float:
    return made_marks.traced_chain(made_marks.cuts(marks, SEGMENTS))[1]


def in_one_thread(options: argparse.Namespace, report: Report) -> None:
    writers, segments = powers(10, 10, options.most), powers(4, 1, min(MOST_SEGMENTS, options.most))
    marks, rounds = powers(10, 1_000, options.marks), options.rounds
    crowd, spread = f"{FEW} segments", f"{WRITERS} writers"
    report.curves.extend(
        (
            curve("note", f"a note, {crowd}", "µs", "writers", writers, lambda n: note_us(n, FEW, rounds)),
            curve("note", f"a note, {spread}", "µs", "segments", segments, lambda n: note_us(WRITERS, n, rounds)),
            curve("mark", f"a mark, {crowd}", "ms", "writers", writers, lambda n: mark_ms(n, FEW, rounds)),
            curve("mark", f"a mark, {spread}", "ms", "segments", segments, lambda n: mark_ms(WRITERS, n, rounds)),
            curve("window", "a window in the core", "µs", "marks", marks, lambda n: window_us(n, SEGMENTS, rounds)),
            curve(
                "window",
                "a window in the core",
                "µs",
                "segments",
                segments,
                lambda n: window_us(min(MARKS, options.marks), n, rounds),
            ),
            curve(
                "memory",
                "writers in memory",
                "MiB",
                "writers",
                [size for size in writers[1:] if size <= MOST_TRACED],
                lambda n: writer_bytes(n, FEW) * n / 2**20,
            ),
            curve("memory", "marks in memory", "MiB", "marks", marks, marks_mib),
        )
    )


# -- over HTTP -----------------------------------------------------------------------------------------------------


def durable_note_us(streams: int, folder: Path, seconds: int) -> float:
    """The CPU time of the controller for a durable note, if a thousand writers share so many streams."""
    with ExitStack() as opened:
        server = serving_controller(opened, folder / f"notes-{streams}.db")
        notes.make_streams(server.url, streams)
        load(server, notes.noting(0, streams), folder, TOGETHER, seconds)
        return load(server, notes.noting(1, streams), folder, TOGETHER, seconds).cpu_us


def stored_window_us(marks: int, folder: Path, seconds: int) -> float:
    """The CPU time of the controller for a window anywhere in its store."""
    database, rows = stored_marks(marks, folder)
    with ExitStack() as opened:
        server = serving_controller(opened, database)
        return load(server, windows.script(made_marks.asked(rows, 0)), folder, TOGETHER, seconds).cpu_us


def stored_marks(marks: int, folder: Path) -> tuple[Path, made_marks.Rows]:
    """A store with so many marks, made when it is first asked for."""
    database, rows = folder / f"marks-{marks}.db", made_marks.cuts(marks, SEGMENTS)
    if not database.exists():
        with ExitStack() as opened, Connection(serving_controller(opened, database).url) as connection:
            connection.run(calls.create_stream(made_marks.STREAM, SEGMENTS, AT_ONCE))
        made_marks.store(database, rows)
    return database, rows


def first_answer_ms(database: Path, stream: str) -> float:
    """From the start of a controller until a window of that stream is answered."""
    with ExitStack() as opened:
        begun = time.perf_counter()
        url = serving_controller(opened, database).url
        asked = f"{url}/v1/streams/{stream}/time-window"
        httpx.post(asked, json={"position": {"0": 1}}, timeout=30).raise_for_status()
        return 1000 * (time.perf_counter() - begun)


def start_with_writers(writers: int, folder: Path, rounds: int) -> float:
    database = folder / f"writers-{writers}.db"
    with ExitStack() as opened, Connection(serving_controller(opened, database).url) as connection:
        connection.run(calls.create_stream("crowd", FEW, AT_ONCE))
        for begun in range(0, writers, stops.NOTES):
            ends = min(begun + stops.NOTES, writers)
            connection.run(calls.notes("crowd", [stops.note(number, 1) for number in range(begun, ends)]))
    return median(first_answer_ms(database, "crowd") for _ in range(rounds))


def over_http(options: argparse.Namespace, folder: Path, report: Report) -> None:
    sizes, marks = powers(10, 10, options.streams), powers(10, 1_000, options.marks)
    rounds = options.rounds
    if without_wrk() is None:
        report.curves.extend(
            (
                curve(
                    "note",
                    "a durable note, 1,000 writers, SQLite",
                    "µs",
                    "streams",
                    [size for size in powers(10, 1, options.streams) if size <= notes.WRITERS],
                    lambda n: durable_note_us(n, folder, options.seconds),
                ),
                curve(
                    "window",
                    "a window anywhere in SQLite, over HTTP",
                    "µs",
                    "marks",
                    marks,
                    lambda n: stored_window_us(n, folder, options.seconds),
                ),
            )
        )
    else:
        report.missing.append(str(without_wrk()))
    streams = folder / "streams.db"
    memory: dict[int, float] = {}
    starts: dict[int, float] = {}
    for begun, size in zip((0, *sizes), sizes, strict=False):  # the store grows
        names = [f"s{number}" for number in range(size)]
        with ExitStack() as opened:
            server = serving_controller(opened, streams)
            asyncio.run(cold.all_of(server, names[begun:], TOGETHER, cold.make))
        with ExitStack() as opened:
            server = serving_controller(opened, streams)
            before = resident_mib(server.process.pid)
            asyncio.run(cold.all_of(server, names, TOGETHER, cold.ask))
            memory[size] = resident_mib(server.process.pid) - before
        starts[size] = median(first_answer_ms(streams, "s0") for _ in range(rounds))
    report.curves.extend(
        (
            curve("memory", "loaded streams", "MiB", "streams", sizes[1:], memory.__getitem__),
            curve("start", "start to the first answer", "ms", "streams", sizes, starts.__getitem__),
            curve(
                "start",
                "start to the first answer, one stream",
                "ms",
                "writers",
                powers(10, 100, options.most),
                lambda n: start_with_writers(n, folder, rounds),
            ),
            curve(
                "start",
                "start to the first answer, one stream",
                "ms",
                "marks",
                marks,
                lambda n: median(first_answer_ms(stored_marks(n, folder)[0], made_marks.STREAM) for _ in range(rounds)),
            ),
        )
    )


def measure(options: argparse.Namespace) -> Report:
    report = Report()
    with ExitStack() as opened, pinned(-1):
        in_one_thread(options, report)
        over_http(options, opened.enter_context(scratch()), report)
    return report


def main() -> None:
    parser = arguments(__doc__, most=100_000, streams=1_000, marks=100_000, seconds=1, rounds=3)
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
