"""A stream: its calls and their answers, its writers, the aggregate of each time key, and the deadlines.

Each call takes `now`, times out silent writers, and then checks the call. A refused call raises, and changes nothing
else. Changes are collected until the store drains them. Equal calls give equal marks.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from strandline.core.admission import INGESTION, Admitted, admit, check_epoch
from strandline.core.aggregate import NO_REMAINDER, Aggregate, Holder, Remainder
from strandline.core.changes import Advance, Changes, Missed, NoteResult, Registered, StateChange
from strandline.core.config import StreamConfig
from strandline.core.cut import NOTHING, Cut, join_all
from strandline.core.forgetting import GONE_KEPT_MS, Forgetting
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY, NO_TIMES, Note, check_key
from strandline.core.repetition import done_before
from strandline.core.rest import holder_of_rest, is_at_rest
from strandline.core.segment import NewSegment, Segment, SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.shared_segments import SharedSegments
from strandline.core.silence import Silence
from strandline.core.writer import NOTED, KeyState, Phase, StreamWriter, WriterState, new_tuple
from strandline.errors import InvalidScale, StreamSealed, TooMany, UnknownWriter, WrongDomain
from strandline.limits import KEYS_PER_STREAM, STANDINGS_PER_STREAM
from strandline.names import check_name

HISTORY_NOTES_PER_WRITER: Final = 64  # per key; beyond it every second note is dropped, the earlier one of two


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
        self.config = config
        self.graph = graph
        self.writers: dict[str, StreamWriter] = {}  # by name; callers only read it
        self.sealed = False
        self.epochs = 0  # the last epoch given out; none is given twice
        self.head: Cut = NOTHING
        self.clock = now  # never steps back
        self.passed: dict[str, int] = {}  # by key, how far reader groups went on while they left this stream out
        self._history_notes = history_notes
        self._unserved = unserved if unserved is not None else Unserved()
        self.rest_margin_ms = 0  # within which other caches of the stream learn that its rest has ended
        self._served_now = 0  # the served time at the moment of the call under way
        self._sharing = SharedSegments(graph)
        self._aggregates: dict[str, Aggregate] = {}  # by time key
        self._changes = Changes()
        self._silence = Silence(self.writers, self._aggregates, config, self._unserved)
        self._forgetting = Forgetting(self.writers, self._aggregates, config, gone_kept_ms)

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
        writers: Iterable[StreamWriter],
        last_marks: Iterable[Mark],
        remainders: Mapping[str, Remainder],
        passed: Mapping[str, int] = NO_TIMES,
        history_notes: int = HISTORY_NOTES_PER_WRITER,
        gone_kept_ms: int = GONE_KEPT_MS,
        unserved: Unserved | None = None,
    ) -> Stream:
        """The stream as it was stored: it goes on exactly as without an interruption."""
        stream = cls(
            name,
            config,
            graph,
            now=clock,
            history_notes=history_notes,
            gone_kept_ms=gone_kept_ms,
            unserved=unserved,
        )
        stream.sealed, stream.epochs, stream.head = sealed, epochs, head
        stream.passed = dict(passed)
        for mark in last_marks:
            stream._begin(mark.key, mark, remainders.get(mark.key, NO_REMAINDER))
        for writer in writers:
            stream.restore_writer(writer)
        return stream

    def restore_writer(self, writer: StreamWriter) -> None:
        """Restores a stored writer, without recording a change. The cost does not depend on the number of writers."""
        known = self.writers.get(writer.name)
        known_states: Mapping[str, KeyState] = {} if known is None else known.key_states
        before = NOTHING if known is None else known.position
        self.writers[writer.name] = writer
        writer.number = None if known is None else known.number
        same_segments = writer.position.shape is before.shape
        neighbours: Collection[str] = () if same_segments else self._sharing.enter(writer, before)
        for key, key_state in writer.key_states.items():
            aggregate = self._aggregates.get(key) or self._begin(key)
            if key in known_states:
                aggregate.replace(writer, known_states[key])
            else:
                key_state.role = key_state.entry = None  # its aggregate does not have it yet
            aggregate.place(writer, self.clock)
            was = known_states[key].seen if key in known_states else None
            key_state.seen = writer.state(key_state, aggregate.last.time if aggregate.last is not None else None)
            aggregate.census.put(writer, key_state, was, key_state.seen)
        self._check_again(neighbours)
        self._forgetting.add(writer)
        if writer.name not in self._silence.deadlines.at:
            self._silence.arm(writer)

    def adopt(self, missed: Missed) -> None:
        """Makes a cache of the stream equal to the store again, from which it differs by what others stored since.

        Records no change. Every change of this cache itself must be stored, and what was missed may not be structural
        (`Changes.structural`): then the stream has to be loaded.
        """
        assert not self._changes, "a cache adopts only what is newer than all of its own changes"
        self.clock = max(self.clock, missed.clock)
        for mark in {mark.key: mark for mark in missed.marks}.values():
            (self._aggregates.get(mark.key) or self._begin(mark.key)).adopt(mark)
            self._forgetting.to_check.add(mark.key)
        for name in missed.forgotten:
            if name in self.writers:
                self._remove(self.writers[name])
        if missed.stream is not None:
            self.epochs, self.head = missed.stream.epochs, missed.stream.head
            self.passed = dict(missed.stream.passed)
            for key, aggregate in self._aggregates.items():
                aggregate.adopt_remainder(missed.stream.remainders.get(key, NO_REMAINDER))
        for writer in missed.writers:
            self.restore_writer(writer)

    @property
    def last_marks(self) -> dict[str, Mark]:
        """The newest mark of each key that has one."""
        return {key: each.last for key, each in self._aggregates.items() if each.last is not None}

    @property
    def keys(self) -> set[str]:
        """The time keys that some writer holds or held."""
        return set(self._aggregates)

    @property
    def remainders(self) -> dict[str, Remainder]:
        """The remainders of forgotten writers, by key."""
        return {key: each.remainder for key, each in self._aggregates.items() if each.remainder.writers}

    # -- writers ------------------------------------------------------------------------------------------------

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
        if self.config.time_domain is INGESTION and keys != (DEFAULT_KEY,):
            raise WrongDomain(stream=self.name, time_domain=str(self.config.time_domain), call="times by key")
        self._check_room(name, keys)
        if writer is not None and (again := _same_registration(writer, registration, keys)) is not None:
            self._touch(writer, now)
            self._update_writer(writer, now)
            return replace(again, floors=self._with_readers(writer, again.floors))
        self._store_rest(now)
        writer = self._ensure_writer(name, now)
        if writer.closed:
            self._start_over(writer)
        self.epochs += 1
        self._changes.stream = True
        writer.epoch, writer.closed_epoch, writer.registration = self.epochs, None, registration
        writer.excluded_at = None
        self._touch(writer, now)
        self._take_up(writer, keys, Phase.IDLE)
        floors = {key: writer.key_states[key].join(self._last_time(key)) for key in keys}
        self._update_writer(writer, now)
        floors = self._with_readers(writer, floors)
        return Registered(epoch=self.epochs, floors=floors, life=str(writer.life), noted=_noted(writer, keys))

    def note(self, note: Note, now: int, *, tail: bool = False) -> NoteResult:
        """Takes a note, and makes the marks that it makes possible.

        A `tail` report has the end offset of every segment; it is for the ingestion domain, and gets its mark at once
        if no writer holds time back.
        """
        now = self._moment(now)
        if tail and self.config.time_domain is not INGESTION:
            raise WrongDomain(stream=self.name, time_domain=str(self.config.time_domain), call="tail reports")
        writer = self.writers.get(note.writer)
        admitted = self._admit(note, writer, now)
        holds = writer is not None and note.times.keys() <= writer.key_states.keys()
        if not holds:
            self._check_room(note.writer, note.times)
        floors = self._floors(writer, admitted, now)
        late = False
        for key, floor in floors.items():
            if floor is not None and admitted.times[key] < floor:
                late = True
        if writer is not None and admitted.repeats:
            self._touch_again(writer, note.times, now)
        else:
            self._take(note, writer if holds else None, admitted, floors, tail, now)
        at_once = tail and self.config.mark_interval_ms is not None
        return new_tuple(NoteResult, (late, floors, self._make_marks(note.times, now, at_once=at_once)))

    def noted_by(self, name: str) -> tuple[Cut, dict[str, int | None]] | None:
        """What a writer noted last, to see whether it has noted since."""
        writer = self.writers.get(name)
        return None if writer is None else (writer.noted, {key: each.time for key, each in writer.key_states.items()})

    def done_before(self, notes: Sequence[Note], now: int) -> set[int]:
        """The indexes of the notes that count as done although they go back: their request was sent before.

        `notes` are all notes of one writer in a request. Changes nothing.
        """
        now = max(now, self.clock)
        writer = self.writers.get(notes[0].writer)
        return set() if writer is None else done_before(notes, writer, lambda note: self._admit(note, writer, now))

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
        self._touch(writer, now)
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
        self._store_rest(now)
        if writer.tail:
            writer.lose(now)
        else:
            writer.close(epoch, now)
            if writer.closed:
                self._touch(writer, now)
        return self._changed(writer, now)

    def exclude(self, name: str, now: int) -> list[Mark]:
        """Excludes a writer, for an operator, until `include` or the writer's next registration."""
        now = self._moment(now)
        self._check_unsealed()
        writer = self._writer(name)
        if writer.closed or writer.excluded_at is not None:
            return []
        self._store_rest(now)
        writer.excluded_at = now
        return self._changed(writer, now)

    def time_without(self, name: str, *, closing: bool) -> dict[str, Advance]:
        """By key, from when to when time would go if a writer were excluded now, or, with `closing`, closed without its
        epoch. Changes nothing. In the ingestion domain, an idle stream then goes on with the clock."""
        writer, advances = self._writer(name), dict[str, Advance]()
        is_out = writer.closed or writer.excluded_at is not None  # only a mark that waits for its interval comes then
        keeps_times = is_out or (closing and (writer.tail or not writer.lost))  # a lost one that closes is excluded
        for key in sorted(writer.key_states):
            last, aggregate = self._last_time(key), self._aggregates[key]
            after = None if self.sealed else aggregate.time_without(name, keeps_times=keeps_times)
            known = [time for time in (last, after) if time is not None]
            advances[key] = Advance(last, max(known, default=None))
        return advances

    def time_with(self, name: str, now: int) -> dict[str, Advance]:
        """The same if an excluded writer were included now."""
        writer, advances, timeout_ms = self._writer(name), dict[str, Advance](), self.config.writer_timeout_ms
        is_silent = timeout_ms is not None and self.silent_ms(writer, now) >= timeout_ms
        for key in sorted(writer.key_states):
            last = self._last_time(key)
            after = None
            if not self.sealed and writer.excluded_at is not None:
                after = self._aggregates[key].time_with(writer, is_silent=is_silent)
            advances[key] = Advance(last, max((time for time in (last, after) if time is not None), default=None))
        return advances

    def include(self, name: str, now: int) -> list[Mark]:
        """Ends the exclusion of a writer, for an operator: it has the state that it would have without it."""
        now = self._moment(now)
        self._check_unsealed()
        writer = self._writer(name)
        if writer.excluded_at is None:
            return []
        self._store_rest(now)
        writer.excluded_at = None
        return self._changed(writer, now)

    def let_pass(self, times: Mapping[str, int]) -> bool:
        """Records that readers go on to these times without this stream, whose writers are idle: what a writer that
        comes back has below them is late. Returns whether any of them is new."""
        further = {key: time for key, time in times.items() if time > self.passed.get(key, time - 1)}
        self.passed |= further
        if further:
            self._changes.stream = True
        return bool(further)

    # -- the stream ---------------------------------------------------------------------------------------------

    def configure(self, settings: Mapping[str, Any], now: int) -> list[Mark]:
        """Changes settings. Raises InvalidConfig, and then changes nothing."""
        now = self._moment(now)
        config = self.config.changed(**settings)
        if config == self.config:
            return []
        self._store_rest(now)
        self.config = config
        self._silence.configure(config)
        self._forgetting.configure(config)
        for aggregate in self._aggregates.values():
            aggregate.config = config
        for writer in self.writers.values():
            self._update_writer(writer, now)
        self._changes.stream = self._changes.settings = True
        return [] if self.sealed else self._make_marks(self.keys, now)

    def scale(self, seal: Mapping[str, int], create: Sequence[NewSegment], now: int) -> list[Segment]:
        """Seals segments at final offsets and creates their successors. A repeated call changes nothing."""
        now = self._moment(now)
        self._check_unsealed()
        self._check_finals(seal)
        changed = self.graph.scale(seal, create, now)
        self._changes.segments.update((segment.id, segment) for segment in changed)
        self._check_again(self.writers, fewer=True)
        return changed

    def drop_segment(self, segment: str, now: int) -> None:
        """Removes a segment that the log does not have from an open stream, its writers and its marks to come."""
        now = self._moment(now)
        self.graph.drop(segment)
        self._changes.dropped.add(segment)
        self._changes.stream = True
        self.head = self.head.without(segment)
        self._sharing.drop(segment)
        for writer in self.writers.values():
            writer.forget_segment(segment)
        for aggregate in self._aggregates.values():
            aggregate.forget_segment(segment)
        for writer in self.writers.values():
            self._update_writer(writer, now)

    def truncate(self, position: Mapping[str, int], now: int) -> Cut:
        """Moves the head forward: events below it are gone from the log. The head never goes back."""
        self._moment(now)
        before, self.head = self.head, self.head.join(self.graph.cut(position))
        self._changes.stream |= self.head != before
        return self.head

    def seal(self, final: Mapping[str, int], now: int) -> list[Mark]:
        """Ends the stream: closes its writers and appends the last marks, without regard to `min_writers`.

        The time of a last mark is above that of writers which were behind, and had written more than they noted. So its
        cut is the end of the log.
        """
        now = self._moment(now)
        self._check_finals(final)
        if self.sealed:
            return []  # `_check_finals` refuses other offsets than those stored
        self._store_rest(now)
        known = self._known_end()
        ends = {segment.id: known.offset(segment.id) for segment in self.graph}
        peaks = {key: aggregate.peak() for key, aggregate in self._aggregates.items()}
        for writer in self.writers.values():
            writer.close(None if writer.lost else writer.epoch, now)
            self._update_writer(writer, now)
        changed = self.graph.seal_all(ends | dict(final))
        marks = []
        for key, aggregate in sorted(self._aggregates.items()):
            peak = peaks[key]
            if peak is not None and (aggregate.last is None or peak > aggregate.last.time):
                marks.append(self._append(aggregate, peak, now, end=self.graph.end))
        self.sealed = True
        self._changes.segments.update((segment.id, segment) for segment in changed)
        self._changes.stream = self._changes.settings = True
        return marks

    # -- time ---------------------------------------------------------------------------------------------------

    def evaluate(self, key: str, now: int) -> Mark | None:
        """Makes a mark now if one is possible, even before its interval has passed, or the mark of the idle advance."""
        now = self._moment(now)
        if self.sealed:
            return None
        made = self._store_rest(now, ending=False) if key == DEFAULT_KEY else None
        marks = self._make_marks([key], now, at_once=True)
        return marks[-1] if marks else made

    def advance(self, now: int) -> list[Mark]:
        """Lets time pass: times out silent writers, and makes the marks that waited for their interval."""
        marks = len(self._changes.marks)
        now = self._moment(now)
        if not self.sealed:
            self._make_marks(self.keys, now)
        return self._changes.marks[marks:]

    def next_wake(self, *, exact_before: float = math.inf) -> int | None:
        """When `advance` next has work: a writer times out, or an interval has passed. None: never by itself.

        A moment from `exact_before` on may be too early, since the deadlines of writers that called meanwhile are
        not looked up. While the store is away, nothing may happen at that moment: no writer times out before served
        time goes on.
        """
        if self.sealed:
            return None
        silent_at = self._silence.next_at(exact_before)
        moments = [] if silent_at is None else [silent_at]
        interval = self.config.mark_interval_ms
        for aggregate in self._aggregates.values():
            if interval is not None and aggregate.last is not None and aggregate.next_time() is not None:
                is_set_back = self.clock < aggregate.last.created_at  # then a mark is due at once
                moments.append(self.clock if is_set_back else aggregate.last.created_at + interval)
        return min(moments, default=None)

    def held_by(self, key: str, now: int) -> Holder | None:
        """The writer that holds time back in a key, or None."""
        if self.sealed:
            return None
        if now < self.clock:
            now = self.clock
        aggregate = self.aggregate(key)
        holder = aggregate.held_by(self._unserved.served(now))
        if holder is None and self.config.time_domain is INGESTION:
            return holder_of_rest(aggregate, self.config.forget_after_ms, now, lambda each: self.silent_ms(each, now))
        return holder

    def is_read(self, position: Cut) -> bool:
        """Whether all that is known to be in the log lies below a position: what a sealed stream has, what writers
        noted, and what marks cover, which forgotten writers noted too."""
        if self.sealed:
            end = self.graph.end
            return end is not None and end.le(position)
        if not all(mark.cut.le(position) for mark in self.last_marks.values()):
            return False
        return all(writer.position.le(position) for writer in self.writers.values())

    def aggregate(self, key: str) -> Aggregate:
        """What a key has gathered; only to be read."""
        return self._aggregates.get(key) or Aggregate(key, {}, self.config, self._sharing)

    def rest_lag_ms(self, now: int) -> int | None:
        """How far the idle advance of an ingestion stream is behind the clock; None unless its reporters are all
        idle."""
        aggregate = self._aggregates.get(DEFAULT_KEY)
        if self.config.time_domain is not INGESTION or self.sealed or aggregate is None:
            return None
        if not is_at_rest(aggregate, self.config.forget_after_ms, max(now, self.clock)):
            return None
        return self.config.idle_lag_ms + self.config.clock_skew_ms

    def resting(self, now: int, *, ending: bool = False) -> Mark | None:
        """The mark of the idle advance, in an ingestion stream whose reporters are all idle; not stored. The one with
        which a rest is `ending` has what any other cache of the stream may show until it takes that in."""
        now = max(now, self.clock)
        aggregate, lag_ms = self._aggregates.get(DEFAULT_KEY), self.rest_lag_ms(now)
        if aggregate is None or lag_ms is None:
            return None
        time = now - lag_ms + (min(self.rest_margin_ms, lag_ms) if ending else 0)
        if aggregate.last is not None and time <= aggregate.last.time:
            return None
        return aggregate.survey(time, now)

    def silent_ms(self, writer: StreamWriter | Remainder, now: int) -> int:
        """How long a writer, or every forgotten one, has been silent, in served time."""
        return max(0, self._unserved.served(max(now, self.clock)) - writer.served_at)

    def served(self, now: int) -> int:
        """The served time at a moment."""
        return self._unserved.served(now)

    def states(self, writer: StreamWriter) -> dict[str, WriterState]:
        """A writer's state, by key."""
        return {key: writer.state(key_state, self._last_time(key)) for key, key_state in writer.key_states.items()}

    @property
    def is_changed(self) -> bool:
        """Whether there are changes since the last `drain`."""
        return bool(self._changes)

    def drain(self) -> Changes:
        """The changes since the last call, for the store."""
        changes, self._changes = self._changes, Changes()
        return changes

    # -- within -------------------------------------------------------------------------------------------------

    def _moment(self, now: int) -> int:
        """Moves the stream's clock, which never goes back, and returns it. Every call begins with this: it forgets
        writers, and times out silent ones."""
        if now < self.clock:
            now = self.clock
        else:
            self.clock = now
        served = self._served_now = self._unserved.served(now)
        if self.sealed:
            return now
        # Most calls have nothing to forget and nobody to time out, and find that out by these comparisons.
        forgetting = self._forgetting
        if forgetting.to_check or forgetting.closed.next_at <= now or forgetting.lapsing.next_at <= now:
            for writer in forgetting.due(now):
                self._forget(writer)
        if self._silence.deadlines.next_at <= served:
            self._time_out(now)
        return now

    def _time_out(self, now: int) -> None:
        timed_out: set[str] = set()  # the keys in which somebody is lost now
        for writer, keys in self._silence.time_out(now):
            timed_out.update(keys)
            self._update_writer(writer, now)
        if timed_out:
            self._make_marks(timed_out, now)

    def _admit(self, note: Note, writer: StreamWriter | None, now: int) -> Admitted:
        return admit(note, writer, stream=self.name, sealed=self.sealed, config=self.config, graph=self.graph, now=now)

    def _changed(self, writer: StreamWriter, now: int) -> list[Mark]:
        self._update_writer(writer, now)
        return self._make_marks(writer.key_states, now)

    def _floors(self, writer: StreamWriter | None, admitted: Admitted, now: int) -> dict[str, int | None]:
        """By key, the time below which the writer's events are late; None if none of them are.

        A writer that does not fully count gets the time that the key has reached. A joined writer counts, but events
        below its floor are late, so it gets the floor. A note that only repeats gets the answer of the first one, which
        may have been lost. If readers left the stream out while it was idle, a writer gets the time that they reached.
        """
        floors: dict[str, int | None] = {}
        for key, time in admitted.times.items():
            key_state = None if writer is None else writer.key_states.get(key)
            if key_state is None or not self._aggregates[key].counts(key_state):
                floors[key] = self._reached(key, now)
            elif key_state.floor is not None and time < key_state.floor:  # only a joined writer has a floor
                floors[key] = key_state.floor
            else:
                floors[key] = key_state.answered_floor if admitted.repeats else None
            if self.passed:
                floors[key] = self._floor_of_readers(key, key_state, floors[key])
        return floors

    def _with_readers(self, writer: StreamWriter, floors: Mapping[str, int | None]) -> dict[str, int | None]:
        """The floors of a writer that registers, with what readers have reached without the stream."""
        return {key: self._floor_of_readers(key, writer.key_states[key], floor) for key, floor in floors.items()}

    def _floor_of_readers(self, key: str, key_state: KeyState | None, floor: int | None) -> int | None:
        """The floor, or the time to which readers went on without the stream, if that is greater and the writer has not
        noted it yet."""
        passed = self.passed.get(key)
        noted = None if key_state is None else key_state.time
        if passed is None or (noted is not None and noted >= passed):
            return floor
        return passed if floor is None else max(floor, passed)

    def _take(
        self,
        note: Note,
        holding: StreamWriter | None,
        admitted: Admitted,
        floors: Mapping[str, int | None],
        tail: bool,
        now: int,
    ) -> None:
        """`holding` is the note's writer, if it holds all keys of the note."""
        if admitted.cut is not note.given:  # else the stream has all of its segments
            for segment in self.graph.name(note.position, now):
                self._changes.segments[segment.id] = segment
        if self.config.time_domain is INGESTION:
            self._store_rest(now)
        writer = holding or self._ensure_writer(note.writer, now)
        if writer.closed:
            self._start_over(writer)
        if tail:
            writer.tail = True
        if holding is None:
            self._take_up(writer, note.times, NOTED)
        self._move(writer, note.given, admitted.cut, note.newest)
        times, cut = admitted.times, admitted.cut
        for key, key_state in writer.key_states.items():
            aggregate = self._aggregates[key]
            if key in times:
                aggregate.take_note(writer, key_state, times[key], cut, floors[key], self._history_notes)
            else:
                aggregate.take_move(writer, key_state, cut)
        self._touch(writer, now)
        self._update_writer(writer, now)

    def _take_up(self, writer: StreamWriter, keys: Iterable[str], phase: Phase) -> None:
        """Lets a writer hold these keys.

        It may be one that was forgotten in other keys. What it noted then stays, and its notes may leave it out; names
        of forgotten writers are not kept, so it contributes what all of them noted, unless the last marks have that.
        """
        new = [key for key in keys if key not in writer.key_states]
        if not new:
            return
        for key in new:
            writer.key_states[key] = KeyState(phase)
            if key not in self._aggregates:
                self._begin(key)
        forgotten = join_all(each.remainder.cut for each in self._aggregates.values())
        if all(forgotten.le(last.cut if (last := self._aggregates[key].last) else NOTHING) for key in new):
            return
        self._move(writer, NOTHING, forgotten, {})
        for key, key_state in writer.key_states.items():
            self._aggregates[key].take_move(writer, key_state, forgotten)

    def _move(self, writer: StreamWriter, given: Cut, cut: Cut, newest: Mapping[str, int]) -> None:
        """Adds a noted position to a writer's, as `StreamWriter.move` does."""
        before = writer.position
        writer.move(given, cut, newest)
        if writer.position.shape is not before.shape:
            self._check_again(self._sharing.enter(writer, before))

    def _touch_again(self, writer: StreamWriter, keys: Iterable[str], now: int) -> None:
        """Takes a note that only repeats: the writer is alive, so it is no longer lost; it stays idle or closed."""
        back = [each for key in keys if (each := writer.key_states[key]).lost_at is not None and not writer.closed]
        if back:
            self._store_rest(now)
        for key_state in back:
            key_state.lost_at = None
        self._touch(writer, now)
        self._update_writer(writer, now)

    def _was_forgotten(self, name: str, epoch: int | None) -> bool:
        """Whether an unknown writer may have been forgotten: then its call repeats an earlier one.

        Names of forgotten writers are not kept. The answer is yes for an epoch that was given out; without an epoch, if
        some writer was forgotten.
        """
        if name in self.writers:
            return False
        if epoch is not None:
            return epoch <= self.epochs
        return any(aggregate.remainder.writers for aggregate in self._aggregates.values())

    def _touch(self, writer: StreamWriter, now: int) -> None:
        """Records that a writer was heard, at a moment and a served time."""
        writer.heard_at = now
        if self._served_now > writer.served_at:
            writer.served_at = self._served_now

    def _writer(self, name: str) -> StreamWriter:
        if name not in self.writers:
            raise UnknownWriter(stream=self.name, writer=name)
        return self.writers[name]

    def _check_unsealed(self) -> None:
        if self.sealed:
            raise StreamSealed(stream=self.name)

    def _known_end(self) -> Cut:
        """What the log has for sure: the greatest offsets that were ever noted, and its head. The last marks cover what
        forgotten writers noted."""
        last_cuts = (mark.cut for mark in self.last_marks.values())
        return join_all(chain((writer.position for writer in self.writers.values()), last_cuts, (self.head,)))

    def _check_finals(self, final: Mapping[str, int]) -> None:
        known = self._known_end()
        for name, offset in final.items():
            segment = self.graph[name]
            if segment.final_offset is not None and segment.final_offset != offset:
                raise InvalidScale(segment=name, reason=f"it is sealed already, at {segment.final_offset}")
            if offset < known.offset(name):
                raise InvalidScale(
                    segment=name,
                    reason=f"the final offset {offset} is below {known.offset(name)}, which was noted or truncated",
                )

    # -- writers, and who counts --------------------------------------------------------------------------------

    def _ensure_writer(self, name: str, now: int) -> StreamWriter:
        """The writer of a name; creates it if it is not known."""
        found = self.writers.get(name)
        if found is None:
            served = self._unserved.served(now)
            found = StreamWriter(name=name, heard_at=now, served_at=served, life=self.epochs + 1)
            self.writers[name] = found
        return found

    def _update_writer(self, writer: StreamWriter, now: int) -> None:
        """Updates aggregates, deadlines and journal for a writer that may have changed."""
        self._changes.writers.add(writer.name)
        lost = False
        for key, key_state in writer.key_states.items():
            aggregate = self._aggregates[key]
            aggregate.place(writer, now)
            if aggregate.timed_out:
                aggregate.timed_out.discard(writer.name)
            last, before = aggregate.last, key_state.seen
            after = writer.state(key_state, None if last is None else last.time)
            aggregate.census.put(writer, key_state, before, after)
            if before is not after:
                key_state.seen = after
                self._changes.states.append(StateChange(now, writer.name, key, before, after))
            lost = lost or key_state.lost_at is not None
        if writer.closed or lost:
            self._forgetting.keep(writer)
            self._forgetting.add(writer)
        if writer.name not in self._silence.deadlines.at:
            self._silence.arm(writer)

    def _start_over(self, writer: StreamWriter) -> None:
        self._forgetting.keep(writer)
        writer.start_over(self.epochs + 1)
        for key in writer.key_states:
            self._aggregates[key].gather(writer)

    def _check_again(self, names: Iterable[str], *, fewer: bool = False) -> None:
        """Tells the aggregates of writers that other writers share their segments now, or `fewer`."""
        for name in names:
            writer = self.writers[name]
            for key in writer.key_states:
                self._aggregates[key].check_again(writer, fewer=fewer)

    def _begin(self, key: str, last: Mark | None = None, remainder: Remainder = NO_REMAINDER) -> Aggregate:
        """Creates the aggregate of a key: a new one, or with what is stored of it."""
        aggregate = Aggregate(key, self.writers, self.config, self._sharing, last, remainder)
        self._aggregates[key] = aggregate
        return aggregate

    def _last_time(self, key: str) -> int | None:
        aggregate = self._aggregates.get(key)
        return aggregate.last.time if aggregate is not None and aggregate.last is not None else None

    def _reached(self, key: str, now: int) -> int | None:
        """The time that a key has reached: that of its last mark, or the idle advance if that is further."""
        rest = self.resting(now, ending=True) if key == DEFAULT_KEY else None
        return self._last_time(key) if rest is None else rest.time

    def _check_room(self, name: str, keys: Iterable[str]) -> None:
        """Raises TooMany if this writer in these keys exceeds the limit of writers, of keys, or of both together.

        Before that it forgets closed writers, to make room.
        """
        writer = self.writers.get(name)
        held: Mapping[str, KeyState] = writer.key_states if writer is not None else {}
        new = [key for key in keys if key not in held]
        if not new:
            return
        is_full = writer is None and len(self.writers) >= self.config.max_writers
        if is_full or self._held_states + len(new) > STANDINGS_PER_STREAM:
            for each in self._forgetting.make_room(name):
                self._forget(each)
        if writer is None and (count := len(self.writers) + 1) > self.config.max_writers:
            raise TooMany(what="writers in a stream", count=count, limit=self.config.max_writers, setting="max_writers")
        known = self._aggregates
        if (count := len(known) + sum(1 for key in new if key not in known)) > max(len(known), KEYS_PER_STREAM):
            raise TooMany(what="time keys in a stream", count=count, limit=KEYS_PER_STREAM)
        if (count := self._held_states + len(new)) > STANDINGS_PER_STREAM:
            what = "writers in a stream, each counted once for every time key that it holds,"
            raise TooMany(what=what, count=count, limit=STANDINGS_PER_STREAM)

    @property
    def _held_states(self) -> int:
        """The number of writers, each counted once for every key that it holds."""
        return sum(aggregate.holders for aggregate in self._aggregates.values())

    # -- forgetting ---------------------------------------------------------------------------------------------

    def _forget(self, writer: StreamWriter) -> None:
        self._remove(writer)
        self._changes.forget(writer.name)

    def _remove(self, writer: StreamWriter) -> None:
        name = writer.name
        for key in writer.key_states:
            aggregate = self._aggregates[key]
            aggregate.forget(writer)
            if not aggregate.holders and aggregate.last is None:
                del self._aggregates[key]
        self._silence.deadlines.drop(name)
        self._forgetting.drop(name)
        alone = self._sharing.leave(writer)
        del self.writers[name]
        self._check_again(alone, fewer=True)

    # -- marks --------------------------------------------------------------------------------------------------

    def _make_marks(self, keys: Collection[str], now: int, *, at_once: bool = False) -> list[Mark]:
        """Makes every possible mark whose interval has passed, or, `at_once`, every possible mark."""
        marks: list[Mark] = []
        for key in sorted(keys) if len(keys) > 1 else keys:
            aggregate = self._aggregates.get(key)
            # The interval first: most notes come before it has passed, and then no mark's time need be computed.
            while aggregate is not None and (at_once or self._interval_passed(aggregate, now)):
                time = aggregate.next_time()
                if time is None:
                    break
                rest = self.resting(now, ending=True) if key == DEFAULT_KEY else None  # readers may have this time
                marks.append(self._append(aggregate, time if rest is None else max(time, rest.time), now))
        return marks

    def _append(self, aggregate: Aggregate, time: int, now: int, *, end: Cut | None = None) -> Mark:
        """Makes one mark, and handles the writers that it timed out."""
        mark = aggregate.make(time, now, end)
        self._changes.marks.append(mark)
        self._forgetting.to_check.add(aggregate.key)
        for name in sorted(aggregate.timed_out):
            self._update_writer(self.writers[name], now)
        aggregate.timed_out.clear()
        return mark

    def _interval_passed(self, aggregate: Aggregate, now: int) -> bool:
        interval = self.config.mark_interval_ms
        if interval is None:
            return False
        # If the last mark was made at a later moment, an operator has set the clock back since.
        return aggregate.last is None or not aggregate.last.created_at <= now < aggregate.last.created_at + interval

    # -- the idle advance, in the ingestion domain --------------------------------------------------------------

    def _store_rest(self, now: int, *, ending: bool = True) -> Mark | None:
        """Appends the mark of the idle advance, before a call ends it."""
        if self.config.time_domain is not INGESTION:
            return None
        mark = self.resting(now, ending=ending)
        return None if mark is None else self._append(self._aggregates[DEFAULT_KEY], mark.time, now)


def _same_registration(writer: StreamWriter, registration: str | None, keys: Collection[str]) -> Registered | None:
    """The answer of the newest registration if this call repeats it, else None."""
    if registration is None or writer.registration != registration or writer.epoch is None:
        return None
    if not all(key in writer.key_states for key in keys):
        return None
    floors = {key: writer.key_states[key].value for key in keys}
    return Registered(writer.epoch, floors, str(writer.life), _noted(writer, keys))


def _noted(writer: StreamWriter, keys: Iterable[str]) -> Mapping[str, int]:
    """By key, the greatest time that a writer has noted."""
    times = {key: writer.key_states[key].greatest_time for key in keys}
    return {key: time for key, time in times.items() if time is not None}
