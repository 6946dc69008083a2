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
noted. What a mark needs is gathered as notes come (`Contributions`): its cost hardly depends on how many writers noted
since the last one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final, NamedTuple, assert_never

from strandline.core.agenda import Agenda
from strandline.core.census import Census
from strandline.core.config import LateWriters, StreamConfig
from strandline.core.contributions import Contributions, Gathered, Given
from strandline.core.cut import NOTHING, Cut, cut_of_rows, join_row
from strandline.core.mark import Mark
from strandline.core.ordered_names import OrderedNames
from strandline.core.shared_segments import SharedSegments
from strandline.core.writer import JOINED, NOTED, Contribution, KeyState, Phase, StreamWriter, WriterRole, new_tuple
from strandline.limits import TIME_BOUND_MS

# A lookup in the enum class takes a tenth of a microsecond, and every note needs several.
COUNTED: Final = WriterRole.COUNTED
BLOCKING: Final = WriterRole.BLOCKING

BEFORE_ALL: Final = -TIME_BOUND_MS  # the place of blocking writers among the counted ones
MIN_WRITERS = "min_writers"


class Holder(NamedTuple):
    """The writer that holds time back, and for how long. No writer: fewer than `min_writers` have noted yet."""

    writer: str | None
    state: str
    time: int | None
    last_heard_ms_ago: int | None
    released_in_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """A summary of the forgotten writers of a key.

    The key's marks hold everything else: these writers' positions lie at or below the last mark's cut, and their times
    at or below its time. Marks of other keys need not: `cut` is for them.
    """

    writers: int = 0  # how many were forgotten
    noted: int = 0  # how many of these had noted, for `min_writers`
    closed: bool = False  # whether one of them had closed
    heard_at: int = 0  # when the last of them was heard, by the clock
    served_at: int = 0  # the served time then
    newest: int | None = None  # the greatest `newest` that one of them contributed
    lacks_newest: bool = False  # whether one of them contributed a position without `newest`
    cut: Cut = NOTHING  # the join of their positions

    def with_writer(self, writer: StreamWriter, key_state: KeyState) -> Remainder:
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
            cut=self.cut.join(writer.position),
        )


NO_REMAINDER: Final = Remainder()


def _given_by(writers: Mapping[str, StreamWriter], key: str, name: str) -> Iterable[Given]:
    """What a writer contributes now."""
    writer = writers.get(name)
    if writer is None or key not in writer.key_states:
        return ()  # forgotten: the last mark has passed it
    return writer.given(writer.key_states[key])


class Aggregate:
    """Makes the marks of one time key from the notes of its writers. It has no clock: `now` is an argument."""

    def __init__(
        self,
        key: str,
        writers: Mapping[str, StreamWriter],
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
        self.holders = 0  # how many writers hold the key
        self.census = Census(key, writers)  # these writers by state; the stream keeps it
        self._lost: set[str] = set()
        self._skipped: set[str] = set()
        self._groups = (
            (self._lost, WriterRole.LOST),
            (self._skipped, WriterRole.SKIPPED),
        )
        self._counted = OrderedNames()  # by the times with which they count
        self._have_noted = 0  # how many of the writers
        self._peak: tuple[int, str] | None = None  # the highest noted time and its writer, without excluded writers
        self._peak_known = False  # if not, `peak` computes it
        self._contributions = Contributions(partial(_given_by, self._writers, self.key))
        self._overtaken: int | None = None  # the greatest time of writers that others' notes can overtake
        self._overtaken_known = True  # if not, the next mark computes it
        self._unsure: set[str] = set()  # writers of which only the next mark's cut shows whether others overtake them
        self._newest_is_noted = remainder.newest is not None or (last is not None and last.newest is not None)
        self._lacking: str | None = None  # a writer that gave the last mark a position without `newest`
        self._none_lacks = False  # whether the last mark found no such writer

    # -- writers -------------------------------------------------------------------------------------------------

    def take_note(
        self, writer: StreamWriter, key_state: KeyState, time: int, cut: Cut, answered_floor: int | None, bound: int
    ) -> None:
        """Takes a writer's note in this key, after the writer has moved to its closed cut; see `KeyState.note`."""
        last_time = self.last.time if self.last is not None else None
        above = key_state.kept_above(last_time)
        if not key_state.has_noted and key_state.role is not None:
            self._have_noted += 1
        if key_state.note(time, writer.position, answered_floor, last_time, bound):
            self.gather(writer)
        else:
            self._contribute(writer, key_state, above, cut)

    def take_move(self, writer: StreamWriter, key_state: KeyState, cut: Cut) -> None:
        """Takes a note that a writer made in other keys: it has moved to this closed cut."""
        self._contribute(
            writer, key_state, key_state.kept_above(self.last.time if self.last is not None else None), cut
        )

    def _contribute(self, writer: StreamWriter, key_state: KeyState, above: int | None, cut: Cut) -> None:
        self._contributions.add(writer.name, above, key_state.time, cut)
        if key_state.newest is not None:
            self._newest_is_noted = True
        self.check_again(writer)

    def gather(self, writer: StreamWriter) -> None:
        """Adds all that a writer contributes: it is new, began a new life, or gave up notes that it had kept."""
        key_state = writer.key_states[self.key]
        if self.last is not None:
            key_state.drop_passed(self.last.time)
        for above, time, cut in writer.given(key_state):
            self._contributions.add(writer.name, above, time, cut)
        if key_state.earlier_time is not None:
            self._contributions.add_time(key_state.earlier_time)
        if key_state.newest is not None or any(earlier.newest is not None for earlier in key_state.history):
            self._newest_is_noted = True
        self.check_again(writer)

    def replace(self, writer: StreamWriter, known: KeyState) -> None:
        """Takes what a writer became elsewhere, in place of its `known` state. Call `place` next."""
        key_state = writer.key_states[self.key]
        key_state.role, key_state.entry = known.role, known.entry
        self._have_noted += key_state.has_noted - known.has_noted
        last_time = self.last.time if self.last is not None else None
        if last_time is not None:
            key_state.drop_passed(last_time)
            known.drop_passed(last_time)
        before = len(known.history)
        if key_state.history[:before] != known.history or key_state.earlier_time != known.earlier_time:
            self.gather(writer)
            return
        above, cut = known.kept_above(last_time), None
        for time, cut, newest in key_state.history[before:]:
            self._contributions.add(writer.name, above, time, cut)
            self._newest_is_noted |= newest is not None
            above = time
        if cut is writer.position:
            self.check_again(writer)
        else:
            self._contribute(writer, key_state, above, writer.position)

    def check_again(self, writer: StreamWriter, *, fewer: bool = False) -> None:
        """Looks whether others' notes can overtake those of a writer that changed, or whose segments have other writers
        now, or `fewer`."""
        time = writer.key_states[self.key].time
        if time is None or not writer.position.row:
            return
        if self._sharing.shared and self._sharing.can_be_overtaken(writer.position):
            if self._overtaken is None or time > self._overtaken:
                self._overtaken = time
        elif self._sharing.shared or self.remainder.writers:
            self._unsure.add(writer.name)
        if fewer and time == self._overtaken:
            self._overtaken_known = False

    def place(self, writer: StreamWriter, now: int) -> None:
        """Updates role and time of a writer that may have changed."""
        name, key_state = writer.name, writer.key_states[self.key]
        role = self._role(writer, key_state)
        value = key_state.floor if key_state.phase is JOINED else key_state.time
        if self.config.writer_timeout_ms == 0 and (role is COUNTED or role is BLOCKING) and self._reached(value):
            key_state.lost_at = now
            self.timed_out.add(name)
            role = WriterRole.LOST
        if key_state.role is not role:
            self._change_role(writer, key_state, role)
        number = value if role is COUNTED else BEFORE_ALL if role is BLOCKING else None
        entry = key_state.entry
        if entry is None or entry[0] != number:
            if entry is not None:
                self._counted.remove(entry)
            key_state.entry = None if number is None else (number, name)
            if key_state.entry is not None:
                self._counted.add(key_state.entry)
        if self._peak_known:
            self._follow_peak(writer, key_state)

    def has_passed(self, writer: StreamWriter) -> bool:
        """Whether the last mark covers everything that a writer noted in this key: its times and its position."""
        key_state, last = writer.key_states[self.key], self.last
        if last is None:
            return key_state.greatest_time is None and not writer.position
        if key_state.time is not None and key_state.time > last.time:
            return False
        if key_state.earlier_time is not None and key_state.earlier_time > last.upper:
            return False
        return writer.position.le(last.cut)

    def forget(self, writer: StreamWriter) -> None:
        """Forgets a writer that the last mark has passed, here or elsewhere."""
        name, key_state = writer.name, writer.key_states[self.key]
        if self.last is not None:
            self.remainder = self.remainder.with_writer(writer, key_state)
        self.holders -= 1
        self.census.leave(name, key_state.seen)
        self._have_noted -= key_state.has_noted
        # Forgotten elsewhere, it may count here, or have noted more in a life that ended since.
        if key_state.entry is not None:
            self._counted.remove(key_state.entry)
            key_state.entry = None
        if self._peak is not None and self._peak[1] == name:
            self._peak_known = False
        for group, _ in self._groups:
            group.discard(name)
        self._unsure.discard(name)
        self.passing.drop(name)

    def role(self, name: str) -> WriterRole | None:
        return self._writers[name].key_states[self.key].role

    def counts(self, key_state: KeyState) -> bool:
        """Whether a writer counts with at least the time of the last mark, so that none of its events are late."""
        if key_state.role is not COUNTED:
            return False
        value = key_state.floor if key_state.phase is JOINED else key_state.time
        return value is not None and (self.last is None or value >= self.last.time)

    def _change_role(self, writer: StreamWriter, key_state: KeyState, role: WriterRole) -> None:
        if key_state.role is None:
            self.holders += 1
            self._have_noted += key_state.has_noted
            self.gather(writer)
        key_state.role = role
        for group, wanted in self._groups:
            if role is wanted:
                group.add(writer.name)
            else:
                group.discard(writer.name)

    def _role(self, writer: StreamWriter, key_state: KeyState) -> WriterRole:
        if writer.excluded_at is not None and not writer.closed:
            return WriterRole.LOST
        return self._role_included(writer, key_state)

    def _role_included(self, writer: StreamWriter, key_state: KeyState) -> WriterRole:
        """The role that it has, or would have if it were not excluded."""
        if writer.closed:
            return WriterRole.OUT
        if key_state.lost_at is not None:
            return WriterRole.LOST
        phase = key_state.phase
        if phase is NOTED:
            behind = self.last is not None and key_state.time is not None and key_state.time < self.last.time
            return WriterRole.SKIPPED if behind and self.config.late_writers is LateWriters.SKIP else COUNTED
        match phase:
            case Phase.IDLE:
                return WriterRole.OUT
            case Phase.JOINED:
                return BLOCKING if key_state.floor is None else COUNTED
            case _:
                assert_never(phase)

    def _reached(self, value: int | None) -> bool:
        """Whether a writer that counts with `value` holds the next mark; with a timeout of 0 no writer may."""
        return value is None or (self.last is not None and value <= self.last.time)

    # -- time ----------------------------------------------------------------------------------------------------

    def least(self) -> tuple[int, str] | None:
        """The least time of the counted writers and its writer, ties by name; a blocking one is `BEFORE_ALL`."""
        return self._counted.first()

    def next_time(self) -> int | None:
        """The time of a mark that could be made now; None if a writer holds time back or time has not advanced."""
        least = self._counted.first()
        if self._have_noted + self.remainder.noted < self.config.min_writers:
            return None
        if least is not None and least[0] == BEFORE_ALL:
            return None
        time = least[0] if least is not None else self.peak()
        if time is None or (self.last is not None and time <= self.last.time):
            return None
        return time

    def time_without(self, name: str, *, keeps_times: bool) -> int | None:
        """The time that marks would reach if a writer no longer counted: it is closed, and `keeps_times`, or excluded.
        None: as far as now. Changes nothing."""
        least = self._counted.first_without(name)
        if not self.enough_have_noted or (least is not None and least[0] == BEFORE_ALL):
            return None
        if least is not None and self.config.writer_timeout_ms != 0:  # with 0, marks leave out whom they have reached
            return least[0]
        if keeps_times:
            return self.peak()
        others = (
            key_state.time for each, key_state in self._holding() if each.excluded_at is None and each.name != name
        )
        return max((time for time in others if time is not None), default=None)

    def time_with(self, writer: StreamWriter, *, is_silent: bool) -> int | None:
        """The time that marks would reach if an excluded writer were included, which times out at once if it is
        silent for too long. None: as far as now. Changes nothing."""
        key_state, least = writer.key_states[self.key], self._counted.first()
        role, times = self._role_included(writer, key_state), [] if least is None else [least[0]]
        if not self.enough_have_noted or times == [BEFORE_ALL] or (role is BLOCKING and not is_silent):
            return None
        if role is COUNTED and key_state.value is not None and not is_silent:
            times.append(key_state.value)
        if times and self.config.writer_timeout_ms != 0:
            return min(times)
        return max((time for time in (self.peak(), key_state.time) if time is not None), default=None)

    def peak(self) -> int | None:
        """The highest time that a writer noted in its current life; excluded writers do not count."""
        if not self._peak_known:
            self._peak, self._peak_known = None, True
            for writer, key_state in self._holding():
                self._follow_peak(writer, key_state)
        return None if self._peak is None else self._peak[0]

    def _follow_peak(self, writer: StreamWriter, key_state: KeyState) -> None:
        """Updates the highest time with a writer's. It becomes unknown if the writer had it and no longer does."""
        time = key_state.time if writer.excluded_at is None else None
        peak = self._peak
        if time is not None and (peak is None or time >= peak[0]):
            self._peak = (time, writer.name)
        elif peak is not None and peak[1] == writer.name:
            self._peak_known = False

    @property
    def have_noted(self) -> int:
        """How many writers have noted, forgotten ones too."""
        return self._have_noted + self.remainder.noted

    @property
    def enough_have_noted(self) -> bool:
        return self._have_noted + self.remainder.noted >= self.config.min_writers

    def held_by(self, served: int) -> Holder | None:
        """The holder at a served time; None if the next mark waits only for its interval, or no writer counts."""
        if self._have_noted + self.remainder.noted < self.config.min_writers:
            return Holder(writer=None, state=MIN_WRITERS, time=None, last_heard_ms_ago=None, released_in_ms=None)
        least = self._counted.first()
        if least is None or (least[0] > BEFORE_ALL and (self.last is None or least[0] > self.last.time)):
            return None
        return self._holder(least[1], served)

    def _holder(self, name: str, served: int) -> Holder:
        writer = self._writers[name]
        key_state = writer.key_states[self.key]
        silent = max(0, served - writer.served_at)
        timeout = self.config.writer_timeout_ms
        state = writer.state(key_state, self.last.time if self.last is not None else None)
        released_in = None if timeout is None else max(0, timeout - silent)
        return new_tuple(Holder, (name, state.value, key_state.value, silent, released_in))

    # -- marks ---------------------------------------------------------------------------------------------------

    def make(self, time: int, now: int, end: Cut | None = None) -> Mark:
        """Makes the mark at `time`, which must be above the last mark's. The last mark of all has the log's `end`."""
        mark = self._mark(time, now, self._contributions.take(time), keep=True)
        if end is not None and not end.le(mark.cut):
            mark = replace(mark, cut=mark.cut.join(end), upper=self._greatest_time(mark.upper), newest=None)
        self._make_last(mark)
        self._after_mark(mark, now)
        return mark

    def adopt(self, mark: Mark) -> None:
        """Takes a mark that was made elsewhere. It may be a later one than the next: it has what those before had."""
        self._contributions.take(mark.time)
        self._lacking, self._none_lacks = None, mark.newest is not None
        self._make_last(mark)

    def adopt_remainder(self, remainder: Remainder) -> None:
        """Takes the summary of the forgotten writers, of whom some were forgotten elsewhere."""
        self.remainder = remainder
        self._newest_is_noted |= remainder.newest is not None

    def _make_last(self, mark: Mark) -> None:
        self.last = mark
        self._overtaken, self._overtaken_known = None, True  # `upper` bounds it now
        self._unsure = {name for name in self._unsure if self._time_of(name) > mark.upper}

    def survey(self, time: int, now: int) -> Mark:
        """The mark that `make` would make, without any change: for an idle stream."""
        return self._mark(time, now, self._contributions.below(time), keep=False)

    def _mark(self, time: int, now: int, given: list[Gathered], *, keep: bool) -> Mark:
        """`keep`: whether the mark is made, so that the next one may rely on what was found for it."""
        last = self.last
        rows = {} if last is None else {last.cut.shape: last.cut.row}
        for each in given:
            for shape, row in each.rows.items():
                join_row(rows, shape, row)
        cut = cut_of_rows(rows)
        return Mark(
            seq=last.seq + 1 if last is not None else 1,
            key=self.key,
            time=time,
            upper=self._upper(time, given, cut),
            cut=cut,
            newest=self._newest(time, given, keep=keep),
            excluded=self._left_out(time, now),
            created_at=now,
        )

    def _upper(self, time: int, given: list[Gathered], cut: Cut) -> int:
        if not self._overtaken_known:
            self._overtaken, self._overtaken_known = None, True
            for writer, _ in self._holding():
                self.check_again(writer)
        times = [self.last.upper if self.last is not None else None, self._overtaken, *(each.time for each in given)]
        upper = max([time, *(each for each in times if each is not None)])
        reached: Mapping[str, int] | None = None
        for name in self._unsure:
            noted = self._time_of(name)
            if noted > upper:
                writer = self._writers[name]
                contributed = writer.contribution(writer.key_states[self.key], time).cut
                reached = cut.offsets if reached is None else reached
                if not self._sharing.is_alone(writer.position, contributed, reached):
                    upper = noted
        return upper

    def _greatest_time(self, known: int) -> int:
        """The greatest time that anybody noted, at least the known one."""
        return max([known, *(time for _, each in self._holding() if (time := each.greatest_time) is not None)])

    def _newest(self, time: int, given: list[Gathered], *, keep: bool) -> int | None:
        """The greatest `newest` of all contributions and the last mark; None if a contribution lacks it.

        If no contribution lacked it at the last mark, only those that changed since are looked at.
        """
        if not self._newest_is_noted or self.remainder.lacks_newest:
            return None
        names = (
            chain.from_iterable(each.names for each in given)
            if self._none_lacks
            else chain(() if self._lacking is None else (self._lacking,), self._writers)
        )
        found = [self.remainder.newest, self.last.newest if self.last is not None else None]
        for name in names:
            contribution = self._contribution(name, time)
            if contribution is not None and contribution.lacks_newest:
                if keep:
                    self._lacking, self._none_lacks = name, False
                return None
            if contribution is not None:
                found.append(contribution.newest)
        if keep:
            self._lacking, self._none_lacks = None, True
        return max((newest for newest in found if newest is not None), default=None)

    def _contribution(self, name: str, time: int) -> Contribution | None:
        """A writer's contribution to a mark at `time`; None if it does not hold the key, or is forgotten."""
        writer = self._writers.get(name)
        key_state = writer.key_states.get(self.key) if writer is not None else None
        return None if writer is None or key_state is None else writer.contribution(key_state, time)

    def _time_of(self, name: str) -> int:
        time = self._writers[name].key_states[self.key].time
        return BEFORE_ALL if time is None else time

    def _holding(self) -> Iterator[tuple[StreamWriter, KeyState]]:
        """The writers that hold the key."""
        for writer in self._writers.values():
            key_state = writer.key_states.get(self.key)
            if key_state is not None:
                yield writer, key_state

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
        """Removes a segment that the log never had from the last mark, so that no later cut contains it, and gathers
        again what the writers contribute, which must have forgotten it."""
        if self.last is not None:
            self.last = replace(self.last, cut=self.last.cut.without(segment))
        self.remainder = replace(self.remainder, cut=self.remainder.cut.without(segment))
        self._contributions = Contributions(partial(_given_by, self._writers, self.key))
        self._overtaken, self._overtaken_known, self._none_lacks = None, True, False
        for writer, _ in self._holding():
            self.gather(writer)
