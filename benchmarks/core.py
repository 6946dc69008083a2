"""What a note costs in the core, and the memory of a writer, with few and with very many writers.

    python -m benchmarks.core [--most 100000] [--notes 20000] [--rounds 3]

A note is made of plain values, which checks it, and given to `Stream.note`. That checks it against the stream, keeps it
in the writer's history, and makes a mark when one is due; if there is none, the stream says who holds time back. Marks
are due once a second, at ten thousand notes a second. What a flush would write is drained as often as 64 connections
bring it about. CPU time, in one thread, without HTTP and without a store.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from collections.abc import Sequence
from itertools import count
from typing import Final

from benchmarks.figures import Figure, Report, arguments, median, run
from strandline.core.config import MARK_INTERVAL_DEFAULT_MS, StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream

FEW: Final = 10  # writers
SEGMENTS: Final = 16
NOTES_A_MS: Final = 10
NOTES_A_FLUSH: Final = 64
WIDE_SEGMENTS: Final = 1_024
WIDE_WRITERS: Final = 100
SEGMENTS_OF_MEMORY: Final = 4
WIDE_NOTES: Final = 2_000
WRITERS_OF_MEMORY: Final = 20_000
PIECE: Final = 100  # notes made at once, where memory counts
NOTES_OF_MEMORY: Final = 4  # of each writer

Plain = tuple[str, dict[str, int], dict[str, int]]  # a writer, its times, and its position


class Crowd:
    """A stream, and writers that note in turn, each in all segments."""

    def __init__(self, writers: int, segments: int, mark_interval_ms: int | None = MARK_INTERVAL_DEFAULT_MS) -> None:
        config = StreamConfig(mark_interval_ms=mark_interval_ms, max_ahead_ms=None, writer_timeout_ms=None)
        self.stream = Stream("s", config, SegmentGraph.equal_shares(segments, 0), now=0)
        self._writers = [f"writer-{number}" for number in range(writers)]
        self._segments = [str(number) for number in range(segments)]
        self._noted = count()

    def plain(self, notes: int) -> list[Plain]:
        """What comes from the wire."""
        made: list[Plain] = []
        for _ in range(notes):
            at = next(self._noted)
            writer = self._writers[at % len(self._writers)]
            made.append((writer, {"": 1_000_000 + at}, dict.fromkeys(self._segments, at)))
        return made

    def take(self, notes: Sequence[Plain]) -> None:
        stream = self.stream
        for number, (writer, times, position) in enumerate(notes):
            now = stream.clock + 1 if number % NOTES_A_MS == 0 else stream.clock
            answer = stream.note(Note(writer=writer, times=times, position=position), now)
            if not answer.marks:
                stream.held_by("", now)
            if number % NOTES_A_FLUSH == 0:
                stream.drain()

    def all_note(self) -> None:
        for begun in range(0, len(self._writers), PIECE):
            self.take(self.plain(min(PIECE, len(self._writers) - begun)))

    def note_us(self, notes: int) -> float:
        """The CPU time of a note."""
        given = self.plain(notes)
        begun = time.process_time()
        self.take(given)
        return 1e6 * (time.process_time() - begun) / notes


def writer_bytes(writers: int, segments: int) -> float:
    """The memory of a writer that has noted a few times."""
    tracemalloc.start()
    crowd = Crowd(writers, segments)
    for _ in range(NOTES_OF_MEMORY):
        crowd.all_note()
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken / writers


def measure(options: argparse.Namespace) -> Report:
    report = Report()
    each = writer_bytes(min(options.most, WRITERS_OF_MEMORY), SEGMENTS_OF_MEMORY)
    print(f"memory of a writer in {SEGMENTS_OF_MEMORY} segments: {each:,.0f} bytes")
    crowds = {writers: Crowd(writers, SEGMENTS) for writers in (FEW, options.most // 100, options.most)}
    for crowd in crowds.values():
        crowd.all_note()
    gc.freeze()  # as the controller does: collections scan what is new
    taken: dict[int, list[float]] = {writers: [] for writers in crowds}
    for _ in range(options.rounds):
        for writers, crowd in crowds.items():
            taken[writers].append(crowd.note_us(options.notes))
    found = {writers: median(each) for writers, each in taken.items()}
    for writers, us in found.items():
        print(f"{writers:>9,} writers in {SEGMENTS} segments: {us:6.2f} µs a note")
        name = f"a note in the core, {SEGMENTS} segments, {writers:,} writers"
        report.figures.append(Figure.of(name, us, f"{FEW} writers", found[FEW], "µs", "≤ 5 µs"))
    wide = Crowd(WIDE_WRITERS, WIDE_SEGMENTS, mark_interval_ms=None)
    for _ in range(2):
        wide.all_note()
    us = median(wide.note_us(min(options.notes, WIDE_NOTES)) for _ in range(options.rounds))
    name = f"a note in the core, {WIDE_SEGMENTS:,} segments, {WIDE_WRITERS} writers"
    report.figures.append(Figure.of(name, us, f"{SEGMENTS} segments", found[FEW], "µs"))
    name = f"memory of a writer in {SEGMENTS_OF_MEMORY} segments"
    report.figures.append(Figure(name, f"{each:,.0f} bytes", "", "", "≤ 1,024", each))
    return report


def main() -> None:
    run(measure, arguments(__doc__, most=100_000, notes=20_000, rounds=3).parse_args())


if __name__ == "__main__":
    main()
