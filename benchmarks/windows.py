"""Time windows among a million marks: how many a second, and what the marks cost to keep and to load.

    python -m benchmarks.windows [--marks 1000000] [--segments 16] [--seconds 1] [--rounds 3]

    in the core          positions anywhere in the packed chain, beside two plain numpy searches of the same, unpacked
    through the cache    `TimeWindows(cached=True)`: positions anywhere, and a reader that moves on slowly
    over HTTP            among the newest marks, which the controller has in memory, and anywhere, where it searches its
                         store; beside a bare uvicorn application

The marks are written to the store directly, since noting a million of them takes longer. Kinds take turns, and medians
are printed.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.figures import Figure, Report, arguments, median, number, run
from benchmarks.servers import BARE, load, middle, scratch, serving_bare, serving_controller, without_wrk
from controller.limits import LOADED_MARKS
from reader_client import TimeWindows
from strandline.chain import MarkChain
from strandline.cut import Cut
from strandline.mark import Mark
from strandline.protocol import calls
from strandline.protocol.transport import Connection
from strandline.window import time_window
from tests.served import AT_ONCE

STREAM: Final = "million"
MOST_ADDED: Final = 20  # to a segment, from a mark to the next
POSITIONS: Final = 1_000
STEPS: Final = 10
PIECE: Final = 10_000  # marks written at a time
CONNECTIONS: Final = 64
LOAD_DEADLINE_S: Final = 200
MEBIBYTE: Final = 1 << 20

Rows = NDArray[np.int64]
Each = TypeVar("Each")


@dataclass(frozen=True, slots=True)
class Asked:
    """Positions among the marks: as rows of a matrix, and as a reader has them."""

    rows: Rows
    positions: list[dict[str, int]]

    @property
    def cuts(self) -> list[Cut]:
        return [Cut(each) for each in self.positions]


def cuts(count: int, segments: int) -> Rows:
    """The cuts of so many marks: none goes back, and each is further than the one before."""
    added = np.random.default_rng(1).integers(0, MOST_ADDED, (count, segments))
    added[:, 0] += 1
    return added.cumsum(axis=0, dtype=np.int64)


def asked(rows: Rows, first: int) -> Asked:
    """Positions among the marks from `first` on: every segment somewhat further than a mark, each by its own."""
    draw = np.random.default_rng(2)
    at = draw.integers(first, len(rows), POSITIONS)
    return _asked(rows[at] + draw.integers(0, 3 * MOST_ADDED, (POSITIONS, rows.shape[1])))


def moving_on(rows: Rows, first: int) -> Asked:
    """Positions of a reader that moves on from mark `first`, in some steps from each mark to the next."""
    at, step = np.divmod(np.arange(min(POSITIONS, STEPS * (len(rows) - first - 1))), STEPS)
    before, after = rows[first + at], rows[first + at + 1]
    return _asked(before + (after - before) * step[:, np.newaxis] // STEPS)


def _asked(rows: Rows) -> Asked:
    return Asked(rows, [{str(n): offset for n, offset in enumerate(row)} for row in rows.tolist()])


def chain_of(rows: Rows) -> MarkChain:
    chain = MarkChain("")
    for start in range(0, len(rows), PIECE):
        for seq, row in enumerate(rows[start : start + PIECE].tolist(), start=start + 1):
            cut = Cut({str(n): offset for n, offset in enumerate(row) if offset})
            mark = Mark(seq=seq, key="", time=seq, upper=seq, cut=cut, newest=None, excluded=(), created_at=0)
            chain.append(mark)
    return chain


def store(path: Path, rows: Rows) -> None:
    """Puts the marks into the store of a controller that is not running, and has the stream."""
    names = [str(n) for n in range(rows.shape[1])]

    def values() -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(rows), PIECE):
            for seq, row in enumerate(rows[start : start + PIECE].tolist(), start=start + 1):
                cut = {name: offset for name, offset in zip(names, row, strict=True) if offset}
                yield STREAM, "", seq, seq, seq, json.dumps(cut, separators=(",", ":")), None, "[]", 0, fence

    with sqlite3.connect(path) as connection:
        fence = connection.execute("SELECT fence FROM stream").fetchone()[0]
        columns = "stream, key, seq, time, upper, cut, newest, excluded, created_at, fence"
        connection.executemany(f"INSERT INTO mark ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values())
    connection.close()


def by_columns(columns: Sequence[Rows], position: Rows) -> tuple[int, int]:
    """The bounds as numpy finds them in the unpacked cuts: a search for each segment, from either side."""
    passed = min(int(np.searchsorted(each, offset, "right")) for each, offset in zip(columns, position, strict=True))
    ahead = max(int(np.searchsorted(each, offset, "left")) for each, offset in zip(columns, position, strict=True))
    return passed, ahead


def by_rows(rows: Rows, position: Rows) -> tuple[int, int]:
    """The same by bisection over whole cuts."""
    passed = bisect_left(range(len(rows)), True, key=lambda n: bool((rows[n] > position).any()))
    ahead = bisect_left(range(len(rows)), True, key=lambda n: bool((rows[n] >= position).all()))
    return passed, ahead


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
    chain = chain_of(rows)
    took = time.perf_counter() - begun
    print(f"a chain of {len(rows):,} marks of {rows.shape[1]} segments, made in {took:.1f} s")
    wanted = asked(rows, 0)
    columns = [np.ascontiguousarray(each) for each in rows.T]
    for cut, row in zip(wanted.cuts[:100], wanted.rows, strict=False):
        passed = chain.passed(cut)
        assert by_rows(rows, row)[0] == by_columns(columns, row)[0] == (0 if passed is None else passed.seq)
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
    packed, unpacked = chain.packed_bytes / MEBIBYTE, rows.nbytes / MEBIBYTE
    report.figures.append(
        Figure.of(f"windows a second among {many}, in the core", found[ours], best, found[best], "a second")
    )
    report.figures.append(Figure.of(f"memory of {many}", packed, "unpacked", unpacked, "MiB"))


def through_the_cache(url: str, rows: Rows, rates: Rates, report: Report) -> None:
    anywhere, moving = asked(rows, 0), moving_on(rows, len(rows) // 2)
    with TimeWindows(url, STREAM, cached=True, keep_marks=len(rows)) as windows:
        begun = time.perf_counter()
        windows.get_time_window({})
        while not windows.following[""].caught_up:
            if time.perf_counter() - begun > LOAD_DEADLINE_S:
                raise SystemExit(f"the cache has not caught up: {windows.following['']}")
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
        report.figures.append(Figure.of(f"the same {each}", found[each], uncached, found[uncached], "a second"))
    report.figures.append(Figure("to load them all into a reader's cache", f"{number(took)} s", "", ""))


def over_http(url: str, bare: str, folder: Path, rows: Rows, rates: Rates, report: Report) -> None:
    newest, anywhere = "over HTTP, the newest marks", "over HTTP, anywhere in the store"
    given = {
        BARE: (bare, asked(rows, 0)),
        newest: (url, asked(rows, len(rows) - LOADED_MARKS // 2)),
        anywhere: (url, asked(rows, 0)),
    }

    def kind(url: str, wanted: Asked) -> Callable[[], float]:
        seconds = max(1, round(rates.seconds))
        return lambda: middle([load(url, script(wanted), folder, CONNECTIONS, seconds)]).per_second

    found = rates.of({name: kind(*each) for name, each in given.items()})
    for each in (newest, anywhere):
        report.figures.append(Figure.of(f"the same {each}", found[each], BARE, found[BARE], "a second"))


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
    report, rates = Report(), Rates(options.milliseconds / 1000, options.rounds)
    rows = cuts(options.marks, options.segments)
    in_the_core(rows, rates, report)
    with ExitStack() as opened:
        folder = opened.enter_context(scratch())
        database = folder / "store.db"
        with ExitStack() as first:
            url = serving_controller(first, database)
            with Connection(url) as connection:
                connection.run(calls.create_stream(STREAM, options.segments, AT_ONCE))
        store(database, rows)
        url = serving_controller(opened, database)
        with Connection(url) as connection:
            begun = time.perf_counter()
            window = connection.run(calls.time_window(STREAM, asked(rows, len(rows) - 1).positions[0]))
            took = time.perf_counter() - begun
        assert window.mark_seq is not None and window.mark_seq >= len(rows) - 1
        print(f"the first window after a start of the controller took {1000 * took:.0f} ms", flush=True)
        report.figures.append(Figure("first window after a start of the controller", f"{number(took)} s", "", ""))
        through_the_cache(url, rows, rates, report)
        lacking = without_wrk()
        if lacking is None:
            over_http(url, serving_bare(opened), folder, rows, rates, report)
        else:
            report.missing.append(lacking)
    return report


def main() -> None:
    run(measure, arguments(__doc__, marks=1_000_000, segments=16, milliseconds=1000, rounds=3).parse_args())


if __name__ == "__main__":
    main()
