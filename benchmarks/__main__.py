"""Every benchmark in turn, and one table of what came out, in Markdown.

    python -m benchmarks [--only notes,marks] [--quick] [--record]

Each part is a program of its own (`python -m benchmarks.notes --help`), runs for itself, and is ended when its time is
over; all of them together take 23 minutes on two quiet cores. `--quick` runs those that need neither
Spark nor PostgreSQL for a moment, and as many at once as there are cores: that shows that they work, and its figures
say nothing.
`--record` keeps what was measured in docs/measured.json, and writes the table of docs/benchmarks.md.

Every figure stands beside one of the same run, since machines differ and are shared. How noisy this one was is told by
a loop of plain Python, timed before each part and at the end; how slow its memory is, by steps to places that nothing
foretells, in more of it than a processor keeps and in little.
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.figures import Report, markdown, median
from benchmarks.record import keep
from benchmarks.servers import ROOT, scratch

TURNS: Final = 5  # of the loop, each time
STEPS: Final = 200_000  # through memory, each time
MUCH: Final = 1 << 22  # places of eight bytes: 32 MiB, which no core has for itself
LITTLE: Final = 1 << 11  # 16 KiB, which each has
END_DEADLINE_S: Final = 20  # in which a part ends what it started


@dataclass(frozen=True, slots=True)
class Part:
    """A program, how long it may take, and what it is given to be quick; None: it has no quick way."""

    name: str
    bound_s: int
    quick: str | None
    usual: str = ""


PARTS: Final = (
    Part("core", 60, "--most 200 --notes 100 --rounds 1"),
    Part("noting", 60, "--notes 500 --rounds 1"),
    Part("calls", 30, "--notes 3"),
    Part("notes", 120, "--seconds 1 --rounds 1 --warm-up 0 --connections 1 --postgres 0", "--seconds 2"),
    Part("batches", 60, "--seconds 1 --rounds 1 --writers 1000 --connections 1 --postgres 0", "--seconds 2"),
    Part(
        "dashboard",
        180,
        "--seconds 1 --rounds 1 --warm-up 0 --connections 1 --pages 1 --streams 5 --updates 1",
        "--seconds 2",
    ),
    Part("marks", 100, "--seconds 1 --rounds 1 --postgres 0"),
    Part("stops", 90, "--writers 100 --many 200 --rounds 1", "--rounds 2"),
    Part("windows", 240, "--marks 3000 --milliseconds 20 --rounds 1 --connections 1", "--rounds 2"),
    Part("controllers", 600, None),
    Part("cold", 120, "--streams 50 --together 8 --writers 50"),
    Part("demo", 120, "--rounds 1 --spark 0"),
    Part("disorder", 60, "--rounds 1 --events 60"),
    Part("spark_throughput", 900, None, "--only own --only kafka"),
    Part("spark_delay", 150, None),
    Part("spark_exactness", 200, None, "--events 300 --steps 15 --replays 0"),
)


class Machine:
    """What this machine is, and how evenly it ran."""

    def __init__(self) -> None:
        self._before = os.getloadavg()[0]
        self._taken: list[float] = []
        self._paths = {places: path_through(places) for places in (MUCH, LITTLE)}
        self._step_ns: dict[int, list[float]] = {places: [] for places in self._paths}

    def measure(self) -> None:
        """Times one and the same loop, and steps through memory."""
        for _ in range(TURNS):
            begun = time.perf_counter()
            sum(range(300_000))
            self._taken.append(time.perf_counter() - begun)
        for places, path in self._paths.items():
            begun, place = time.perf_counter(), 0
            for _ in range(STEPS):
                place = path[place]
            self._step_ns[places].append((time.perf_counter() - begun) / STEPS * 1e9)

    def lines(self) -> Iterator[str]:
        cores, version = len(os.sched_getaffinity(0)), platform.python_version()
        yield f"{cores} cores, {platform.machine()}, {platform.system()}, Python {version}."
        before, after = self._before, os.getloadavg()[0]
        slower = max(self._taken) / min(self._taken) - 1
        yield (
            f"Load before: {before:.1f}, after: {after:.1f}. "
            f"Of {len(self._taken)} times that one loop was run, the slowest took {slower:.0%} longer than the fastest."
        )
        much, little = (median(self._step_ns[places]) for places in (MUCH, LITTLE))
        yield f"A step through 32 MiB of memory took {much:.0f} ns, through 16 KiB {little:.0f} ns."


def path_through(places: int) -> array[int]:
    """At each place the next one: from anywhere through all of them, in an order that a processor does not foresee."""
    return array("q", ((place * 1_664_525 + 1_013_904_223) % places for place in range(places)))


def run(part: Part, options: str, folder: Path) -> Report:
    """Runs one part. One that fails, or takes too long, is told as missing; all that it started ends with it."""
    figures = folder / f"{part.name}.json"
    command = [sys.executable, "-m", f"benchmarks.{part.name}", *options.split(), "--figures", str(figures)]
    print(f"\n== {part.name} {options}", flush=True)
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True)
    try:
        status = process.wait(part.bound_s)
    except subprocess.TimeoutExpired:
        return Report(missing=[f"{part.name}: it took longer than {part.bound_s} s"], failed=True)
    finally:
        end(process)
    if status != 0:
        return Report(missing=[f"{part.name}: it ended with {status}"], failed=True)
    return Report.read(figures)


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a part that still runs as at a terminal, so that it ends its servers, and then whatever is left of it."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(END_DEADLINE_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def run_quickly(parts: Sequence[Part], folder: Path) -> list[Report]:
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(lambda part: run(part, part.quick or "", folder), parts))


def run_in_turn(parts: Sequence[Part], folder: Path, machine: Machine, *, recorded: bool) -> list[Report]:
    reports = []
    for part in parts:
        machine.measure()
        reports.append(run(part, part.usual, folder))
        if recorded:
            keep(part.name, reports[-1], [part.name for part in PARTS])
    return reports


def main() -> int:
    names = [part.name for part in PARTS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", metavar="PART,…", help=f"some of: {', '.join(names)}")
    parser.add_argument("--quick", action="store_true", help="only show that they work, without Spark and PostgreSQL")
    parser.add_argument("--record", action="store_true", help="keep what was measured in docs/measured.json")
    given = parser.parse_args()
    if given.quick and given.record:
        parser.error("the figures of a quick run mean nothing: they are not kept")
    wanted = given.only.split(",") if given.only else names
    unknown = [name for name in wanted if name not in names]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(names)}")
    parts = [part for part in PARTS if part.name in wanted and not (given.quick and part.quick is None)]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # parts are ended then, too
    machine, begun = Machine(), time.monotonic()
    with scratch() as folder:
        reports = (
            run_quickly(parts, folder) if given.quick else run_in_turn(parts, folder, machine, recorded=given.record)
        )
    machine.measure()
    print(f"\n== all, in {time.monotonic() - begun:.0f} s\n")
    for line in (*machine.lines(), "", *markdown(figure for each in reports for figure in each.figures)):
        print(line)
    for missing in dict.fromkeys(missing for each in reports for missing in each.missing):
        print(f"\nNot measured: {missing}")
    return int(any(each.failed for each in reports))


if __name__ == "__main__":
    sys.exit(main())
