"""What large installations need, computed from the costs that were measured: the tables of docs/scale.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Self

from benchmarks.core import WIDE_SEGMENTS, WIDE_WRITERS
from benchmarks.figures import Figure, number
from controller.streams.loaded_stream import RECENT_MARKS

BUSY: Final = 0.6  # of a core at most: with more, waiting grows faster than the rate
OFFSET: Final = 1_000_000_000  # of a stored cut: as long as offsets are
DAY_S: Final = 86_400
GIBIBYTE: Final = 1 << 30
MEBIBYTE: Final = 1 << 20

Row = tuple[str, str, str]  # what is needed, how it is computed, and how much it is


@dataclass(frozen=True, slots=True)
class Units:
    """The cost of one of each, as it was measured."""

    note_us: float  # of the controller's CPU, a call each, on PostgreSQL
    batched_note_us: float  # a hundred in a request
    wide_note_us: float  # in the core, in WIDE_SEGMENTS
    window_us: float
    writer_bytes: float
    stream_kib: float
    mark_segment_bytes: float  # of a segment in a mark
    mark_stop_ms: float  # of 100 000 writers

    @classmethod
    def of(cls, figures: Sequence[Figure]) -> Self:
        values = {each.what: each.value for each in figures}

        def value(what: str) -> float:
            found = values[what]
            assert found is not None, what
            return found

        return cls(
            note_us=value("durable notes, PostgreSQL, 10 streams, CPU of one"),
            batched_note_us=value("CPU of a note, 100 in a request, 10,000 writers, PostgreSQL"),
            wide_note_us=value(f"a note in the core, {WIDE_SEGMENTS:,} segments, {WIDE_WRITERS} writers"),
            window_us=1e6 / value("windows a second over HTTP, the newest marks"),
            writer_bytes=value("memory of a writer in 4 segments"),
            stream_kib=value("memory of a loaded stream"),
            mark_segment_bytes=value("memory of 1,000,000 marks") * MEBIBYTE / 1_000_000 / 16,
            mark_stop_ms=value("longest stop of everything else, a mark of 100,000 writers that have all noted"),
        )

    def wide_us(self, segments: int) -> float:
        """A durable note that names so many segments: its cost in the core instead of a small share of it."""
        return self.note_us + self.wide_note_us * segments / WIDE_SEGMENTS


def units(costs: Units) -> Iterator[Row]:
    yield "a durable note, a call each", "`notes`, PostgreSQL", f"{number(costs.note_us)} µs"
    yield "a durable note, 100 in a request", "`batches`, PostgreSQL", f"{number(costs.batched_note_us)} µs"
    yield (
        f"a note that names {WIDE_SEGMENTS:,} segments, in the core",
        "`core`",
        f"{number(costs.wide_note_us)} µs",
    )
    yield "a window among the newest marks", "`windows`", f"{number(costs.window_us)} µs"
    yield "a writer in memory", "`core`, 4 segments", f"{number(costs.writer_bytes)} bytes"
    yield "a stream in memory", "`cold`", f"{number(costs.stream_kib)} KiB"
    yield "a segment of a mark in memory", "`windows`, 16 segments", f"{number(costs.mark_segment_bytes)} bytes"
    yield "a segment of a mark in the store", "its JSON", f"{stored_segment_bytes()} bytes"


def stored_segment_bytes() -> int:
    """What one segment adds to a stored cut."""
    return len(json.dumps({"100": OFFSET}, separators=(",", ":"))) - 1  # a comma in place of the braces


def many_writers(costs: Units, writers: int = 100_000) -> Iterator[Row]:
    """One stream, each writer notes once a second."""
    for how, us in (("a call each", costs.note_us), ("100 in a request", costs.batched_note_us)):
        cores = writers * us / 1e6
        yield f"CPU, {how}", f"{writers:,} × {number(us)} µs a second", f"{number(cores)} cores"
        least = cores / BUSY
        yield f"the least interval of a note on one core, {how}", f"that ÷ {BUSY:.0%}", f"{number(least)} s"
    yield (
        "memory of the writers",
        f"{writers:,} × {number(costs.writer_bytes)} bytes",
        f"{number(writers * costs.writer_bytes / MEBIBYTE)} MiB",
    )
    yield "longest stop by a mark", "`stops`", f"{number(costs.mark_stop_ms)} ms"


def many_segments(costs: Units, streams: int = 1_000, segments: int = 1_000, writers: int = 10) -> Iterator[Row]:
    """Each stream has ten writers, which note once a second and name every segment, and a mark each second."""
    us = costs.wide_us(segments)
    cores = streams * writers * us / 1e6
    yield "CPU of notes", f"{streams:,} × {writers} × {number(us)} µs a second", f"{number(cores)} cores"
    yield "controllers", f"that ÷ {BUSY:.0%}", f"{-(-cores // BUSY):.0f}"
    stored = streams * segments * stored_segment_bytes()
    yield (
        "marks written",
        f"{streams:,} × {segments:,} × {stored_segment_bytes()} bytes a second",
        f"{number(stored / MEBIBYTE)} MiB a second",
    )
    yield "marks of a day", f"that × {DAY_S:,} s", f"{number(stored * DAY_S / GIBIBYTE)} GiB"
    loaded = streams * (costs.stream_kib * 1024 + RECENT_MARKS * segments * costs.mark_segment_bytes)
    yield (
        "memory of streams and their newest marks",
        f"{streams:,} × ({number(costs.stream_kib)} KiB + {RECENT_MARKS:,} × {segments:,} × "
        f"{number(costs.mark_segment_bytes)} bytes)",
        f"{number(loaded / GIBIBYTE)} GiB",
    )


def regions(costs: Units, count: int = 10, writers: int = 10_000, streams: int = 100) -> Iterator[Row]:
    """Each region has its own controllers and store, 100 streams, and 10 000 writers that note once a second."""
    for how, us in (("a call each", costs.note_us), ("100 in a request", costs.batched_note_us)):
        cores = writers * us / 1e6
        yield (
            f"controllers of a region, {how}",
            f"{writers:,} × {number(us)} µs a second ÷ {BUSY:.0%}",
            f"{-(-cores // BUSY):.0f}",
        )
    readers = count * streams
    asked = readers * costs.window_us / 1e6
    yield (
        "CPU of a reader of all regions, a window of each stream a second",
        f"{count} × {streams} × {number(costs.window_us)} µs",
        f"{number(asked)} cores, over {count} regions",
    )


def table(rows: Iterator[Row]) -> Iterator[str]:
    yield "| what | how | how much |"
    yield "|---|---|--:|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
