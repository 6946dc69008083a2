"""How long it takes from a writer's `note_time` until its mark is seen, beside a bare round trip in the same run.

    python -m benchmarks.marks [--seconds 4] [--rounds 3] [--writers 4] [--rate 25] [--crowd 10000]

Writers note at a moderate rate, each so many times a second, in a stream that makes a mark for every advance. Measured
from the call that brings a mark about:

    seen      a reader that follows the stream by server-sent events has the mark
    window    the writer was answered, and then a question for the window at the mark's cut is answered with it

The reference is the same call of the same client at the same rate, answered by a bare uvicorn application; for a
window, two such calls. Kinds take turns, and medians of the rounds are printed.

Then the same on SQLite while a crowd of 10 000 writers makes some 5 000 notes a second in another stream of the same
controller, which makes a mark of theirs each second.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from benchmarks.figures import Figure, Report, arguments, median, percentile, run
from benchmarks.servers import (
    BARE,
    RunningServer,
    load,
    scratch,
    serving_bare,
    serving_controller,
    stores,
    without_wrk,
)
from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from tests.served import AT_ONCE

SEGMENTS: Final = 4
NAMES: Final = (f"marks-{number}" for number in count(1))
SEEN_DEADLINE_S: Final = 30
SYNCS: Final = 200
CROWDED: Final = "SQLite, 5,000 notes a second beside it"
CROWD_A_SECOND: Final = 5_000
CONNECTIONS: Final = 64  # of the crowd
NOTES: Final = 1_000  # in a request, as the crowd joins
BEGIN_S: Final = 0.5  # in which the crowd comes to its pace
# A crowd's notes, each at its moment. Its times are above those of all earlier rounds.
CROWD: Final = """
local ffi = require("ffi")
ffi.cdef("typedef struct { long s; long us; } moment; int gettimeofday(moment *, void *);")
local read = ffi.new("moment")
local function now_ms()
  ffi.C.gettimeofday(read, nil)
  return tonumber(read.s) * 1000 + tonumber(read.us) / 1000
end
local begun, due, made = nil, 0, START
function delay()
  begun = begun or now_ms()
  due = due + 1
  return math.max(0, math.floor(begun + due * 1000 / RATE - now_ms() + 0.5))
end
local headers = {["content-type"] = "application/json"}
function request()
  made = made + 1
  local body = string.format(
    '{"writer":"w%d","time":%d,"position":{"%d":%d,"%d":%d}}',
    made % WRITERS, made, made % 4, made, (made + 1) % 4, made)
  return wrk.format("POST", "/v1/streams/crowd/notes", headers, body)
end
"""


@dataclass(slots=True)
class Latencies:
    """Milliseconds from the call on: until the note was answered, its mark seen, and a window answered with it."""

    answered: list[float] = field(default_factory=list)
    seen: list[float] = field(default_factory=list)
    window: list[float] = field(default_factory=list)


class Subscriber:
    """Follows a stream's marks in a thread, and keeps when each was there."""

    def __init__(self, url: str, stream: str) -> None:
        address = urlsplit(url)
        assert address.hostname is not None and address.port is not None
        self._socket = socket.create_connection((address.hostname, address.port), SEEN_DEADLINE_S)
        self._socket.sendall(f"GET /v1/streams/{stream}/marks/live HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        self._lines = self._socket.makefile("rb")
        while not self._lines.readline().startswith(b": the marks"):
            pass
        self.at: dict[int, float] = {}
        self._came = threading.Condition()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        for line in self._lines:
            if line.startswith(b"data: "):
                with self._came:
                    self.at[json.loads(line[6:])["seq"]] = time.perf_counter()
                    self._came.notify_all()

    def wait_for(self, seqs: Iterable[int]) -> None:
        wanted = set(seqs)
        with self._came:
            if not self._came.wait_for(lambda: wanted <= self.at.keys(), SEEN_DEADLINE_S):
                raise SystemExit(f"marks were not told: {sorted(wanted - self.at.keys())[:5]}")

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._lines.close()
        self._socket.close()


@dataclass(frozen=True, slots=True)
class Pace:
    """Who notes, how often, and for how long."""

    writers: int
    a_second: int
    seconds: int

    def due(self, writer: int) -> Iterable[float]:
        """When a writer's calls are due, in seconds from the start: writers are spread evenly."""
        return ((number + writer / self.writers) / self.a_second for number in range(self.a_second * self.seconds))


def note_in_step(
    connection: Connection, stream: str, pace: Pace, *, windows: bool
) -> tuple[Latencies, dict[int, float]]:
    """All writers note, each in a thread; also gives when the call was made that brought each mark about."""
    taken, begun, times = Latencies(), dict[int, float](), count(1)
    start = time.perf_counter() + 0.05

    def write(writer: int) -> None:
        for due in pace.due(writer):
            time.sleep(max(0.0, start + due - time.perf_counter()))
            note = _note(writer, next(times))
            called = time.perf_counter()
            answer = connection.run(calls.note(stream, note))
            taken.answered.append(time.perf_counter() - called)
            for mark in answer.marks:
                begun[mark.seq] = called
            if windows and answer.marks:
                ask(answer.marks[-1].seq, answer.marks[-1].cut, called)

    def ask(seq: int, cut: Mapping[str, int], called: float) -> None:
        window = connection.run(calls.time_window(stream, cut))
        if window.mark_seq is None or window.mark_seq < seq:
            raise SystemExit(f"after mark {seq} was answered, a window said {window.mark_seq}")
        taken.window.append(time.perf_counter() - called)

    with ThreadPoolExecutor(pace.writers) as pool:
        for done in [pool.submit(write, writer) for writer in range(pace.writers)]:
            done.result()
    return taken, begun


def _note(writer: int, time: int) -> Note:
    return Note(writer=f"w{writer}", times={"": time}, position={str(writer % SEGMENTS): time})


def latencies(connection: Connection, pace: Pace) -> Latencies:
    """What a controller takes, in a stream of its own."""
    stream = next(NAMES)
    connection.run(calls.create_stream(stream, SEGMENTS, AT_ONCE))
    for writer in range(pace.writers):
        connection.run(calls.register(stream, f"w{writer}"))
    subscriber = Subscriber(connection.controller, stream)
    try:
        taken, begun = note_in_step(connection, stream, pace, windows=True)
        subscriber.wait_for(begun)
        taken.seen += [subscriber.at[seq] - called for seq, called in begun.items()]
    finally:
        subscriber.close()
    return taken


def join(connection: Connection, writers: int) -> None:
    """Makes the crowd's stream, in which each writer notes once."""
    connection.run(calls.create_stream("crowd", SEGMENTS, StreamConfig(max_ahead_ms=None)))
    for begun in range(0, writers, NOTES):
        numbers = range(begun, min(begun + NOTES, writers))
        connection.run(calls.notes("crowd", [_note(number, 1) for number in numbers]))


@contextmanager
def crowd(server: RunningServer, folder: Path, writers: int, round_: int, seconds: float) -> Iterator[list[float]]:
    """Has the crowd note meanwhile, for so long; at the end the list has its rate."""
    text = CROWD.replace("RATE", str(CROWD_A_SECOND)).replace("WRITERS", str(writers))
    text = text.replace("START", str((round_ + 1) * 1_000_000))
    found: list[float] = []
    with ThreadPoolExecutor(1) as pool:
        load_ = pool.submit(load, server, text, folder, CONNECTIONS, math.ceil(seconds + 2 * BEGIN_S))
        time.sleep(BEGIN_S)
        yield found
        found.append(load_.result().per_second)


def sync_ms(folder: Path) -> float:
    """What making one small append durable takes here, at the median."""
    found = []
    with (folder / "synced").open("ab", buffering=0) as file:
        for _ in range(SYNCS):
            file.write(b"x" * 200)
            begun = time.perf_counter()
            os.fdatasync(file.fileno())
            found.append(time.perf_counter() - begun)
    return median(found) * 1000


def measure(options: argparse.Namespace) -> Report:
    report, pace = Report(), Pace(options.writers, options.rate, options.seconds)
    with ExitStack() as opened:
        folder = opened.enter_context(scratch())
        servers = {BARE: serving_bare(opened)}
        for kind, database in stores(opened, folder, report.missing, postgres=bool(options.postgres)).items():
            servers[kind] = serving_controller(opened, database)
        connections = {kind: opened.enter_context(Connection(server.url)) for kind, server in servers.items()}
        rounds: dict[str, list[Latencies]] = {kind: [] for kind in connections}
        for _ in range(options.rounds):
            for kind, connection in connections.items():
                if kind == BARE:
                    rounds[kind].append(note_in_step(connection, "bare", pace, windows=False)[0])
                else:
                    rounds[kind].append(latencies(connection, pace))
        if without_wrk() is None:
            join(connections["SQLite"], options.crowd)
            rounds[CROWDED] = []
            for number in range(options.rounds):
                with crowd(servers["SQLite"], folder, options.crowd, number, pace.seconds) as rate:
                    rounds[CROWDED].append(latencies(connections["SQLite"], pace))
                print(f"a crowd of {options.crowd:,} writers made {rate[0]:,.0f} notes a second")
        print(
            f"{pace.writers} writers, each {pace.a_second} notes a second, {options.rounds} rounds of {pace.seconds} s"
        )
        print(f"one fdatasync here takes {sync_ms(folder):.2f} ms")
    show(rounds, report)
    lacking = without_wrk()
    report.missing.extend([] if lacking is None else [lacking])
    return report


def show(rounds: dict[str, list[Latencies]], report: Report) -> None:
    print(f"{'ms':26} {'p50':>8} {'p99':>8} {'of bare':>12}")
    bare = _percentiles([each.answered for each in rounds[BARE]])
    print(f"{BARE + ', answered':26} {bare[0]:8.2f} {bare[1]:8.2f}")
    for kind, taken in rounds.items():
        if kind == BARE:
            continue
        for what, measured, round_trips in (
            ("answered", [each.answered for each in taken], 1),
            ("seen", [each.seen for each in taken], 1),
            ("window", [each.window for each in taken], 2),
        ):
            found = _percentiles(measured)
            ratios = [each / (round_trips * reference) for each, reference in zip(found, bare, strict=True)]
            print(f"{kind + ', ' + what:26} {found[0]:8.2f} {found[1]:8.2f} {ratios[0]:6.2f} {ratios[1]:5.2f}")
            if what == "answered":
                continue
            trips = "a bare call" if round_trips == 1 else "two bare calls"
            for number, percent in enumerate(("p50", "p99")):
                name = f"note to mark {what}, {kind}, {percent}".replace("mark window", "window with it")
                reference = round_trips * bare[number]
                aim = "≤ 10 ms" if (kind, what, percent) == (CROWDED, "seen", "p99") else ""
                report.figures.append(Figure.of(name, found[number], trips, reference, "ms", aim))


def _percentiles(rounds: list[list[float]]) -> tuple[float, float]:
    """p50 and p99 in ms: the medians of the rounds."""
    p50, p99 = (median(1000 * percentile(each, percent) for each in rounds) for percent in (50, 99))
    return p50, p99


def main() -> None:
    parser = arguments(__doc__, seconds=4, rounds=3, writers=4, rate=25, crowd=10_000, postgres=1)
    run(measure, parser.parse_args())


if __name__ == "__main__":
    main()
