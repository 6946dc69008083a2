"""The writers of a stream, an aggregate for each time key, and the deadlines: who counts, and when marks are due.

`Stream` checks calls and changes writers. `Roster` handles the effects of a change: roles, silence, marks, wake-ups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from strandline.core.agenda import Agenda
from strandline.core.aggregate import NO_REMAINDER, Aggregate, Holder, Remainder, WriterRole
from strandline.core.changes import Changes, StateChange
from strandline.core.config import StreamConfig, TimeDomain
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY
from strandline.core.segment import SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.shared_segments import SharedSegments
from strandline.core.writer import KeyState, Phase, Writer
from strandline.errors import TooMany
from strandline.limits import FORGOTTEN_PER_CALL, GONE_KEPT_MS, KEYS_PER_STREAM, STANDINGS_PER_STREAM, TIME_BOUND_MS

INGESTION = TimeDomain.INGESTION  # a lookup in the enum class takes longer than the rest of `resting`
AWAITED = frozenset({WriterRole.COUNTED, WriterRole.BLOCKING, WriterRole.SKIPPED})  # roles that time out


class Roster:
    """The writers of a stream by name, its aggregates by key, and their deadlines."""

    def __init__(
        self, config: StreamConfig, graph: SegmentGraph, unserved: Unserved, gone_kept_ms: int = GONE_KEPT_MS
    ) -> None:
        self.config = config
        self._unserved = unserved
        self.sharing = SharedSegments(graph)
        self.writers: dict[str, Writer] = {}
        self.aggregates: dict[str, Aggregate] = {}
        self.changes = Changes()
        self._deadlines = Agenda()  # writers, each at or before the served time at which it times out
        self._gone_kept_ms = gone_kept_ms
        self._lapsing = Agenda()  # lost writers, each at or before the moment from which it may be forgotten
        self._closed = Agenda()  # closed writers, each at the moment from which it may be forgotten
        self._to_check: set[str] = set()  # keys whose last mark may have passed a closed or lost writer

    @property
    def keys(self) -> set[str]:
        return set(self.aggregates)

    def check_room(self, name: str, keys: Iterable[str]) -> None:
        """Raises TooMany if this writer in these keys exceeds the limit of writers, of keys, or of both together.

        Before that it forgets closed writers, to make room.
        """
        writer = self.writers.get(name)
        held: Mapping[str, KeyState] = writer.key_states if writer is not None else {}
        new = [key for key in keys if key not in held]
        if not new:
            return
        is_full = writer is None and len(self.writers) >= self.config.max_writers
        if is_full or self.key_states + len(new) > STANDINGS_PER_STREAM:
            self._make_room(name)
        if writer is None and (count := len(self.writers) + 1) > self.config.max_writers:
            raise TooMany(what="writers in a stream", count=count, limit=self.config.max_writers, setting="max_writers")
        known = self.aggregates
        if (count := len(known) + sum(1 for key in new if key not in known)) > max(len(known), KEYS_PER_STREAM):
            raise TooMany(what="time keys in a stream", count=count, limit=KEYS_PER_STREAM)
        if (count := self.key_states + len(new)) > STANDINGS_PER_STREAM:
            what = "writers in a stream, each counted once for every time key that it holds,"
            raise TooMany(what=what, count=count, limit=STANDINGS_PER_STREAM)

    @property
    def key_states(self) -> int:
        """The number of writers, each counted once for every key that it holds."""
        return sum(aggregate.holders for aggregate in self.aggregates.values())

    @property
    def has_forgotten(self) -> bool:
        """Whether a writer was ever forgotten."""
        return any(aggregate.remainder.writers for aggregate in self.aggregates.values())

    def _begin(self, key: str) -> Aggregate:
        """Creates the aggregate of a new key."""
        begun = self.aggregates[key] = Aggregate(key, self.writers, self.config, self.sharing)
        return begun

    def writer(self, name: str, now: int) -> Writer:
        """The writer of a name; creates it if it is not known."""
        found = self.writers.get(name)
        if found is None:
            found = self.writers[name] = Writer(name=name, heard_at=now, served_at=self.served(now))
        return found

    def last_time(self, key: str) -> int | None:
        aggregate = self.aggregates.get(key)
        return aggregate.last.time if aggregate is not None and aggregate.last is not None else None

    def counts(self, writer: str, key: str) -> bool:
        """Whether a writer counts in a key with at least the time of the last mark."""
        return key in self.aggregates and self.aggregates[key].counts(writer)

    def reached(self, key: str, now: int) -> int | None:
        """The time that a key has reached: that of its last mark, or the idle advance if that is further."""
        rest = self.resting(now) if key == DEFAULT_KEY else None
        return self.last_time(key) if rest is None else rest.time

    def restore_marks(self, last_marks: Iterable[Mark], remainders: Mapping[str, Remainder]) -> None:
        """Restores the stored last marks and the remainders of forgotten writers. Call it before `restore_writer`."""
        for mark in last_marks:
            remainder = remainders.get(mark.key, NO_REMAINDER)
            self.aggregates[mark.key] = Aggregate(mark.key, self.writers, self.config, self.sharing, mark, remainder)

    def restore_writer(self, writer: Writer, now: int) -> None:
        """Restores a stored writer, without recording a change. The cost does not depend on the number of writers."""
        self.writers[writer.name] = writer
        self.sharing.enter(writer.name, writer.position.offsets)
        for key, key_state in writer.key_states.items():
            key_state.lasting = False  # the next mark computes its contribution again
            aggregate = self.aggregates.get(key) or self._begin(key)
            aggregate.place(writer, now)
            key_state.seen = writer.state(key_state, aggregate.last.time if aggregate.last is not None else None)
        self._await_lapse(writer)
        self._arm(writer)

    # -- changes -------------------------------------------------------------------------------------------------

    def changed(self, writer: Writer, now: int) -> None:
        """Updates aggregates, deadlines and journal for a writer that may have changed."""
        self.changes.writers.add(writer.name)
        lost = False
        for key, key_state in writer.key_states.items():
            aggregate = self.aggregates.get(key) or self._begin(key)
            aggregate.place(writer, now)
            if aggregate.timed_out:
                aggregate.timed_out.discard(writer.name)
            self._journal(writer, aggregate, key_state, now)
            lost = lost or key_state.lost_at is not None
        if writer.closed or lost:
            self.stay(writer)
            self._await_lapse(writer)
        self._arm(writer)

    def _arm(self, writer: Writer) -> None:
        """Sets the deadline of a writer that has none and can time out."""
        if writer.name not in self._deadlines and self.config.writer_timeout_ms and self._waits_for(writer):
            self._deadlines.put(writer.name, writer.served_at + self.config.writer_timeout_ms)

    def entered(self, writer: Writer) -> None:
        """Records that a writer's position reaches into further segments."""
        for name in (writer.name, *self.sharing.enter(writer.name, writer.position.offsets)):
            for key in self.writers[name].key_states:
                aggregate = self.aggregates.get(key)
                if aggregate is not None:
                    aggregate.look_again(name)

    def configure(self, config: StreamConfig, now: int) -> None:
        """Applies other settings to every aggregate and writer."""
        self.config = config
        self._deadlines.clear()
        self._lapsing.clear()
        self._closed.clear()
        for aggregate in self.aggregates.values():
            aggregate.config = config
        for writer in self.writers.values():
            self.changed(writer, now)

    def time_out_silent(self, now: int) -> set[str]:
        """Times out writers that have been silent too long; returns the keys in which they are lost now."""
        timeout = self.config.writer_timeout_ms
        keys: set[str] = set()
        if not timeout:
            return keys
        served = self.served(now)
        for name in self._deadlines.due(served):
            writer = self.writers[name]
            deadline = writer.served_at + timeout
            if deadline <= served:
                for key, key_state in writer.key_states.items():
                    if self.aggregates[key].role(name) in AWAITED:
                        key_state.lost_at = now - (served - deadline)
                        keys.add(key)
            self.changed(writer, now)
        return keys

    # -- forgetting ----------------------------------------------------------------------------------------------

    def leave(self, writer: Writer) -> None:
        """Schedules a closed or lost writer: a later call forgets it, once marks have passed it in all of its keys."""
        for key, key_state in writer.key_states.items():
            self.aggregates[key].passing.put(writer.name, -TIME_BOUND_MS if key_state.time is None else key_state.time)
            self._to_check.add(key)

    def stay(self, writer: Writer) -> None:
        """Cancels `leave`: the writer is not to be forgotten for now."""
        for key in writer.key_states:
            self.aggregates[key].passing.drop(writer.name)

    def forget_passed(self, now: int) -> None:
        """Forgets closed and lost writers that marks have passed: at most `FORGOTTEN_PER_CALL`, and the rest later."""
        for agenda in (self._closed, self._lapsing):
            for name in agenda.due(now, most=FORGOTTEN_PER_CALL):
                writer = self.writers[name]
                if self._has_lapsed(writer, now):
                    self.leave(writer)
                else:
                    self._await_lapse(writer)
        room = FORGOTTEN_PER_CALL
        for key in sorted(self._to_check) if self._to_check else ():
            for name, time in self._passed_in(key, room):
                self._forget_if_passed(self.writers[name], self.aggregates[key], time, now)
                room -= 1
            if not room:
                return
            self._to_check.discard(key)

    def _make_room(self, needed_by: str) -> None:
        """Forgets closed writers before their time, the longest closed first, if marks have passed them."""
        for name in self._closed.due(TIME_BOUND_MS, most=FORGOTTEN_PER_CALL):
            writer = self.writers[name]
            if writer.closed and name != needed_by and self._is_passed(writer):
                self._forget(writer)
            else:
                self._await_lapse(writer)
        for key in sorted(self._to_check):  # writers that are due already, but that only a mark of this call has passed
            for name, time in self._passed_in(key, FORGOTTEN_PER_CALL):
                writer = self.writers[name]
                if writer.closed and name != needed_by and self._is_passed(writer):
                    self._forget(writer)
                else:
                    self.aggregates[key].passing.put(name, time)

    def _passed_in(self, key: str, most: int) -> list[tuple[str, int]]:
        """Takes out the closed and lost writers that the last mark of a key may have passed, with the mark's time."""
        aggregate = self.aggregates.get(key)
        if aggregate is None or aggregate.last is None:
            return []
        time = aggregate.last.time
        return [(name, time) for name in aggregate.passing.due(time, most=most)]

    def _is_passed(self, writer: Writer) -> bool:
        """Whether the last marks cover everything that a writer noted.

        There must be a mark. For a lost writer, one must have been made after it lapsed, so that a writer that notes
        rarely is not forgotten while time has not moved on without it.
        """
        aggregates = [self.aggregates[key] for key in writer.key_states]
        since = None if writer.closed else self._lapses_at(writer)
        marked = any(each.last and (since is None or each.last.created_at >= since) for each in aggregates)
        return marked and all(each.has_passed(writer) for each in aggregates)

    def _forget_if_passed(self, writer: Writer, aggregate: Aggregate, time: int, now: int) -> None:
        """Forgets a writer that the last mark of a key may have passed, if marks have passed it in all of its keys."""
        if not self._has_lapsed(writer, now):
            self.stay(writer)
            self._await_lapse(writer)
        elif self._is_passed(writer):
            self._forget(writer)
        elif not (writer.closed and aggregate.has_passed(writer)):
            aggregate.passing.put(writer.name, time + 1)

    def _forget(self, writer: Writer) -> None:
        name = writer.name
        for key in writer.key_states:
            aggregate = self.aggregates[key]
            aggregate.forget(writer)
            if not aggregate.holders and aggregate.last is None:
                del self.aggregates[key]
        for agenda in (self._deadlines, self._lapsing, self._closed):
            agenda.drop(name)
        self.sharing.leave(name, writer.position.offsets)
        del self.writers[name]
        self.changes.forget(name)

    def _has_lapsed(self, writer: Writer, now: int) -> bool:
        """Whether a writer has been closed or lost for long enough to be forgotten."""
        lapses_at = self._lapses_at(writer)
        return lapses_at is not None and lapses_at <= now

    def _await_lapse(self, writer: Writer) -> None:
        lapses_at = self._lapses_at(writer)
        if lapses_at is not None:
            (self._closed if writer.closed else self._lapsing).put(writer.name, lapses_at)

    def _lapses_at(self, writer: Writer) -> int | None:
        """The moment from which a writer may be forgotten; None if it is neither closed nor lost, or is excluded.

        It must have been lost for `forget_after_ms` in every key in which it is not idle.
        """
        if writer.closed:
            return writer.heard_at + self._gone_kept_ms
        if writer.excluded_at is not None:
            return None
        moments = []
        for key_state in writer.key_states.values():
            if key_state.lost_at is not None:
                moments.append(key_state.lost_at)
            elif key_state.phase is not Phase.IDLE:
                return None
        if not moments:
            return None
        return max(max(moments) + self.config.forget_after_ms, writer.heard_at + self._gone_kept_ms)

    # -- silence -------------------------------------------------------------------------------------------------

    def served(self, now: int) -> int:
        """The served time, in which silence is measured."""
        return self._unserved.served(now)

    def silent_ms(self, writer: Writer | Remainder, now: int) -> int:
        """How long a writer, or every forgotten one, has been silent, in served time."""
        return max(0, self.served(now) - writer.served_at)

    def _waits_for(self, writer: Writer) -> bool:
        return any(self.aggregates[key].role(writer.name) in AWAITED for key in writer.key_states)

    def _journal(self, writer: Writer, aggregate: Aggregate, key_state: KeyState, now: int) -> None:
        after = writer.state(key_state, aggregate.last.time if aggregate.last is not None else None)
        before = key_state.seen
        if before is not after:
            key_state.seen = after
            self.changes.states.append(StateChange(now, writer.name, aggregate.key, before, after))

    # -- marks ---------------------------------------------------------------------------------------------------

    def evaluate(self, keys: Collection[str], now: int, *, at_once: bool = False) -> list[Mark]:
        """Makes every possible mark whose interval has passed, or, `at_once`, every possible mark."""
        marks: list[Mark] = []
        for key in sorted(keys) if len(keys) > 1 else keys:
            aggregate = self.aggregates.get(key)
            # The interval first: most notes come before it has passed, and then no mark's time need be computed.
            while aggregate is not None and (at_once or self._interval_passed(aggregate, now)):
                time = aggregate.next_time()
                if time is None:
                    break
                rest = self.resting(now) if key == DEFAULT_KEY else None  # readers may have this time
                marks.append(self.append(aggregate, time if rest is None else max(time, rest.time), now))
        return marks

    def append(self, aggregate: Aggregate, time: int, now: int) -> Mark:
        """Makes one mark, and handles the writers that it timed out."""
        mark = aggregate.make(time, now)
        self.changes.marks.append(mark)
        self._to_check.add(aggregate.key)
        for name in sorted(aggregate.timed_out):
            self.changed(self.writers[name], now)
        aggregate.timed_out.clear()
        return mark

    def _interval_passed(self, aggregate: Aggregate, now: int) -> bool:
        interval = self.config.mark_interval_ms
        if interval is None:
            return False
        # If the last mark was made at a later moment, an operator has set the clock back since.
        return aggregate.last is None or not aggregate.last.created_at <= now < aggregate.last.created_at + interval

    def next_wake(self, *, exact: bool = True) -> int | None:
        """The moment at which time alone next changes something: a writer times out, or an interval has passed.

        Not `exact`, it ignores that writers were heard since: it may be too early, but is fast. While the store is
        away, nothing may happen at that moment: no writer times out before served time goes on.
        """
        timeout = self.config.writer_timeout_ms
        first = self._deadlines.first()
        while exact and timeout and first is not None:
            deadline, name = first
            writer = self.writers[name]
            if not self._waits_for(writer):
                self._deadlines.drop(name)
            elif deadline == writer.served_at + timeout:
                break
            else:
                self._deadlines.put(name, writer.served_at + timeout)
            first = self._deadlines.first()
        moments = [first[0] + self._unserved.total_ms] if first is not None else []
        interval = self.config.mark_interval_ms
        for aggregate in self.aggregates.values():
            if interval is not None and aggregate.last is not None and aggregate.next_time() is not None:
                moments.append(aggregate.last.created_at + interval)
        return min(moments, default=None)

    def held_by(self, key: str, now: int) -> Holder | None:
        aggregate = self.aggregates.get(key) or Aggregate(key, {}, self.config, self.sharing)
        return aggregate.held_by(self.served(now)) or self._holder_of_rest(aggregate, now)

    # -- idle advance, in the ingestion domain -------------------------------------------------------------------

    def resting(self, now: int) -> Mark | None:
        """The mark of the idle advance, computed and not stored; None while a reporter is not idle."""
        if self.config.time_domain is not INGESTION:
            return None
        aggregate = self.aggregates.get(DEFAULT_KEY)
        if aggregate is None or not self._at_rest(aggregate, now):
            return None
        time = now - self.config.idle_lag_ms - self.config.clock_skew_ms
        if aggregate.last is not None and time <= aggregate.last.time:
            return None
        return aggregate.survey(time, now)

    def store_rest(self, now: int) -> Mark | None:
        """Appends the mark of the idle advance, before a call ends it."""
        if self.config.time_domain is not INGESTION:
            return None
        mark = self.resting(now)
        return None if mark is None else self.append(self.aggregates[DEFAULT_KEY], mark.time, now)

    def _holder_of_rest(self, aggregate: Aggregate, now: int) -> Holder | None:
        """In the ingestion domain: the lost reporter that prevents the idle advance, if all others are idle, and for
        how long. Of several lost ones, the one that is forgotten last."""
        if self.config.time_domain is not INGESTION or not aggregate.enough_have_noted or aggregate.someone_counts:
            return None
        holders: list[tuple[int, str]] = []
        idle = False
        for name, writer in self.writers.items():
            key_state = writer.key_states[DEFAULT_KEY]
            since = writer.lost_since(key_state)
            if since is None:
                if not (writer.closed or key_state.phase is Phase.IDLE):
                    return None  # a skipped writer prevents the idle advance too
                idle = True
            elif writer.excluded_at is None and now - since < self.config.forget_after_ms:
                holders.append((since, name))
        if not idle or not holders:
            return None
        since, name = max(holders)
        writer = self.writers[name]
        key_state = writer.key_states[DEFAULT_KEY]
        return Holder(
            writer=name,
            state=str(writer.state(key_state, self.last_time(DEFAULT_KEY))),
            time=key_state.value,
            last_heard_ms_ago=self.silent_ms(writer, now),
            released_in_ms=since + self.config.forget_after_ms - now,
        )

    def _at_rest(self, aggregate: Aggregate, now: int) -> bool:
        """Whether every reporter is idle or closed; excluded ones and those that marks no longer name do not count."""
        if not aggregate.enough_have_noted or aggregate.someone_counts:
            return False
        someone = aggregate.remainder.closed
        for writer in self.writers.values():
            key_state = writer.key_states[DEFAULT_KEY]
            since = writer.lost_since(key_state)
            if writer.excluded_at is not None or (since is not None and now - since >= self.config.forget_after_ms):
                continue
            if since is not None or not (writer.closed or key_state.phase is Phase.IDLE):
                return False
            someone = True
        return someone
