"""How many notes a second one controller takes in requests of 100, from 10 000 writers, beside a bare loop.

    python -m benchmarks.batches [--seconds 3] [--rounds 3] [--writers 10000] [--connections 8]

The bare loop writes the same into SQLite: a row for each writer, replaced by its newest note, one synced transaction
for each hundred. It decodes nothing, checks nothing and makes no marks. Both run on the first core.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import time
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Final

import httpx

from benchmarks.figures import Figure, Report, arguments, median, run
from benchmarks.servers import Load, load, middle, pinned, scratch, serving_controller, stores, without_wrk

NOTES: Final = 100  # in a request
STREAM: Final = "crowd"
NOTES_A_ROUND: Final = 10_000_000
SCRIPT: Final = """
local made = START
local headers = {["content-type"] = "application/json"}
function request()
  local notes = {}
  for number = 1, NOTES do
    made = made + 1
    notes[number] = string.format(
      '{"writer":"w%d","time":%d,"position":{"%d":%d,"%d":%d}}',
      made % WRITERS, made, made % 4, made, (made + 1) % 4, made)
  end
  return wrk.format("POST", "/v1/streams/STREAM/notes", headers, '{"notes":[' .. table.concat(notes, ",") .. "]}")
end
"""
TABLE: Final = "CREATE TABLE writer (name TEXT PRIMARY KEY, time INTEGER, position TEXT) WITHOUT ROWID"
INSERT: Final = "INSERT OR REPLACE INTO writer VALUES (?, ?, ?)"


def script(round_: int, writers: int) -> str:
    text = SCRIPT.replace("NOTES", str(NOTES)).replace("WRITERS", str(writers))
    return text.replace("START", str(round_ * NOTES_A_ROUND)).replace("STREAM", STREAM)


def bare_loop(path: Path, writers: int, seconds: float) -> float:
    """How many rows a second a loop writes."""
    offsets = [json.dumps({"0": 1_000_000 + number, "1": 1_000_000 + number}) for number in range(NOTES)]
    names = [f"w{number}" for number in range(writers)]
    written = 0
    with closing(sqlite3.connect(path, isolation_level=None)) as store, pinned(0):
        for statement in ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", TABLE):
            store.execute(statement)
        begun = time.perf_counter()
        while (passed := time.perf_counter() - begun) < seconds:
            rows = [(names[(written + n) % writers], written + n, position) for n, position in enumerate(offsets)]
            store.execute("BEGIN")
            store.executemany(INSERT, rows)
            store.execute("COMMIT")
            written += NOTES
    return written / passed


def measure(options: argparse.Namespace) -> Report:
    lacking = without_wrk()
    if lacking is not None:
        return Report(missing=[lacking])
    report = Report()
    with ExitStack() as opened:
        folder = opened.enter_context(scratch())
        found = stores(opened, folder, report.missing, postgres=bool(options.postgres))
        servers = {store: serving_controller(opened, database) for store, database in found.items()}
        for server in servers.values():
            settings = {"segments": 4, "max_ahead_ms": None}
            httpx.put(f"{server.url}/v1/streams/{STREAM}", json=settings, timeout=30).raise_for_status()
        runs: dict[str, list[Load]] = {store: [] for store in servers}
        bare: list[float] = []
        for number in range(options.rounds + 1):  # the first one is not counted: writers join
            for store, server in servers.items():
                text = script(number, options.writers)
                runs[store].append(load(server, text, folder, options.connections, options.seconds))
            bare.append(bare_loop(folder / f"bare-{number}.db", options.writers, options.seconds))
    reference = median(bare[1:])
    print(f"{NOTES} notes in a request, {options.writers:,} writers, {options.connections} connections")
    print(f"{'bare loop':12} {reference:9,.0f} rows/s")
    for store, taken in runs.items():
        middling = middle(taken[1:])
        rate = NOTES * middling.per_second
        print(f"{store:12} {rate:9,.0f} notes/s, CPU {middling.cpu_us / NOTES:5.1f} µs a note")
        what = f"notes a second, {NOTES} in a request, {options.writers:,} writers, {store}"
        report.figures.append(Figure.of(what, rate, "bare loop", reference, "a second", "≥ 50,000"))
        name = f"CPU of a note, {NOTES} in a request, {options.writers:,} writers, {store}"
        cpu_us = middling.cpu_us / NOTES
        report.figures.append(Figure(name, f"{cpu_us:.1f} µs", "", "", "", cpu_us))
    return report


def main() -> None:
    parser = arguments(__doc__, seconds=3, rounds=3, writers=10_000, connections=8, postgres=1)
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
