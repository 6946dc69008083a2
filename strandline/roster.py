"""Who counts in a stream, and when its marks are due: the writers, an aggregate for each time key, the deadlines.

`Stream` judges calls and changes writers; this knows what follows from a change: roles, silence, marks, wake-ups.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heappop, heappush

from strandline.aggregate import Aggregate, Holder, Role
from strandline.changes import Changes, StateChange
from strandline.config import StreamConfig, TimeDomain
from strandline.errors import TooMany
from strandline.limits import KEYS_PER_STREAM
from strandline.mark import Mark
from strandline.note import DEFAULT_KEY
from strandline.unserved import Unserved
from strandline.writer import Phase, Standing, Writer, WriterState

INGESTION = TimeDomain.INGESTION  # looking it up in its class takes longer than all else in `resting`
AWAITED = frozenset({Role.COUNTED, Role.BLOCKING, Role.SKIPPED})  # whose silence is looked at


class Roster:
    """The writers of a stream by name, its aggregates by key, and what they are waiting for."""

    def __init__(self, config: StreamConfig, unserved: Unserved) -> None:
        self.config = config
        self._unserved = unserved
        self.writers: dict[str, Writer] = {}
        self.aggregates: dict[str, Aggregate] = {}
        self.changes = Changes()
        # At or before the served time when a writer has been silent too long.
        self._deadlines: list[tuple[int, str]] = []
        self._armed: set[str] = set()
        self._seen: dict[tuple[str, str], WriterState] = {}

    @property
    def keys(self) -> set[str]:
        return set(self.aggregates)

    def check_keys(self, keys: Iterable[str]) -> None:
        """Raises TooMany where there would be too many keys with these."""
        known = self.aggregates
        new = [key for key in keys if key not in known]
        if new and (count := len(known) + len(new)) > KEYS_PER_STREAM:
            raise TooMany(what="time keys in a stream", count=count, limit=KEYS_PER_STREAM)

    def _begin(self, key: str) -> Aggregate:
        """The aggregate of a key that is new."""
        begun = self.aggregates[key] = Aggregate(key, self.writers, self.config)
        return begun

    def writer(self, name: str, now: int) -> Writer:
        """The writer of a name; it begins when first asked for."""
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
        """The time that a key has reached: its last mark's, or at rest what readers are told beyond that."""
        rest = self.resting(now) if key == DEFAULT_KEY else None
        return self.last_time(key) if rest is None else rest.time

    def restore(self, writers: Iterable[Writer], last_marks: Iterable[Mark], now: int) -> None:
        """Takes up writers and last marks as they were stored. Nothing of it is a change."""
        for mark in last_marks:
            self.aggregates[mark.key] = Aggregate(mark.key, self.writers, self.config, mark)
        for writer in writers:
            self.writers[writer.name] = writer
        for writer in self.writers.values():
            for standing in writer.standings.values():
                standing.lasting = False  # what it gave to the last mark is worked out again
            self.changed(writer, now)
        self.changes = Changes()

    # -- changes -------------------------------------------------------------------------------------------------

    def changed(self, writer: Writer, now: int) -> None:
        """Tells the aggregates, the deadlines and the journal about a writer that may have changed."""
        self.changes.writers.add(writer.name)
        for key, standing in writer.standings.items():
            aggregate = self.aggregates.get(key) or self._begin(key)
            aggregate.place(writer, now)
            if aggregate.let_go:
                aggregate.let_go.discard(writer.name)
            self._journal(writer, aggregate, standing, now)
        if writer.name not in self._armed and self.config.writer_timeout_ms and self._waits_for(writer):
            heappush(self._deadlines, (writer.served_at + self.config.writer_timeout_ms, writer.name))
            self._armed.add(writer.name)

    def configure(self, config: StreamConfig, now: int) -> None:
        """Sees everyone anew under other settings."""
        self.config = config
        self._deadlines.clear()
        self._armed.clear()
        for aggregate in self.aggregates.values():
            aggregate.config = config
        for writer in self.writers.values():
            self.changed(writer, now)

    def let_silent_go(self, now: int) -> set[str]:
        """Those who count but were not heard from for too long are lost; returns the keys that this concerns."""
        timeout = self.config.writer_timeout_ms
        keys: set[str] = set()
        if not self._deadlines or self._deadlines[0][0] > (served := self.served(now)):
            return keys
        while timeout and self._deadlines and self._deadlines[0][0] <= served:
            _, name = heappop(self._deadlines)
            self._armed.discard(name)
            writer = self.writers[name]
            deadline = writer.served_at + timeout
            if deadline <= served:
                for key, standing in writer.standings.items():
                    if self.aggregates[key].role(name) in AWAITED:
                        standing.lost_at = now - (served - deadline)
                        keys.add(key)
            self.changed(writer, now)
        return keys

    def served(self, now: int) -> int:
        """The served time, by which silence is judged."""
        return self._unserved.served(now)

    def silent_ms(self, writer: Writer, now: int) -> int:
        """How long a writer has been silent, of the time in which it could have been heard."""
        return max(0, self.served(now) - writer.served_at)

    def _waits_for(self, writer: Writer) -> bool:
        return any(self.aggregates[key].role(writer.name) in AWAITED for key in writer.standings)

    def _journal(self, writer: Writer, aggregate: Aggregate, standing: Standing, now: int) -> None:
        after = writer.state(standing, aggregate.last.time if aggregate.last is not None else None)
        place = (writer.name, aggregate.key)
        before = self._seen.get(place)
        if before is not after:
            self._seen[place] = after
            self.changes.states.append(StateChange(now, writer.name, aggregate.key, before, after))

    # -- marks ---------------------------------------------------------------------------------------------------

    def evaluate(self, keys: Collection[str], now: int, *, at_once: bool = False) -> list[Mark]:
        """Makes the marks that are possible: each when its interval has passed, or `at_once`."""
        marks: list[Mark] = []
        for key in sorted(keys) if len(keys) > 1 else keys:
            aggregate = self.aggregates.get(key)
            # The interval first: most notes come before it has passed, and need not know what mark there could be.
            while aggregate is not None and (at_once or self._interval_passed(aggregate, now)):
                time = aggregate.next_time()
                if time is None:
                    break
                rest = self.resting(now) if key == DEFAULT_KEY else None  # readers were told it: never below that
                marks.append(self.append(aggregate, time if rest is None else max(time, rest.time), now))
        return marks

    def append(self, aggregate: Aggregate, time: int, now: int) -> Mark:
        """Makes one mark, and takes in what follows from it."""
        mark = aggregate.make(time, now)
        self.changes.marks.append(mark)
        for name in sorted(aggregate.let_go):
            self.changed(self.writers[name], now)
        aggregate.let_go.clear()
        return mark

    def _interval_passed(self, aggregate: Aggregate, now: int) -> bool:
        interval = self.config.mark_interval_ms
        if interval is None:
            return False
        # A mark from a later moment was made before an operator set the clock back.
        return aggregate.last is None or not aggregate.last.created_at <= now < aggregate.last.created_at + interval

    def next_wake(self, *, exact: bool = True) -> int | None:
        """When time alone next changes something: a writer has been silent too long, or an interval has passed.

        If not `exact`, deadlines stay as they are of writers who were heard from since: a bound at once. While nobody
        can be heard, it may come and nothing happens: nobody is let go before served time goes on.
        """
        timeout = self.config.writer_timeout_ms
        while exact and timeout and self._deadlines:
            deadline, name = self._deadlines[0]
            writer = self.writers[name]
            if deadline == writer.served_at + timeout and self._waits_for(writer):
                break
            heappop(self._deadlines)
            self._armed.discard(name)
            if self._waits_for(writer):
                heappush(self._deadlines, (writer.served_at + timeout, name))
                self._armed.add(name)
        moments = [self._deadlines[0][0] + self._unserved.total_ms] if self._deadlines else []
        interval = self.config.mark_interval_ms
        for aggregate in self.aggregates.values():
            if interval is not None and aggregate.last is not None and aggregate.next_time() is not None:
                moments.append(aggregate.last.created_at + interval)
        return min(moments, default=None)

    def held_by(self, key: str, now: int) -> Holder | None:
        aggregate = self.aggregates.get(key) or Aggregate(key, {}, self.config)
        return aggregate.held_by(self.served(now))

    # -- rest, in the ingestion domain ---------------------------------------------------------------------------

    def resting(self, now: int) -> Mark | None:
        """The mark that time has reached while every reporter said idle; worked out, not stored."""
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
        """Before a call ends the rest: appends the mark that time has reached."""
        if self.config.time_domain is not INGESTION:
            return None
        mark = self.resting(now)
        return None if mark is None else self.append(self.aggregates[DEFAULT_KEY], mark.time, now)

    def _at_rest(self, aggregate: Aggregate, now: int) -> bool:
        """Whether every reporter, but for those excluded or forgotten, said idle or, a writer, closed."""
        if not aggregate.enough_have_noted or aggregate.someone_counts:
            return False
        someone = False
        for writer in self.writers.values():
            standing = writer.standings[DEFAULT_KEY]
            since = writer.lost_since(standing)
            if writer.excluded_at is not None or (since is not None and now - since >= self.config.forget_after_ms):
                continue
            if since is not None or not (writer.closed or standing.phase is Phase.IDLE):
                return False
            someone = True
        return someone
