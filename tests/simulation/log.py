"""The truth: the log itself, and every event ever written to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from strandline.core.cut import Cut
from strandline.core.segment import NewSegment

if TYPE_CHECKING:
    from tests.simulation.writers import Process


@dataclass(slots=True, eq=False)
class Event:
    """An event as it is, whoever knows about it. It lies below a cut that reaches past its offset.

    `owed`: by time key, to whom a mark is answerable for it, and the seq after which marks are. `noted`: by time key,
    the time of its writer's first note whose position covers it, or, until then, of the last one before it was written.
    """

    writer: str | None
    process: Process | None
    times: dict[str, int]
    segment: str = ""
    offset: int = -1
    acked: bool = False
    counted: bool = False
    owed: dict[str, dict[str, int]] = field(default_factory=dict)
    noted: dict[str, int] = field(default_factory=dict)

    @property
    def landed(self) -> bool:
        return self.offset >= 0

    def below(self, cut: Cut) -> bool:
        return cut.offset(self.segment) > self.offset

    def __str__(self) -> str:
        return f"{self.writer or 'log'} {self.times} at {self.segment}:{self.offset}"


@dataclass(slots=True)
class Piece:
    """A segment of the log itself."""

    id: str
    low: float
    high: float
    before: tuple[str, ...] = ()
    final: int | None = None
    events: list[Event] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Scaling:
    """Segments sealed at an offset each, and what follows them."""

    seal: Mapping[str, int]
    create: tuple[NewSegment, ...]


class Log:
    """Segments that split and merge. Offsets count events."""

    def __init__(self, count: int, *, open: bool) -> None:
        self.open = open
        self.pieces = {str(n): Piece(str(n), n / count, (n + 1) / count) for n in range(count)}
        self._born = count

    def live(self) -> list[Piece]:
        return [piece for piece in self.pieces.values() if piece.final is None]

    def append(self, event: Event, piece: Piece) -> None:
        assert piece.final is None
        event.segment, event.offset = piece.id, len(piece.events)
        piece.events.append(event)

    def end(self) -> dict[str, int]:
        """The end offset of every segment, as a reader of the log sees it."""
        return {piece.id: len(piece.events) for piece in self.pieces.values()}

    def events(self) -> Iterable[Event]:
        for piece in self.pieces.values():
            yield from piece.events

    def scale(self, parents: list[Piece], parts: int) -> Scaling:
        """Seals adjacent segments and creates `parts` successors over the same range."""
        low, high = parents[0].low, parents[-1].high
        seal = {piece.id: len(piece.events) for piece in parents}
        for piece in parents:
            piece.final = len(piece.events)
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
        return Scaling(seal, tuple(create))

    def neighbours(self) -> list[tuple[Piece, Piece]]:
        pieces = sorted(self.live(), key=lambda piece: piece.low)
        return [(one, two) for one, two in pairwise(pieces) if one.high == two.low]

    def closed(self, position: Mapping[str, int]) -> dict[str, int]:
        """The position with everything before a named segment wholly below it, by the log's own knowledge."""
        offsets = dict(position)
        pending = list(position)
        while pending:
            for name in self.pieces[pending.pop()].before:
                final = self.pieces[name].final
                assert final is not None
                offsets[name] = final
                pending.append(name)
        return offsets

    def newest(self, position: Mapping[str, int], key: str) -> int | None:
        """The greatest time of any event below a position."""
        times = [
            event.times[key]
            for name, offset in self.closed(position).items()
            for event in self.pieces[name].events[:offset]
            if key in event.times
        ]
        return max(times, default=None)
