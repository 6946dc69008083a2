"""A reader group: which reader reads which segment, and how far. Pure: no clock, no I/O.

    free ──── acquire, or a report that names it ────► owned by a reader
      ▲                                                    │
      └──── release, offline, or silent for too long ──────┘

A segment has two positions. Windows follow what its reader has read; the next reader of the segment continues from what
was settled. A reader that does not report both settles what it reads. A free segment has no unsettled events: when it
becomes free, its position goes back to what was settled.

The position of the whole group is the largest cut inside what was read: what was read of a segment counts once all of
its predecessors have been read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from strandline.core.cut import Cut
from strandline.core.order import SegmentRef, order
from strandline.core.segment import SegmentGraph
from strandline.core.served_time import Moment
from strandline.errors import Fenced, InvalidNote, PositionWentBack, UnknownReader
from strandline.wire.groups import Aside, GroupSettings

READER_FORGOTTEN_MS: Final = 86_400_000

Graphs: TypeAlias = Mapping[str, SegmentGraph]
Positions: TypeAlias = Mapping[str, Mapping[str, int]]


@dataclass(slots=True)
class Reader:
    """A reader: the epoch of its last registration, and when it was last heard."""

    epoch: int
    heard_at: int  # by the clock, for display
    served_at: int  # the served time at that moment
    registration: str | None = None  # the caller's name for its last registration


@dataclass(frozen=True, slots=True)
class StreamStart:
    """Where a group begins in a stream, and the identity of that stream."""

    cut: Cut
    identity: str


@dataclass(slots=True)
class Touched:
    """What has changed since the last write to the store."""

    group: bool = False
    readers: set[str] = field(default_factory=set)
    places: set[SegmentRef] = field(default_factory=set)

    def __bool__(self) -> bool:
        return bool(self.group or self.readers or self.places)


def position_in(graph: SegmentGraph, read: Mapping[str, int]) -> Cut:
    """A group's position in a stream: the largest cut inside what was read of each segment."""
    counted = {}
    finished: set[str] = set()
    for segment in graph:  # each after its predecessors
        if all(name in finished for name in segment.predecessors):
            offset = read.get(segment.id, 0)
            counted[segment.id] = offset
            if offset == segment.final_offset:
                finished.add(segment.id)
    unknown = {segment: offset for segment, offset in read.items() if segment not in graph}
    return Cut(counted | unknown)


class Membership:
    """The readers of a group and the segments that they own. A refused call raises and changes nothing."""

    def __init__(self, name: str, settings: GroupSettings) -> None:
        self.name = name
        self.settings = settings
        self.identities: dict[str, str] = {}  # of its streams: its positions are of these, and of no later ones
        self.epochs = 0
        self.readers: dict[str, Reader] = {}
        self.offsets: dict[SegmentRef, int] = {}  # what was read
        self.unsettled: dict[SegmentRef, int] = {}  # what was settled, if that is less than what was read
        self.owners: dict[SegmentRef, str] = {}
        self.aside: dict[str, Aside] = {}  # by stream, without whom watermarks were reported that it has not passed
        self.held: dict[str, int] = {}  # by key, the reported watermark, if the streams now show a lesser one
        self.times_put_back = 0  # how often a segment went back; a watermark from before may be too high
        self.silent: list[tuple[str, int]] = []  # for the journal: readers that lost segments, and their last calls
        self.touched = Touched()

    def follow(self, before: Membership) -> None:
        """Goes on from what was known before others changed the group."""
        went_back = any(self.offsets.get(place, 0) < offset for place, offset in before.offsets.items())
        self.times_put_back = before.times_put_back + went_back
        if self.settings == before.settings:
            self.settings = before.settings  # one object for as long as nobody changes them

    # -- readers -------------------------------------------------------------------------------------------------

    def register(
        self, name: str, positions: Positions, graphs: Graphs, moment: Moment, registration: str | None = None
    ) -> bool:
        """Registers a reader with a new epoch. It owns exactly these segments, from these positions on, even if that is
        further back. A repeated call with the same `registration` changes nothing but when the reader called last;
        returns whether it is one."""
        self._check(positions, graphs)
        self.time_out_silent(moment)
        before = self.readers.get(name)
        if registration is not None and before is not None and before.registration == registration:
            self._touch(name, before, moment)
            return True
        self._free(place for place, owner in list(self.owners.items()) if owner == name)
        self.epochs += 1
        self.touched.group = True
        self.readers[name] = Reader(self.epochs, moment.now, moment.served, registration)
        self.touched.readers.add(name)
        self._take(name, positions, graphs)
        return False

    def report(
        self,
        name: str,
        epoch: int,
        positions: Positions,
        graphs: Graphs,
        moment: Moment,
        settled: Positions | None = None,
    ) -> None:
        """Records how far a reader has read, and how much of it is settled. It becomes the owner of free segments.

        Without `settled`, everything is settled. With it, a segment that `settled` leaves out stays settled as it was.
        Raises UnknownReader; Fenced for an old epoch or another reader's segment; PositionWentBack; InvalidNote for a
        settled position beyond what was read.
        """
        self._check(positions, graphs)
        self._check_settled(positions, settled or {}, graphs)
        self.time_out_silent(moment)
        reader = self._reader(name, epoch)
        for stream, position in positions.items():
            for segment, offset in position.items():
                owner = self.owners.get((stream, segment))
                if owner is not None and owner != name:
                    raise Fenced(name=name, epoch=epoch, newest=epoch)
                stored = self.offsets.get((stream, segment), 0)
                if offset < stored:
                    raise PositionWentBack(writer=name, segment=segment, offset=offset, stored_offset=stored)
        for stream, position in (settled or {}).items():
            for segment, offset in position.items():
                stored = self.settled_at((stream, segment))
                if offset < stored:
                    raise PositionWentBack(writer=name, segment=segment, offset=offset, stored_offset=stored)
        self._touch(name, reader, moment)
        self._take(name, positions, graphs, settled)

    def acquire(
        self,
        name: str,
        epoch: int,
        most: int,
        graphs: Graphs,
        bound: Callable[[SegmentRef, int], int | None],
        moment: Moment,
    ) -> None:
        """Gives a reader up to `most` free, readable segments, those furthest behind first."""
        self.time_out_silent(moment)
        self._touch(name, self._reader(name, epoch), moment)
        free = {place: self.offsets.get(place, 0) for place in self.readable(graphs) if place not in self.owners}
        for place in order(free, bound)[:most]:
            self._own(name, place, free[place])

    def release(
        self,
        name: str,
        epoch: int,
        positions: Positions,
        graphs: Graphs,
        moment: Moment,
        settled: Positions | None = None,
    ) -> None:
        """Reports and frees segments; each goes back to what is settled of it."""
        self.report(name, epoch, positions, graphs, moment, settled)
        self._free((stream, segment) for stream, position in positions.items() for segment in position)

    def offline(self, name: str, positions: Positions, graphs: Graphs, moment: Moment) -> None:
        """Removes a dead reader: its segments go back to these positions and become free. What it read of their
        successors goes back too."""
        self._check(positions, graphs)
        self.time_out_silent(moment)
        if name not in self.readers:
            raise UnknownReader(group=self.name, reader=name)
        for stream, position in positions.items():
            for segment in position:
                owner = self.owners.get((stream, segment))
                if owner is not None and owner != name:
                    its = self.readers[name].epoch
                    raise Fenced(name=name, epoch=its, newest=its)
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

    def has_silent(self, moment: Moment) -> bool:
        """Whether `time_out_silent` has something to do."""
        silent = {name for name in self.readers if self.is_silent(name, moment)}
        if not silent.isdisjoint(self.owners.values()):
            return True
        forgotten = [name for name in silent if self.readers[name].served_at + READER_FORGOTTEN_MS <= moment.served]
        return len(forgotten) > 1 or (bool(forgotten) and len(self.readers) > 1)

    def time_out_silent(self, moment: Moment) -> None:
        """Frees the segments of silent readers; the segments go back to what was settled. Forgets those that have been
        silent for READER_FORGOTTEN_MS: their epochs are not given out again. The last caller stays, and shows when
        the group was last called."""
        silent = {name for name in self.readers if self.is_silent(name, moment)}
        if silent:
            places = [place for place, owner in list(self.owners.items()) if owner in silent]
            losers = {self.owners[place] for place in places}
            self.silent += [(name, self.readers[name].heard_at) for name in sorted(losers)]
            self._free(places)
            last = max(self.readers, key=lambda name: self.readers[name].heard_at)
            for name in silent - {last}:
                if self.readers[name].served_at + READER_FORGOTTEN_MS <= moment.served:
                    del self.readers[name]
                    self.touched.readers.add(name)

    def configure(
        self,
        settings: GroupSettings,
        starts: Mapping[str, StreamStart],
        watermarks: Mapping[str, int | None],
        moment: Moment,
    ) -> None:
        """Changes the settings. An added stream begins as `starts` says. The positions in a removed stream are
        forgotten, and its readers lose it. The watermarks in `watermarks`, which were reported, never go back: an added
        stream only holds back later ones."""
        self.time_out_silent(moment)
        streams = set(settings.streams)
        if streams != set(self.settings.streams):
            self.held = {key: time for key, time in watermarks.items() if time is not None}
            removed = [place for place in {*self.offsets, *self.owners} if place[0] not in streams]
            self._free(removed)
            for place in removed:
                del self.offsets[place]
                self.unsettled.pop(place, None)
                self.touched.places.add(place)
            self.identities = {stream: each for stream, each in self.identities.items() if stream in streams}
        self.settings = settings
        self.touched.group = True
        for stream, beginning in starts.items():
            self.start(stream, beginning)

    def fence_all(self, epochs: int) -> None:
        """Never gives out an epoch up to this one again, and fences every reader until it registers again."""
        self.epochs = max(self.epochs, epochs) + 1
        self.touched.group = True
        for name, reader in self.readers.items():
            reader.epoch, reader.registration = self.epochs, None
            self.touched.readers.add(name)

    # -- reading -------------------------------------------------------------------------------------------------

    def is_silent(self, name: str, moment: Moment) -> bool:
        """Whether a reader was silent for too long: `time_out_silent` then frees its segments."""
        timeout = self.settings.reader_timeout_ms
        return timeout is not None and self.readers[name].served_at + timeout <= moment.served

    def owned(self, name: str) -> dict[str, dict[str, int]]:
        """The positions of a reader's segments, by stream."""
        found: dict[str, dict[str, int]] = {}
        for (stream, segment), owner in sorted(self.owners.items()):
            if owner == name:
                found.setdefault(stream, {})[segment] = self.offsets.get((stream, segment), 0)
        return found

    def settled_at(self, place: SegmentRef) -> int:
        """How far a segment is settled."""
        return self.unsettled.get(place, self.offsets.get(place, 0))

    def settled(self, name: str) -> dict[str, dict[str, int]]:
        """How far a reader's segments are settled, by stream."""
        found: dict[str, dict[str, int]] = {}
        for (stream, segment), owner in sorted(self.owners.items()):
            if owner == name:
                found.setdefault(stream, {})[segment] = self.settled_at((stream, segment))
        return found

    def share(self, graphs: Graphs, moment: Moment) -> tuple[int, int]:
        """The even share of segments for each reader, rounded up, and the number of readable segments without an owner.

        A segment counts if it is readable, or owned and not read to its end. A segment can be owned before it is
        readable: its predecessor went back to what was settled when that one's reader was lost. If such segments did
        not count, every reader could already have its share, and none would take the predecessor.
        """
        alive = sum(not self.is_silent(name, moment) for name in self.readers)
        readable = set(self.readable(graphs))
        owned = {
            place for place in self.owners if place[0] in graphs and not self._is_finished(place, graphs[place[0]])
        }
        return -(-len(readable | owned) // max(1, alive)), len(readable - self.owners.keys())

    def read(self, stream: str) -> dict[str, int]:
        """How far each segment of a stream was read."""
        return {segment: offset for (name, segment), offset in self.offsets.items() if name == stream}

    def start(self, stream: str, beginning: StreamStart) -> None:
        """Begins in a stream."""
        self.identities[stream] = beginning.identity
        for segment, offset in beginning.cut.items():
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

    def _check_settled(self, positions: Positions, settled: Positions, graphs: Graphs) -> None:
        self._check(settled, graphs)
        for stream, position in settled.items():
            for segment, offset in position.items():
                read = positions.get(stream, {}).get(segment)
                if read is None or offset > read:
                    wanted = "left out: positions does not have it" if read is None else f"at most {read}, the position"
                    raise InvalidNote(name=f"settled of {stream}/{segment}", value=offset, wanted=wanted)

    def _is_finished(self, place: SegmentRef, graph: SegmentGraph) -> bool:
        """Whether a segment was read to its end. In an open stream it may not be in the graph yet, and has no end."""
        segment = place[1]
        return segment in graph and self.offsets.get(place, 0) == graph[segment].final_offset

    def readable(self, graphs: Graphs) -> Iterable[SegmentRef]:
        """The segments that are not read to their end, but all of whose predecessors are."""
        for stream, graph in graphs.items():
            finished = set()
            for segment in graph:
                done = self.offsets.get((stream, segment.id), 0) == segment.final_offset
                if all(name in finished for name in segment.predecessors):
                    if done:
                        finished.add(segment.id)
                    else:
                        yield stream, segment.id

    def _take(self, name: str, positions: Positions, graphs: Graphs, settled: Positions | None = None) -> None:
        for stream, position in positions.items():
            graph = graphs[stream]
            # A reader that continues in a successor implies nothing about its ancestors: they may have gone back since.
            started = [segment for segment in position if self.owners.get((stream, segment)) != name]
            for segment in graph.ancestors(started):
                # A reader that starts a successor has read its own ancestors of it to the end, and the free ones too.
                place, final = (stream, segment), graph[segment].final_offset
                if self.owners.get(place) in (None, name) and segment not in position:
                    self._own(name, place, final or 0, None if settled is None else self.settled_at(place))
                    if place not in self.unsettled:
                        self._free([place])
            for segment, offset in position.items():
                place = stream, segment
                known = offset if settled is None else settled.get(stream, {}).get(segment, self.settled_at(place))
                self._own(name, place, offset, known)
            self._leave_finished(name, stream, position, graph)

    def _leave_finished(self, name: str, stream: str, position: Mapping[str, int], graph: SegmentGraph) -> None:
        """Frees segments that were read to their end and settled, if the reader has started a successor. An unsettled
        one keeps its owner."""
        over = [
            segment
            for segment in position
            if self._is_finished((stream, segment), graph) and (stream, segment) not in self.unsettled
        ]
        if over:
            own = [segment for where, segment in self.owners if where == stream]
            started = graph.ancestors([segment for segment in own if self.owners[stream, segment] == name])
            self._free((stream, segment) for segment in over if segment in started)

    def _own(self, name: str, place: SegmentRef, offset: int, settled: int | None = None) -> None:
        if self.owners.get(place) != name:
            self.owners[place] = name
            self.touched.places.add(place)
        self._put(place, offset, settled)

    def _put(self, place: SegmentRef, offset: int, settled: int | None = None) -> None:
        """Stores how far a segment was read; without `settled`, all of it is settled."""
        before, settled_before = self.offsets.get(place), self.unsettled.get(place)
        if settled is not None and settled < offset:
            self.unsettled[place] = settled
        else:
            self.unsettled.pop(place, None)
        if before != offset or settled_before != self.unsettled.get(place):
            self.offsets[place] = offset
            self.touched.places.add(place)
            if before is not None and offset < before:
                self.times_put_back += 1
                if self.held or self.aside:
                    self.held, self.aside = {}, {}  # the group goes back, so its watermarks may go back too
                    self.touched.group = True

    def _free(self, places: Iterable[SegmentRef]) -> None:
        """Removes the owners of these segments, and sets the positions back to what was settled."""
        for place in places:
            if self.owners.pop(place, None) is not None:
                self.touched.places.add(place)
            if place in self.unsettled:
                self._put(place, self.unsettled[place])

    def _touch(self, name: str, reader: Reader, moment: Moment) -> None:
        reader.heard_at = moment.now
        reader.served_at = max(reader.served_at, moment.served)
        self.touched.readers.add(name)
