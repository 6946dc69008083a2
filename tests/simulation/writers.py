"""Processes that write, or watch the log's end, and note what is true.

A process of a writer holds to the promise: it notes (T, P) only when every event of its writer older than T, written
or still to come, lies below P; only acknowledged writes count. It may know no more of its predecessor than the floor
that registering gave, and where the log ended then. It settles every earlier call before it says idle or closes, and
registers before it appends again, unless it is *impolite*: then it has late events, and is to be told.

Events that it writes in a transaction are acknowledged with the commit, or never. Some land in the log before that, as
in Kafka's. While a transaction is open a process notes nothing that it has not promised before.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum, auto
from typing import TYPE_CHECKING

from strandline.core.changes import NoteResult, Registered
from strandline.core.note import Note
from strandline.errors import Fenced, PositionWentBack, Refused
from tests.simulation.log import Event
from tests.simulation.network import Call, Kind, Reply

if TYPE_CHECKING:
    from tests.simulation.world import World


class Phase(StrEnum):
    STARTING = auto()
    RUNNING = auto()
    FINISHING = auto()
    IDLE = auto()
    GONE = auto()
    DEAD = auto()


class Process:
    """One process of a writer, or of a tail reporter."""

    def __init__(
        self, world: World, name: str, number: int, *, registers: bool, impolite: bool, tail: bool = False
    ) -> None:
        self.world = world
        self.name = name
        self.number = number
        self.registers = registers
        self.impolite = impolite
        self.replays = world.random.random() < 0.5  # once registered, it begins again at its floor
        self.tail = tail
        self.phase = Phase.STARTING if registers else Phase.RUNNING
        self.ends_by = Kind.IDLE
        self.epoch: int | None = None
        self.floors: Mapping[str, int | None] = {}
        self.bounds: dict[str, int] = {}  # no event older than this will be written any more
        self.flying: list[Event] = []  # written, not acknowledged
        self.transaction: list[Event] | None = None  # written in one that is open
        self.position: dict[str, int] = {}  # acknowledged
        self.accepted: dict[str, int] = {}  # noted, and answered
        self.open_calls: list[Call] = []
        self.planned: tuple[dict[str, int], list[Event]] | None = None  # a note, and what it waits for
        self.reading: int | None = None  # the clock, as last read

    def __str__(self) -> str:
        return f"{self.name}#{self.number}"

    @property
    def alive(self) -> bool:
        return self.phase is not Phase.DEAD

    @property
    def writes(self) -> bool:
        return self.phase is Phase.RUNNING or (self.phase is Phase.IDLE and self.impolite)

    # -- calls ---------------------------------------------------------------------------------------------------

    def call(self, kind: Kind, note: Note | None = None) -> None:
        keys = None
        if kind is Kind.REGISTER and self.world.keys_named(self):
            keys = self.world.keys_of[self.name]
        call = Call(kind, self, self.epoch if kind is not Kind.REGISTER else None, keys, note)
        self.open_calls.append(call)
        self.world.send(call)

    def waits_for(self, kind: Kind) -> bool:
        return any(call.kind is kind for call in self.open_calls)

    def answered(self, reply: Reply) -> None:
        """A reply to a call that is still open; repeated replies are for nobody."""
        if not self.alive or reply.call not in self.open_calls:
            return
        self.open_calls.remove(reply.call)
        result = reply.result
        if isinstance(result, Fenced):
            self._fenced()
        elif isinstance(result, PositionWentBack):  # its predecessor knew of more
            self.position[result.segment] = max(result.stored_offset, self.position.get(result.segment, 0))
        elif isinstance(result, Registered):
            self._registered(result)
        elif isinstance(result, NoteResult):
            assert reply.call.note is not None
            self._noted(reply.call.note)
        elif reply.call.kind in (Kind.IDLE, Kind.CLOSE) and not isinstance(result, Refused):
            self._ended(reply.call.kind)
        if reply.call.kind is Kind.CLOCK:
            self._read_clock(reply.clock)

    def _fenced(self) -> None:
        """Another process has the name, or a repeated call of its own took the epoch away."""
        self.open_calls.clear()
        self.planned = None
        if self.world.newest_process(self.name) is not self:
            self.phase = Phase.DEAD
        elif self.phase is not Phase.GONE:
            self.register()

    def register(self) -> None:
        self.registers = True
        self.phase = Phase.STARTING
        self.planned = None
        self.call(Kind.REGISTER)

    def _registered(self, result: Registered) -> None:
        if self.phase is not Phase.STARTING:
            return
        if self.world.newest_process(self.name) is not self:
            self.phase = Phase.DEAD
            return
        self.epoch, self.floors = result.epoch, result.floors
        self.phase = Phase.RUNNING
        self.learn_position()

    def learn_position(self) -> None:
        """What its predecessors wrote lies below this: their own notebook, or simply where the log ends."""
        if self.tail:
            return
        world = self.world
        known = world.log.end() if world.random.random() < 0.5 else world.written_by(self.name)
        for segment, offset in known.items():
            if offset > self.position.get(segment, 0):
                self.position[segment] = offset

    def _noted(self, note: Note) -> None:
        for segment, offset in note.position.items():
            self.accepted[segment] = max(offset, self.accepted.get(segment, 0))

    def _ended(self, kind: Kind) -> None:
        if kind is Kind.IDLE:
            self.phase = Phase.IDLE
        else:
            self.phase = Phase.GONE
            self.open_calls.clear()
            self.world.closed(self)

    # -- writing -------------------------------------------------------------------------------------------------

    def least(self, key: str) -> int | None:
        """No event older than this is to be written: promised, or told to be late below."""
        known = [time for time in (self.bounds.get(key), self.floors.get(key)) if time is not None]
        return max(known, default=None)

    def write(self) -> None:
        """Sends an event off; it lands in the log later, and is acknowledged later still."""
        random, now = self.world.random, self.world.source_time
        times: dict[str, int] = {}
        for key in () if self.world.scenario.ingestion else self.world.keys_of[self.name]:
            least = self.least(key)
            if least is None:
                times[key] = now + random.randint(-60, 40)
            elif key not in self.bounds and random.random() < 0.1:
                times[key] = least - random.randint(0, 50)  # late, and it knows
            elif key not in self.bounds and self.replays:
                times[key] = least + random.randint(0, 10)
            else:
                times[key] = max(least, now - random.randint(0, 60)) + random.choice((0, 0, 5, 40))
        event = Event(self.name, self, times)
        if self.transaction is not None and random.random() < 0.8:
            self.transaction.append(event)
            if random.random() < 0.5:
                self.world.land(event)
            return
        self.flying.append(event)
        self.world.flying.append(event)

    def acked(self, event: Event) -> None:
        self.flying.remove(event)
        self.position[event.segment] = max(event.offset + 1, self.position.get(event.segment, 0))

    def may_note(self) -> bool:
        """Whether a note may say more than was promised: the events of an open transaction lie below no position."""
        return self.transaction is None

    def turn_transaction(self) -> None:
        """Begins one, or ends the one that is open."""
        if self.transaction is None:
            self.transaction = []
            return
        self.end_transaction()
        if self.planned is None and self.world.random.random() < 0.5:  # a commit with a time
            self.plan_note()

    def end_transaction(self) -> None:
        """Commits, mostly: all of it is in the log at once, and acknowledged."""
        events, self.transaction = self.transaction or [], None
        if self.world.random.random() < 0.2:
            return
        self.flying += events
        self.world.flying += events
        self.world.checker.counts["committed"] += len(events)
        for event in events:
            if not event.landed:
                self.world.land(event)
            self.world.ack(event)

    # -- noting --------------------------------------------------------------------------------------------------

    def plan_note(self) -> None:
        """Decides on a time; the note is sent when everything written so far is acknowledged."""
        random = self.world.random
        if not self.may_note():
            if self.bounds:  # which a plan that was given up may have raised
                self.planned = (dict(self.bounds), list(self.flying))
            return
        if self.world.scenario.ingestion:
            if not self.waits_for(Kind.CLOCK):
                self.call(Kind.CLOCK)
            return
        keys = self.world.keys_of[self.name]
        if len(keys) > 1 and random.random() < 0.5:
            keys = (random.choice(keys),)
        times = {}
        for key in keys:
            least = self.least(key)
            reached = self.world.source_time + random.randint(-80, 40)
            times[key] = reached if least is None else max(least, reached)
            if random.random() < 0.15 and least is not None:
                times[key] = least
            elif random.random() < 0.05 and key not in self.bounds:
                times[key] = reached  # below its floor, perhaps
        self.bounds.update(times)
        self.planned = (times, list(self.flying))

    def _read_clock(self, clock: int) -> None:
        """The time is taken before the position is read: so it is what the note will say."""
        if self.reading is not None and clock < self.reading:
            return
        self.reading = clock
        if self.planned is None and self.phase is Phase.RUNNING and self.may_note():
            self.planned = ({"": clock}, list(self.flying))

    def send_planned(self) -> None:
        """Sends the note that waited, once what it waits for is acknowledged."""
        if self.planned is None:
            return
        times, waits_for = self.planned
        if any(event in self.flying for event in waits_for):
            return
        self.planned = None
        self.send_note(times)

    def send_note(self, times: Mapping[str, int]) -> None:
        random = self.world.random
        if self.tail:
            position = self.world.log.end()
        else:
            position = dict(self.position)
            if random.random() < 0.3:  # what was noted before may be left out
                position = {s: offset for s, offset in position.items() if self.accepted.get(s, 0) < offset}
            elif random.random() < 0.3:  # and what a successor implies
                position = self.world.frontier(position)
        newest = {}
        for key in times:
            time = self.world.log.newest(position, key) if random.random() < 0.6 else None
            if time is not None:
                newest[key] = time
        note = Note(writer=self.name, times=times, position=position, epoch=self.epoch, newest=newest)
        self.call(Kind.NOTE, note)

    # -- ending --------------------------------------------------------------------------------------------------

    def finish(self, kind: Kind) -> None:
        if self.transaction is not None:
            self.end_transaction()
        self.phase = Phase.FINISHING
        self.ends_by = kind
        self.planned = None

    def go_on_finishing(self) -> None:
        """One step on the way to idle or closed: settle, note the last position, say the word."""
        if self.flying or self.open_calls:
            return
        if self.world.scenario.ingestion and self.reading is None:
            self.call(Kind.CLOCK)
        elif not self.tail and any(offset > self.accepted.get(s, 0) for s, offset in self.position.items()):
            self.send_note(self._last_times())
        elif self.tail and self.world.log.end() != self.accepted:
            self.phase = Phase.RUNNING  # something was appended: no rest yet
        elif self.world.knows(self.name):
            self.call(self.ends_by)
        else:
            self.send_note(self._last_times())

    def _last_times(self) -> dict[str, int]:
        if self.reading is not None:
            return {"": self.reading}
        times = {}
        for key in self.world.keys_of[self.name]:
            least = self.least(key)
            times[key] = least if least is not None else self.world.source_time - 100
        self.bounds.update(times)
        return times

    def wake(self) -> None:
        """An idle one has something to write again."""
        if not self.impolite:
            self.register()
            return
        self.phase = Phase.RUNNING
