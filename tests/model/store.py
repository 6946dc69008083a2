"""What a controller would have stored of a stream, and the log that it is about."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from strandline.core.aggregate import Remainder
from strandline.core.changes import Changes
from strandline.core.config import StreamConfig
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.core.segment import NewSegment, Segment, SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.stream import Stream


@dataclass(slots=True)
class Store:
    """What survives a crash. It is told of changes only by `Stream.drain`."""

    config: StreamConfig
    segments: dict[str, Segment]
    open: bool
    clock: int
    sealed: bool = False
    epochs: int = 0
    head: Cut = NOTHING
    passed: Mapping[str, int] = field(default_factory=dict)
    writers: dict[str, bytes] = field(default_factory=dict)
    last_marks: dict[str, Mark] = field(default_factory=dict)
    remainders: dict[str, Remainder] = field(default_factory=dict)

    def take(self, stream: Stream, changes: Changes) -> None:
        """Stores what has changed, and nothing else."""
        if changes.stream:
            self.config, self.sealed, self.epochs, self.head = stream.config, stream.sealed, stream.epochs, stream.head
            self.passed, self.remainders = dict(stream.passed), stream.remainders
        self.segments.update(changes.segments)
        for name in changes.forgotten:
            self.writers.pop(name, None)
        for name in changes.writers:
            if name in stream.writers:  # else it is forgotten with what is stored after this
                self.writers[name] = pickle.dumps(stream.writers[name])
        for mark in changes.marks:
            self.last_marks[mark.key] = mark
        for segment in changes.dropped:
            self.segments.pop(segment, None)
            for key, mark in self.last_marks.items():
                self.last_marks[key] = replace(mark, cut=mark.cut.without(segment))
        self.clock = max(self.clock, stream.clock)

    def load(self, history_notes: int, gone_kept_ms: int, unserved: Unserved) -> Stream:
        return Stream.restored(
            "s",
            self.config,
            SegmentGraph(self.segments.values(), open=self.open),
            sealed=self.sealed,
            epochs=self.epochs,
            head=self.head,
            passed=self.passed,
            clock=self.clock,
            writers=[pickle.loads(stored) for stored in self.writers.values()],
            last_marks=self.last_marks.values(),
            remainders=self.remainders,
            history_notes=history_notes,
            gone_kept_ms=gone_kept_ms,
            unserved=unserved,
        )


@dataclass(slots=True)
class Piece:
    """A segment of the log itself."""

    id: str
    low: float
    high: float
    before: tuple[str, ...] = ()
    final: int | None = None
    end: int = 0


class Log:
    """Segments that split and merge."""

    def __init__(self, count: int, *, open: bool) -> None:
        self.open = open
        self.pieces = {str(n): Piece(str(n), n / count, (n + 1) / count) for n in range(count)}
        self._born = count

    def live(self) -> list[Piece]:
        return [piece for piece in self.pieces.values() if piece.final is None]

    def end(self) -> dict[str, int]:
        """The end offset of every segment, as a reader of the log sees it."""
        return {piece.id: piece.end for piece in self.pieces.values()}

    def scale(self, parents: list[Piece], parts: int) -> tuple[Mapping[str, int], list[NewSegment]]:
        """Seals adjacent segments and creates `parts` successors over the same range; returns the seals, and these."""
        low, high = parents[0].low, parents[-1].high
        seal = {piece.id: piece.end for piece in parents}
        for piece in parents:
            piece.final = piece.end
        edges = [low + (high - low) * n / parts for n in range(parts)] + [high]
        create = []
        for part_low, part_high in pairwise(edges):
            name = str(self._born)
            self._born += 1
            before = tuple(p.id for p in parents if p.low < part_high and part_low < p.high)
            self.pieces[name] = Piece(name, part_low, part_high, before)
            if self.open:
                create.append(NewSegment(name, predecessors=before))
            else:
                create.append(NewSegment(name, part_low, part_high))
        return seal, create

    def neighbours(self) -> list[tuple[Piece, Piece]]:
        pieces = sorted(self.live(), key=lambda piece: piece.low)
        return [(one, two) for one, two in pairwise(pieces) if one.high == two.low]
