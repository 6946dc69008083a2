"""A stream: its calls and their answers.

Each call takes `now`, times out silent writers, and then checks the call. A refused call raises, and changes nothing
else. Changes are collected until the store drains them. Equal calls give equal marks.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from strandline.core.admission import Admitted, admit, check_epoch
from strandline.core.aggregate import Holder, Remainder
from strandline.core.changes import Changes, NoteResult, Registered
from strandline.core.config import StreamConfig, TimeDomain
from strandline.core.cut import NOTHING, Cut, join_all
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY, Note, check_key
from strandline.core.repetition import done_before
from strandline.core.roster import Roster
from strandline.core.segment import NewSegment, Segment, SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.writer import KeyState, Phase, Writer, WriterState
from strandline.errors import InvalidScale, StreamSealed, UnknownWriter, WrongDomain
from strandline.limits import GONE_KEPT_MS, HISTORY_NOTES_PER_WRITER
from strandline.names import check_name


class Stream:
    """The whole state of a stream, in memory. Not safe for several threads at once."""

    def __init__(
        self,
        name: str,
        config: StreamConfig,
        graph: SegmentGraph,
        *,
        now: int,
        history_notes: int = HISTORY_NOTES_PER_WRITER,
        gone_kept_ms: int = GONE_KEPT_MS,
        unserved: Unserved | None = None,
    ) -> None:
        """`unserved` has the time in which no caller could be heard; all streams of a controller share it."""
        self.name = check_name("stream", name)
        self.graph = graph
        self.sealed = False
        self.epochs = 0  # the last epoch given out; none is given twice
        self.head: Cut = NOTHING
        self.clock = now  # never steps back
        self._roster = Roster(config, graph, unserved if unserved is not None else Unserved(), gone_kept_ms)
        self._history_notes = history_notes

    @classmethod
    def restored(
        cls,
        name: str,
        config: StreamConfig,
        graph: SegmentGraph,
        *,
        sealed: bool,
        epochs: int,
        head: Cut,
        clock: int,
        writers: Iterable[Writer],
        last_marks: Iterable[Mark],
        remainders: Mapping[str, Remainder],
        history_notes: int = HISTORY_NOTES_PER_WRITER,
        gone_kept_ms: int = GONE_KEPT_MS,
        unserved: Unserved | None = None,
    ) -> Stream:
        """The stream as it was stored: it goes on exactly as without an interruption."""
        stream = cls(
            name, config, graph, now=clock, history_notes=history_notes, gone_kept_ms=gone_kept_ms, unserved=unserved
        )
        stream.sealed, stream.epochs, stream.head = sealed, epochs, head
        stream._roster.restore_marks(last_marks, remainders)
        for writer in writers:
            stream.restore_writer(writer)
        return stream

    def restore_writer(self, writer: Writer) -> None:
        """Restores a stored writer. `restored` does this for all writers that it is given; a caller with very many of
        them restores each by this call, and can do other work in between."""
        self._roster.restore_writer(writer, self.clock)

    @property
    def config(self) -> StreamConfig:
        return self._roster.config

    @property
    def writers(self) -> Mapping[str, Writer]:
        return self._roster.writers

    @property
    def last_marks(self) -> dict[str, Mark]:
        """The newest mark of each key that has one."""
        return {key: each.last for key, each in self._roster.aggregates.items() if each.last is not None}

    @property
    def keys(self) -> set[str]:
        """The time keys that some writer holds or held."""
        return self._roster.keys

    @property
    def remainders(self) -> dict[str, Remainder]:
        """The remainders of forgotten writers, by key."""
        return {key: each.remainder for key, each in self._roster.aggregates.items() if each.remainder.writers}

    # -- writers -------------------------------------------------------------------------------------------------

    def register(
        self, name: str, keys: Collection[str] | None, now: int, registration: str | None = None
    ) -> Registered:
        """Makes a writer joined, from any state, with a new epoch that fences all earlier ones.

        `registration` is the caller's name for this registration: a repeated call with that name gets the same answer.
        """
        check_name("writer", name)
        if registration is not None:
            check_name("registration", registration)
        now = self._moment(now)
        self._check_unsealed()
        writer = self.writers.get(name)
        held = tuple(writer.key_states) if writer is not None else ()
        keys = tuple(sorted({check_key(key) for key in keys})) if keys else (held or (DEFAULT_KEY,))
        if self.config.time_domain is TimeDomain.INGESTION and keys != (DEFAULT_KEY,):
            raise WrongDomain(stream=self.name, time_domain=str(self.config.time_domain), call="times by key")
        self._roster.check_room(name, keys)
        if writer is not None and (again := _same_registration(writer, registration, keys)) is not None:
            self._hear(writer, now)
            self._roster.changed(writer, now)
            return again
        self._roster.store_rest(now)
        writer = self._roster.writer(name, now)
        if writer.closed:
            self._roster.stay(writer)
            writer.begin_anew()
        self.epochs += 1
        self._roster.changes.stream = True
        writer.epoch, writer.closed_epoch, writer.registration = self.epochs, None, registration
        writer.excluded_at = None
        self._hear(writer, now)
        floors = {
            key: writer.key_states.setdefault(key, KeyState(Phase.IDLE)).join(self._roster.last_time(key))
            for key in keys
        }
        self._roster.changed(writer, now)
        return Registered(epoch=self.epochs, floors=floors)

    def note(self, note: Note, now: int, *, tail: bool = False) -> NoteResult:
        """Takes a note, and makes the marks that it makes possible.

        A `tail` report has the end offset of every segment; it is for the ingestion domain, and gets its mark at once
        if no writer holds time back.
        """
        now = self._moment(now)
        if tail and self.config.time_domain is not TimeDomain.INGESTION:
            raise WrongDomain(stream=self.name, time_domain=str(self.config.time_domain), call="tail reports")
        writer = self.writers.get(note.writer)
        admitted = admit(
            note, writer, stream=self.name, sealed=self.sealed, config=self.config, graph=self.graph, now=now
        )
        self._roster.check_room(note.writer, note.times)
        floors = self._floors(note.writer, writer, admitted, now)
        late = False
        for key, time in admitted.times.items():
            floor = floors[key]
            late = late or (floor is not None and time < floor)
        if writer is not None and admitted.repeats:
            self._hear_again(writer, note.times, now)
        else:
            self._take(note, admitted, floors, tail, now)
        at_once = tail and self.config.mark_interval_ms is not None
        return NoteResult(late, floors, self._roster.evaluate(note.times, now, at_once=at_once))

    def done_before(self, notes: Sequence[Note], now: int) -> set[int]:
        """The indexes of the notes that count as done although they go back: their request was sent before.

        `notes` are all notes of one writer in a request. Changes nothing.
        """
        now = max(now, self.clock)
        writer = self.writers.get(notes[0].writer)
        if writer is None:
            return set()

        def judge(note: Note) -> Admitted:
            return admit(
                note, writer, stream=self.name, sealed=self.sealed, config=self.config, graph=self.graph, now=now
            )

        return done_before(notes, writer, judge)

    def idle(self, name: str, epoch: int | None, now: int) -> list[Mark]:
        """Makes a writer idle: all its events lie below its last noted position, and marks leave it out until it notes
        again."""
        now = self._moment(now)
        self._check_unsealed()
        if self._was_forgotten(name, epoch):
            return []
        writer = self._writer(name)
        if writer.closed and epoch in (None, writer.closed_epoch):
            return []
        check_epoch(name, writer, epoch)
        for key_state in writer.key_states.values():
            key_state.go_idle()
        self._hear(writer, now)
        return self._changed(writer, now)

    def close(self, name: str, epoch: int | None, now: int) -> list[Mark]:
        """Closes a writer. A lost writer without its epoch becomes excluded instead, and a tail reporter lost, because
        it is not known what was written."""
        now = self._moment(now)
        if self._was_forgotten(name, epoch):
            return []
        writer = self._writer(name)
        if writer.closed and epoch in (None, writer.closed_epoch):
            return []
        self._check_unsealed()
        check_epoch(name, writer, epoch)
        self._roster.store_rest(now)
        if writer.tail:
            writer.lose(now)
        else:
            writer.close(epoch, now)
            if writer.closed:
                self._hear(writer, now)
        return self._changed(writer, now)

    def exclude(self, name: str, now: int) -> list[Mark]:
        """Excludes a writer, for an operator, until `include` or the writer's next registration."""
        now = self._moment(now)
        self._check_unsealed()
        writer = self._writer(name)
        if writer.closed or writer.excluded_at is not None:
            return []
        self._roster.store_rest(now)
        writer.excluded_at = now
        return self._changed(writer, now)

    def include(self, name: str, now: int) -> list[Mark]:
        """Ends the exclusion of a writer, for an operator: it has the state that it would have without it."""
        now = self._moment(now)
        self._check_unsealed()
        writer = self._writer(name)
        if writer.excluded_at is None:
            return []
        self._roster.store_rest(now)
        writer.excluded_at = None
        return self._changed(writer, now)

    # -- the stream ----------------------------------------------------------------------------------------------

    def configure(self, settings: Mapping[str, Any], now: int) -> list[Mark]:
        """Changes settings. Raises InvalidConfig, and then changes nothing."""
        now = self._moment(now)
        config = self.config.changed(**settings)
        if config == self.config:
            return []
        self._roster.store_rest(now)
        self._roster.configure(config, now)
        self._roster.changes.stream = True
        return [] if self.sealed else self._roster.evaluate(self.keys, now)

    def scale(self, seal: Mapping[str, int], create: Sequence[NewSegment], now: int) -> list[Segment]:
        """Seals segments at final offsets and creates their successors. A repeated call changes nothing."""
        now = self._moment(now)
        self._check_unsealed()
        self._check_finals(seal)
        changed = self.graph.scale(seal, create, now)
        self._roster.changes.segments.update((segment.id, segment) for segment in changed)
        return changed

    def drop_segment(self, segment: str, now: int) -> None:
        """Removes a segment that the log does not have from an open stream, its writers and its marks to come."""
        now = self._moment(now)
        self.graph.drop(segment)
        self._roster.changes.dropped.add(segment)
        self._roster.changes.stream = True
        self.head = self.head.without(segment)
        self._roster.sharing.drop(segment)
        for aggregate in self._roster.aggregates.values():
            aggregate.forget_segment(segment)
        for writer in self.writers.values():
            writer.forget_segment(segment)
            self._roster.changed(writer, now)

    def truncate(self, position: Mapping[str, int], now: int) -> Cut:
        """Moves the head forward: events below it are gone from the log. The head never goes back."""
        self._moment(now)
        before, self.head = self.head, self.head.join(self.graph.cut(position))
        self._roster.changes.stream |= self.head != before
        return self.head

    def seal(self, final: Mapping[str, int], now: int) -> list[Mark]:
        """Ends the stream: closes its writers and appends the last marks, without regard to `min_writers`."""
        now = self._moment(now)
        self._check_finals(final)
        if self.sealed:
            return []  # `_check_finals` refuses other offsets than those stored
        self._roster.store_rest(now)
        noted = self._noted_end()
        ends = {segment.id: noted.offset(segment.id) for segment in self.graph}
        peaks = {key: aggregate.peak() for key, aggregate in self._roster.aggregates.items()}
        for writer in self.writers.values():
            writer.close(None if writer.lost else writer.epoch, now)
            self._roster.changed(writer, now)
        marks = []
        for key, aggregate in sorted(self._roster.aggregates.items()):
            peak = peaks[key]
            if peak is not None and (aggregate.last is None or peak > aggregate.last.time):
                marks.append(self._roster.append(aggregate, peak, now))
        changed = self.graph.seal_all(ends | dict(final))
        self.sealed = True
        self._roster.changes.segments.update((segment.id, segment) for segment in changed)
        self._roster.changes.stream = True
        return marks

    # -- time ----------------------------------------------------------------------------------------------------

    def evaluate(self, key: str, now: int) -> Mark | None:
        """Makes a mark now if one is possible, even before its interval has passed, or the mark of the idle advance."""
        now = self._moment(now)
        if self.sealed:
            return None
        made = self._roster.store_rest(now) if key == DEFAULT_KEY else None
        marks = self._roster.evaluate([key], now, at_once=True)
        return marks[-1] if marks else made

    def advance(self, now: int) -> list[Mark]:
        """Lets time pass: times out silent writers, and makes the marks that waited for their interval."""
        marks = len(self._roster.changes.marks)
        now = self._moment(now)
        if not self.sealed:
            self._roster.evaluate(self.keys, now)
        return self._roster.changes.marks[marks:]

    def next_wake(self, *, exact: bool = True) -> int | None:
        """When `advance` next has work; None: never by itself. Not `exact`: maybe too early, but fast."""
        return None if self.sealed else self._roster.next_wake(exact=exact)

    def held_by(self, key: str, now: int) -> Holder | None:
        """The writer that holds time back in a key, or None."""
        return None if self.sealed else self._roster.held_by(key, max(now, self.clock))

    def resting(self, now: int) -> Mark | None:
        """The mark of the idle advance, in an ingestion stream whose reporters are all idle; not stored."""
        return None if self.sealed else self._roster.resting(max(now, self.clock))

    def silent_ms(self, writer: Writer | Remainder, now: int) -> int:
        """How long a writer, or every forgotten one, has been silent, in served time."""
        return self._roster.silent_ms(writer, max(now, self.clock))

    def states(self, writer: Writer) -> dict[str, WriterState]:
        """A writer's state, by key."""
        return {
            key: writer.state(key_state, self._roster.last_time(key)) for key, key_state in writer.key_states.items()
        }

    def drain(self) -> Changes:
        """The changes since the last call, for the store."""
        changes, self._roster.changes = self._roster.changes, Changes()
        return changes

    # -- within --------------------------------------------------------------------------------------------------

    def _moment(self, now: int) -> int:
        """Moves the stream's clock, which never goes back, and returns it. Every call begins with this: it forgets
        writers, and times out silent ones."""
        self.clock = now = max(self.clock, now)
        if self.sealed:
            return now
        self._roster.forget_passed(now)
        if timed_out := self._roster.time_out_silent(now):
            self._roster.evaluate(timed_out, now)
        return now

    def _changed(self, writer: Writer, now: int) -> list[Mark]:
        self._roster.changed(writer, now)
        return self._roster.evaluate(writer.key_states, now)

    def _floors(self, name: str, writer: Writer | None, admitted: Admitted, now: int) -> dict[str, int | None]:
        """By key, the time below which the writer's events are late; None if none of them are.

        A writer that does not fully count gets the time that the key has reached. A joined writer counts, but events
        below its floor are late, so it gets the floor. A note that only repeats gets the answer of the first one, which
        may have been lost.
        """
        floors: dict[str, int | None] = {}
        for key, time in admitted.times.items():
            if writer is None or not self._roster.counts(name, key):
                floors[key] = self._roster.reached(key, now)
                continue
            key_state = writer.key_states[key]
            if key_state.floor is not None and time < key_state.floor:  # only a joined writer has a floor
                floors[key] = key_state.floor
            else:
                floors[key] = key_state.told_floor if admitted.repeats else None
        return floors

    def _take(self, note: Note, admitted: Admitted, floors: Mapping[str, int | None], tail: bool, now: int) -> None:
        roster = self._roster
        new = self.graph.name(note.position, now)
        roster.store_rest(now)
        if new:
            roster.changes.segments.update((segment.id, segment) for segment in new)
        writer = roster.writer(note.writer, now)
        if writer.closed:
            roster.stay(writer)
            writer.begin_anew()
        writer.tail = writer.tail or tail
        for key in note.times:
            if key not in writer.key_states:
                writer.key_states[key] = KeyState(Phase.NOTED)
        segments = len(writer.position)
        writer.move(note.position, admitted.cut, note.newest)
        if len(writer.position) != segments:
            roster.entered(writer)
        for key, time in admitted.times.items():
            last_time = roster.last_time(key)
            writer.key_states[key].note(time, writer.position, floors[key], last_time, self._history_notes)
        self._hear(writer, now)
        roster.changed(writer, now)

    def _hear_again(self, writer: Writer, keys: Iterable[str], now: int) -> None:
        """Takes a note that only repeats: the writer is alive, so it is no longer lost; it stays idle or closed."""
        back = [each for key in keys if (each := writer.key_states[key]).lost_at is not None and not writer.closed]
        if back:
            self._roster.store_rest(now)
        for key_state in back:
            key_state.lost_at = None
        self._hear(writer, now)
        self._roster.changed(writer, now)

    def _was_forgotten(self, name: str, epoch: int | None) -> bool:
        """Whether an unknown writer may have been forgotten: then its call repeats an earlier one.

        Names of forgotten writers are not kept. The answer is yes for an epoch that was given out; without an epoch, if
        some writer was forgotten.
        """
        if name in self.writers:
            return False
        return self._roster.has_forgotten if epoch is None else epoch <= self.epochs

    def _hear(self, writer: Writer, now: int) -> None:
        writer.hear(now, self._roster.served(now))

    def _writer(self, name: str) -> Writer:
        if name not in self.writers:
            raise UnknownWriter(stream=self.name, writer=name)
        return self.writers[name]

    def _check_unsealed(self) -> None:
        if self.sealed:
            raise StreamSealed(stream=self.name)

    def _noted_end(self) -> Cut:
        """The greatest offsets that were ever noted. The last marks cover what forgotten writers noted."""
        last_cuts = (mark.cut for mark in self.last_marks.values())
        return join_all(chain((writer.position for writer in self.writers.values()), last_cuts))

    def _check_finals(self, final: Mapping[str, int]) -> None:
        noted = self._noted_end()
        for name, offset in final.items():
            segment = self.graph[name]
            if segment.final_offset is not None and segment.final_offset != offset:
                raise InvalidScale(segment=name, reason=f"it is sealed already, at {segment.final_offset}")
            if offset < noted.offset(name):
                raise InvalidScale(
                    segment=name, reason=f"the final offset {offset} is below {noted.offset(name)}, which was noted"
                )


def _same_registration(writer: Writer, registration: str | None, keys: Collection[str]) -> Registered | None:
    """The answer of the newest registration if this call repeats it, else None."""
    if registration is None or writer.registration != registration or writer.epoch is None:
        return None
    if not all(key in writer.key_states for key in keys):
        return None
    return Registered(writer.epoch, {key: writer.key_states[key].value for key in keys})
