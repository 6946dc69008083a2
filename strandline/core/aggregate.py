"""Notes in, marks out: one state machine for each (stream, key).

Every writer of the key has a role:

    COUNTED    the next mark's time is at most its time
    BLOCKING   it counts, but has no time yet: no mark can be made
    OUT        idle or closed: left out, and none of its events are missing
    LOST       timed out or excluded: left out, and marks above its time name it
    SKIPPED    behind, under the policy `skip`: left out, and marks name it

The time of the next mark is the least time of the counted writers. Its cut is the last mark's, joined with the
contribution of every writer, in any role. Its `upper` bounds every time that was noted for anything below the cut: the
time of a writer's contribution if later notes cannot add anything below the cut, else the greatest time that the writer
noted. The cost of a mark depends only on what changed since the last one: one heap has the counted writers by time, and
another has the time above which each contribution changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum, auto
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple, assert_never

from strandline.core.agenda import Agenda
from strandline.core.config import LateWriters, StreamConfig
from strandline.core.cut import NOTHING, join_all
from strandline.core.mark import Mark
from strandline.core.shared_segments import SharedSegments
from strandline.core.writer import Contribution, KeyState, Phase, Writer


class WriterRole(StrEnum):
    COUNTED = auto()
    BLOCKING = auto()
    OUT = auto()
    LOST = auto()
    SKIPPED = auto()


# A lookup in the enum class takes a tenth of a microsecond, and every note needs several.
COUNTED: Final = WriterRole.COUNTED
BLOCKING: Final = WriterRole.BLOCKING

MIN_WRITERS = "min_writers"


class Holder(NamedTuple):  # twice as fast to make as a dataclass, and most answers to notes have one
    """The writer that holds time back, and for how long. No writer: fewer than `min_writers` have noted yet."""

    writer: str | None
    state: str
    time: int | None
    last_heard_ms_ago: int | None
    released_in_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """A summary of the forgotten writers of a key.

    The marks hold everything else: these writers' positions lie at or below the last mark's cut, and their times at or
    below its time.
    """

    writers: int = 0  # how many were forgotten
    noted: int = 0  # how many of these had noted, for `min_writers`
    closed: bool = False  # whether one of them had closed
    heard_at: int = 0  # when the last of them was heard, by the clock
    served_at: int = 0  # the served time then
    newest: int | None = None  # the greatest `newest` that one of them contributed
    lacks_newest: bool = False  # whether one of them contributed a position without `newest`

    def with_writer(self, writer: Writer, key_state: KeyState) -> Remainder:
        """The remainder after one more writer is forgotten."""
        known = [newest for newest in (self.newest, key_state.newest) if newest is not None]
        return Remainder(
            writers=self.writers + 1,
            noted=self.noted + key_state.has_noted,
            closed=self.closed or writer.closed,
            heard_at=max(self.heard_at, writer.heard_at),
            served_at=max(self.served_at, writer.served_at),
            newest=max(known, default=None),
            lacks_newest=self.lacks_newest or (key_state.newest is None and bool(writer.position)),
        )


NO_REMAINDER: Final = Remainder()


class Given(NamedTuple):
    """A writer with its contribution to a mark."""

    writer: Writer
    key_state: KeyState
    contribution: Contribution


class Aggregate:
    """Makes the marks of one time key from the notes of its writers. It has no clock: `now` is an argument."""

    def __init__(
        self,
        key: str,
        writers: Mapping[str, Writer],
        config: StreamConfig,
        sharing: SharedSegments,
        last: Mark | None = None,
        remainder: Remainder = NO_REMAINDER,
    ) -> None:
        """`writers` and `sharing` belong to the stream and are only read here. Call `place` after every change to a
        writer."""
        self.key = key
        self.config = config
        self.last = last
        self.remainder = remainder
        self.passing = Agenda()  # writers that may be forgotten, each with the time of a mark that passes it
        self.timed_out: set[str] = set()  # writers that `place` timed out; the stream handles them and clears the set
        self._writers = writers
        self._sharing = sharing
        self._roles: dict[str, WriterRole] = {}
        self._lost: set[str] = set()
        self._skipped: set[str] = set()
        self._blocking: set[str] = set()
        self._groups = (
            (self._lost, WriterRole.LOST),
            (self._skipped, WriterRole.SKIPPED),
            (self._blocking, WriterRole.BLOCKING),
        )
        self._by_time: list[tuple[int, str]] = []  # a heap of counted writers; some entries are stale
        self._have_noted: set[str] = set()
        self._peak: tuple[int, str] | None = None  # the highest noted time and its writer, without excluded writers
        self._peak_known = False  # if not, `peak` computes it
        self._stale: set[str] = set()  # writers whose contribution may have changed since the last mark
        self._expiring = Agenda()  # by writer, the time above which its contribution changes
        self._newest: dict[str, int | None] = {}  # the `newest` that each writer last contributed
        self._lacking: set[str] = set()  # writers that contributed a position without `newest`

    # -- writers -------------------------------------------------------------------------------------------------

    def place(self, writer: Writer, now: int) -> None:
        """Updates role, time and contribution of a writer that may have changed."""
        name, key_state = writer.name, writer.key_states[self.key]
        role = self._role(writer, key_state)
        value = key_state.value
        if self.config.writer_timeout_ms == 0 and role in (COUNTED, BLOCKING) and self._reached(value):
            key_state.lost_at = now
            self.timed_out.add(name)
            role = WriterRole.LOST
        before = self._roles.get(name)
        if before is not role:
            self._roles[name] = role
            for group, wanted in self._groups if before is not None or role is not COUNTED else ():
                if role is wanted:
                    group.add(name)
                else:
                    group.discard(name)
        if role is COUNTED and value is not None:
            heappush(self._by_time, (value, name))
            if len(self._by_time) > 64 + 4 * len(self._roles):
                self._rebuild_times()
        if key_state.has_noted:
            self._have_noted.add(name)
        if not key_state.lasting:
            self._stale.add(name)
        if self._peak_known:
            self._follow_peak(writer, key_state)

    def has_passed(self, writer: Writer) -> bool:
        """Whether the last mark covers everything that a writer noted in this key: its times and its position."""
        key_state, last = writer.key_states[self.key], self.last
        if last is None:
            return key_state.greatest_time is None and not writer.position
        if key_state.time is not None and key_state.time > last.time:
            return False
        if key_state.earlier_time is not None and key_state.earlier_time > last.upper:
            return False
        return writer.position.le(last.cut)

    def forget(self, writer: Writer) -> None:
        """Forgets a writer that the last mark has passed."""
        name = writer.name
        if self.last is not None:
            self.remainder = self.remainder.with_writer(writer, writer.key_states[self.key])
        del self._roles[name]
        for group, _ in self._groups:
            group.discard(name)
        for names in (self._have_noted, self._stale, self._lacking):
            names.discard(name)
        for agenda in (self._expiring, self.passing):
            agenda.drop(name)
        self._newest.pop(name, None)

    @property
    def holders(self) -> int:
        """How many writers hold the key."""
        return len(self._roles)

    def look_again(self, name: str) -> None:
        """Marks a writer's last contribution as possibly out of date."""
        self._writers[name].key_states[self.key].lasting = False
        self._stale.add(name)

    def role(self, name: str) -> WriterRole:
        return self._roles[name]

    def counts(self, name: str) -> bool:
        """Whether a writer counts with at least the time of the last mark, so that none of its events are late."""
        if self._roles.get(name) is not COUNTED:
            return False
        value = self._writers[name].key_states[self.key].value
        return value is not None and (self.last is None or value >= self.last.time)

    def _role(self, writer: Writer, key_state: KeyState) -> WriterRole:
        if writer.closed:
            return WriterRole.OUT
        if writer.lost_since(key_state) is not None:
            return WriterRole.LOST
        match key_state.phase:
            case Phase.NOTED:
                behind = self.last is not None and key_state.time is not None and key_state.time < self.last.time
                return WriterRole.SKIPPED if behind and self.config.late_writers is LateWriters.SKIP else COUNTED
            case Phase.IDLE:
                return WriterRole.OUT
            case Phase.JOINED:
                return BLOCKING if key_state.floor is None else COUNTED
            case _:
                assert_never(key_state.phase)

    def _reached(self, value: int | None) -> bool:
        """Whether a writer that counts with `value` holds the next mark; with a timeout of 0 no writer may."""
        return value is None or (self.last is not None and value <= self.last.time)

    def _rebuild_times(self) -> None:
        self._by_time = [
            (value, name)
            for name, role in self._roles.items()
            if role is COUNTED and (value := self._writers[name].key_states[self.key].value) is not None
        ]
        heapify(self._by_time)

    # -- time ----------------------------------------------------------------------------------------------------

    def least(self) -> tuple[int, str] | None:
        """The least time of the counted writers and its writer, ties by name."""
        while self._by_time:
            value, name = self._by_time[0]
            if self._roles.get(name) is COUNTED and self._writers[name].key_states[self.key].value == value:
                return value, name
            heappop(self._by_time)
        return None

    def next_time(self) -> int | None:
        """The time of a mark that could be made now; None if a writer holds time back or time has not advanced."""
        if self._blocking or not self.enough_have_noted:
            return None
        least = self.least()
        time = least[0] if least is not None else self.peak()
        if time is None or (self.last is not None and time <= self.last.time):
            return None
        return time

    def peak(self) -> int | None:
        """The highest time that a writer noted in its current life; excluded writers do not count."""
        if not self._peak_known:
            self._peak, self._peak_known = None, True
            for name in self._roles:
                writer = self._writers[name]
                self._follow_peak(writer, writer.key_states[self.key])
        return None if self._peak is None else self._peak[0]

    def _follow_peak(self, writer: Writer, key_state: KeyState) -> None:
        """Updates the highest time with a writer's. It becomes unknown if the writer had it and no longer does."""
        time = key_state.time if writer.excluded_at is None else None
        peak = self._peak
        if time is not None and (peak is None or time >= peak[0]):
            self._peak = (time, writer.name)
        elif peak is not None and peak[1] == writer.name:
            self._peak_known = False

    @property
    def someone_counts(self) -> bool:
        return bool(self._blocking) or self.least() is not None

    @property
    def enough_have_noted(self) -> bool:
        return len(self._have_noted) + self.remainder.noted >= self.config.min_writers

    def held_by(self, served: int) -> Holder | None:
        """The holder at a served time; None if the next mark waits only for its interval, or no writer counts."""
        if not self.enough_have_noted:
            return Holder(writer=None, state=MIN_WRITERS, time=None, last_heard_ms_ago=None, released_in_ms=None)
        if self._blocking:
            return self._holder(min(self._blocking), served)
        least = self.least()
        if least is None or self.last is None or least[0] > self.last.time:
            return None
        return self._holder(least[1], served)

    def _holder(self, name: str, served: int) -> Holder:
        writer = self._writers[name]
        key_state = writer.key_states[self.key]
        silent = max(0, served - writer.served_at)
        timeout = self.config.writer_timeout_ms
        return Holder(
            writer=name,
            state=str(writer.state(key_state, self.last.time if self.last else None)),
            time=key_state.value,
            last_heard_ms_ago=silent,
            released_in_ms=None if timeout is None else max(0, timeout - silent),
        )

    # -- marks ---------------------------------------------------------------------------------------------------

    def make(self, time: int, now: int) -> Mark:
        """Makes the mark at `time`, which must be above the last mark's, from what changed since the last mark."""
        changed, self._stale = self._stale, set()
        changed.update(self._expiring.due(time - 1))
        given = []
        for name in changed:
            writer = self._writers[name]
            key_state = writer.key_states[self.key]
            key_state.drop_below(time)
            contribution = writer.contribution(key_state, time)
            if contribution.lasting and contribution.time is not None:
                self._expiring.put(name, contribution.time)
            self._newest[name] = contribution.newest
            if contribution.lacks_newest:
                self._lacking.add(name)
            else:
                self._lacking.discard(name)
            given.append(Given(writer, key_state, contribution))
        lacking = self._lacking or self.remainder.lacks_newest
        mark = self._mark(time, now, given, None if lacking else self._greatest_newest(given), keep=True)
        self.last = mark
        self._after_mark(mark, now)
        return mark

    def survey(self, time: int, now: int) -> Mark:
        """The mark that `make` would make, computed from all writers without any change: for an idle stream."""
        given = [
            Given(writer, key_state, writer.contribution(key_state, time))
            for writer in self._writers.values()
            if (key_state := writer.key_states.get(self.key)) is not None
        ]
        known = [each.contribution.newest for each in given if each.contribution.newest is not None]
        known += [newest for newest in (self.remainder.newest,) if newest is not None]
        if self.last is not None and self.last.newest is not None:
            known.append(self.last.newest)
        lacking = self.remainder.lacks_newest or any(each.contribution.lacks_newest for each in given)
        return self._mark(time, now, given, None if lacking else max(known, default=None), keep=False)

    def _mark(self, time: int, now: int, given: list[Given], newest: int | None, *, keep: bool) -> Mark:
        """`keep`: whether to record which contributions no later note of their writers can change."""
        last = self.last
        cut = join_all([last.cut if last is not None else NOTHING, *(each.contribution.cut for each in given)])
        upper = time if last is None else max(time, last.upper)
        for writer, key_state, contribution in given:
            alone = self._sharing.is_alone(writer.position, contribution.cut, cut)
            if keep:
                key_state.lasting = contribution.lasting and alone
            noted, earlier = contribution.time if alone else key_state.time, key_state.earlier_time
            if noted is not None and noted > upper:
                upper = noted
            if earlier is not None and earlier > upper:
                upper = earlier
        return Mark(
            seq=last.seq + 1 if last is not None else 1,
            key=self.key,
            time=time,
            upper=upper,
            cut=cut,
            newest=newest,
            excluded=self._left_out(time, now),
            created_at=now,
        )

    def _greatest_newest(self, given: list[Given]) -> int | None:
        """The greatest `newest` of all contributions. If the last mark has one, only `given` can have raised it."""
        last = self.last.newest if self.last is not None else None
        came = self._newest.values() if last is None else (each.contribution.newest for each in given)
        return max((newest for newest in (last, self.remainder.newest, *came) if newest is not None), default=None)

    def _left_out(self, time: int, now: int) -> tuple[str, ...]:
        named = [name for name in self._lost if self._misses(name, time, now)]
        return tuple(sorted([*named, *self._skipped]))

    def _misses(self, name: str, time: int, now: int) -> bool:
        """Whether a lost writer may have written events that a mark at `time` does not cover, and is to be named."""
        writer = self._writers[name]
        key_state = writer.key_states[self.key]
        since = writer.lost_since(key_state)
        if since is None or now - since >= self.config.forget_after_ms:
            return False
        return key_state.value is None or key_state.value < time

    def _after_mark(self, mark: Mark, now: int) -> None:
        if self.config.writer_timeout_ms == 0:
            # A writer that the mark has reached would hold the next one, so it is left out at once.
            while (least := self.least()) is not None and least[0] <= mark.time:
                self.place(self._writers[least[1]], now)

    def forget_segment(self, segment: str) -> None:
        """Removes a segment that the log never had from the last mark, so that no later cut contains it."""
        if self.last is not None:
            self.last = replace(self.last, cut=self.last.cut.without(segment))
