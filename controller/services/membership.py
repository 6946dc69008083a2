"""A reader group: who reads which segment, and how far. Pure: no clock, no I/O.

    free ──── acquire, or a report that names it ────► owned by a reader
      ▲                                                    │
      └──── release, offline, or silent for too long ──────┘

A position is kept for every segment, owned or free. Where the group as a whole stands is the largest cut inside
these positions: what was read of a segment counts once all before it has been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from strandline.cut import Cut
from strandline.errors import Fenced, PositionWentBack, UnknownReader
from strandline.order import Place, order
from strandline.protocol.group_wire import GroupSettings
from strandline.segment import SegmentGraph
from strandline.unserved import Moment

Graphs: TypeAlias = Mapping[str, SegmentGraph]
Positions: TypeAlias = Mapping[str, Mapping[str, int]]


@dataclass(slots=True)
class Reader:
    """A reader: the epoch that it got when it registered last, and when it was heard from."""

    epoch: int
    heard_at: int  # by the clock, for people
    served_at: int  # the served time then


@dataclass(slots=True)
class Touched:
    """What calls have changed since the store was told."""

    group: bool = False
    readers: set[str] = field(default_factory=set)
    places: set[Place] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.group or self.readers or self.places)


class Membership:
    """The readers of a group and the segments that they own. Refused, a call raises and nothing changed."""

    def __init__(self, name: str, settings: GroupSettings) -> None:
        self.name = name
        self.settings = settings
        self.epochs = 0
        self.readers: dict[str, Reader] = {}
        self.offsets: dict[Place, int] = {}
        self.owners: dict[Place, str] = {}
        self.held: dict[str, int] = {}  # by key, the watermark that was told where the streams show a lesser one
        self.silent: list[tuple[str, int]] = []  # who lost segments for silence, and since when, for the journal
        self.touched = Touched()

    # -- readers -------------------------------------------------------------------------------------------------

    def register(self, name: str, positions: Positions, graphs: Graphs, moment: Moment) -> None:
        """Makes a reader anew, with a higher epoch: it owns these segments and no others, from these positions on,
        also where that is further back."""
        self._check(positions, graphs)
        self.let_silent_go(moment)
        self._free(place for place, owner in list(self.owners.items()) if owner == name)
        self.epochs += 1
        self.touched.group = True
        self.readers[name] = Reader(self.epochs, heard_at=moment.now, served_at=moment.served)
        self.touched.readers.add(name)
        self._take(name, positions, graphs)

    def report(self, name: str, epoch: int, positions: Positions, graphs: Graphs, moment: Moment) -> None:
        """A reader has read this far. A segment that nobody owns becomes its own.

        Raises UnknownReader; Fenced for an old epoch, or a segment of another reader's; PositionWentBack.
        """
        self._check(positions, graphs)
        self.let_silent_go(moment)
        reader = self._reader(name, epoch)
        for stream, position in positions.items():
            for segment, offset in position.items():
                owner = self.owners.get((stream, segment))
                if owner is not None and owner != name:
                    raise Fenced(name=name, epoch=epoch, newest=self.readers[owner].epoch)
                stored = self.offsets.get((stream, segment), 0)
                if offset < stored:
                    raise PositionWentBack(writer=name, segment=segment, offset=offset, stored_offset=stored)
        self._heard(name, reader, moment)
        self._take(name, positions, graphs)

    def acquire(
        self,
        name: str,
        epoch: int,
        most: int,
        graphs: Graphs,
        bound: Callable[[Place, int], int | None],
        moment: Moment,
    ) -> None:
        """Gives a reader up to `most` free segments whose turn has come, those furthest behind first."""
        self.let_silent_go(moment)
        self._heard(name, self._reader(name, epoch), moment)
        free = {place: self.offsets.get(place, 0) for place in self.readable(graphs) if place not in self.owners}
        for place in order(free, bound)[:most]:
            self._own(name, place, free[place])

    def release(self, name: str, epoch: int, positions: Positions, graphs: Graphs, moment: Moment) -> None:
        """Gives segments up, each at a position."""
        self.report(name, epoch, positions, graphs, moment)
        self._free((stream, segment) for stream, position in positions.items() for segment in position)

    def offline(self, name: str, positions: Positions, graphs: Graphs, moment: Moment) -> None:
        """A reader died: its segments go back to where it says they were processed, and are free. What it read of
        their successors goes back with them."""
        self._check(positions, graphs)
        self.let_silent_go(moment)
        if name not in self.readers:
            raise UnknownReader(group=self.name, reader=name)
        for stream, position in positions.items():
            for segment in position:
                owner = self.owners.get((stream, segment))
                if owner is not None and owner != name:
                    raise Fenced(name=name, epoch=self.readers[name].epoch, newest=self.readers[owner].epoch)
        for stream, position in positions.items():
            graph = graphs[stream]
            for segment, offset in position.items():
                self._put((stream, segment), offset)
            for later in graph:
                owner = self.owners.get((stream, later.id))
                if later.id not in position and owner in (None, name) and graph.ancestors([later.id]) & set(position):
                    self._put((stream, later.id), 0)
        self._free(place for place, owner in list(self.owners.items()) if owner == name)
        del self.readers[name]
        self.touched.readers.add(name)

    def let_silent_go(self, moment: Moment) -> None:
        """Readers that were not heard from for too long lose their segments, at their last reported positions."""
        silent = {name for name in self.readers if self.is_silent(name, moment)}
        if silent:
            places = [place for place, owner in list(self.owners.items()) if owner in silent]
            losers = {self.owners[place] for place in places}
            self.silent += [(name, self.readers[name].heard_at) for name in sorted(losers)]
            self._free(places)

    def begin_anew(self, epochs: int) -> None:
        """No epoch up to this one is given out any more, and every reader is fenced until it registers anew."""
        self.epochs = max(self.epochs, epochs) + 1
        self.touched.group = True
        for name, reader in self.readers.items():
            reader.epoch = self.epochs
            self.touched.readers.add(name)

    # -- looking -------------------------------------------------------------------------------------------------

    def is_silent(self, name: str, moment: Moment) -> bool:
        """Whether a reader was not heard from for too long: what it owned is free, as soon as anybody looks."""
        timeout = self.settings.reader_timeout_ms
        return timeout is not None and self.readers[name].served_at + timeout <= moment.served

    def owned(self, name: str) -> dict[str, dict[str, int]]:
        """The positions of a reader's segments, by stream."""
        found: dict[str, dict[str, int]] = {}
        for (stream, segment), owner in sorted(self.owners.items()):
            if owner == name:
                found.setdefault(stream, {})[segment] = self.offsets.get((stream, segment), 0)
        return found

    def share(self, graphs: Graphs, moment: Moment) -> tuple[int, int]:
        """How many of the segments that can be read now each reader may have, the even share, rounded up; and how many
        of them nobody owns."""
        alive = sum(not self.is_silent(name, moment) for name in self.readers)
        readable = list(self.readable(graphs))
        return -(-len(readable) // max(1, alive)), sum(place not in self.owners for place in readable)

    def position(self, stream: str, graph: SegmentGraph) -> Cut:
        """Where the group stands in a stream: the largest cut inside what its readers say."""
        said = {segment: offset for (name, segment), offset in self.offsets.items() if name == stream}
        counted = {}
        finished: set[str] = set()
        for segment in graph:  # each after its predecessors
            if all(name in finished for name in segment.predecessors):
                offset = said.get(segment.id, 0)
                counted[segment.id] = offset
                if offset == segment.final_offset:
                    finished.add(segment.id)
        unknown = {segment: offset for segment, offset in said.items() if segment not in graph}
        return Cut(counted | unknown)

    def start(self, stream: str, cut: Cut) -> None:
        """Where the group begins in a stream."""
        for segment, offset in cut.items():
            self._put((stream, segment), offset)

    # -- within --------------------------------------------------------------------------------------------------

    def _reader(self, name: str, epoch: int) -> Reader:
        reader = self.readers.get(name)
        if reader is None:
            raise UnknownReader(group=self.name, reader=name)
        if reader.epoch != epoch:
            raise Fenced(name=name, epoch=epoch, newest=reader.epoch)
        return reader

    def _check(self, positions: Positions, graphs: Graphs) -> None:
        for stream, position in positions.items():
            graphs[stream].cut(position)

    def readable(self, graphs: Graphs) -> Iterable[Place]:
        """The segments that are not read to their end, and whose predecessors all are."""
        for stream, graph in graphs.items():
            finished = set()
            for segment in graph:
                done = self.offsets.get((stream, segment.id), 0) == segment.final_offset
                if all(name in finished for name in segment.predecessors):
                    if done:
                        finished.add(segment.id)
                    else:
                        yield stream, segment.id

    def _take(self, name: str, positions: Positions, graphs: Graphs) -> None:
        for stream, position in positions.items():
            graph = graphs[stream]
            # Who goes on in a successor says nothing of what lies before it: that may have been put back since.
            started = [segment for segment in position if self.owners.get((stream, segment)) != name]
            for segment in graph.ancestors(started):
                # Who starts a successor has read all of its own before it, and so far as anyone knows the free ones.
                place, final = (stream, segment), graph[segment].final_offset
                if self.owners.get(place) in (None, name) and segment not in position:
                    self._put(place, final or 0)
                    self._free([place])
            for segment, offset in position.items():
                self._own(name, (stream, segment), offset)

    def _own(self, name: str, place: Place, offset: int) -> None:
        if self.owners.get(place) != name:
            self.owners[place] = name
            self.touched.places.add(place)
        self._put(place, offset)

    def _put(self, place: Place, offset: int) -> None:
        before = self.offsets.get(place)
        if before != offset:
            self.offsets[place] = offset
            self.touched.places.add(place)
            if before is not None and offset < before and self.held:
                self.held = {}  # the group goes back, and what it is told goes back with it
                self.touched.group = True

    def _free(self, places: Iterable[Place]) -> None:
        for place in places:
            if self.owners.pop(place, None) is not None:
                self.touched.places.add(place)

    def _heard(self, name: str, reader: Reader, moment: Moment) -> None:
        reader.heard_at = moment.now
        reader.served_at = max(reader.served_at, moment.served)
        self.touched.readers.add(name)
