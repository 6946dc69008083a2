"""A writer as a stream knows it: its lives, and its state in each time key.

                 register                note
    (unknown) ────────────► JOINED ─────────────► NOTED ◄──── note ────┐
        │                     ▲ │                   │                  │
        │      register again │ └──────── idle ─────┴────────► IDLE ───┘
        └── note ──► NOTED    └── from anywhere

    lost_at      it timed out (per key; a note or registration ends this)
    excluded_at  an operator excluded it (all keys; inclusion or a registration ends this)
    closed       it has closed; a note or registration then starts a new life

Positions outlive lives: a position that was noted once stays below every later cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

from strandline.core.contributions import Given
from strandline.core.cut import NOTHING, Cut


class Phase(StrEnum):
    """A writer's own last statement in a key."""

    JOINED = "joined"
    NOTED = "noted"
    IDLE = "idle"


JOINED: Final = Phase.JOINED  # a lookup in the enum class takes longer than the rest of `value`
NOTED: Final = Phase.NOTED


class WriterState(StrEnum):
    """A writer's state in a stream, from its phase, silence, exclusion and closing."""

    JOINED = "joined"
    ACTIVE = "active"
    BEHIND = "behind"
    IDLE = "idle"
    CLOSED = "closed"
    TIMED_OUT = "timed_out"
    EXCLUDED = "excluded"


ACTIVE: Final = WriterState.ACTIVE
BEHIND: Final = WriterState.BEHIND

# Makes a NamedTuple in half the time of its own constructor, which is written in Python; every note makes several.
new_tuple: Final = tuple.__new__


class KeptNote(NamedTuple):
    """A note as kept for tight cuts: its time, the writer's whole position then, and `newest` at that position."""

    time: int
    cut: Cut
    newest: int | None


class WriterRole(StrEnum):
    """What a writer is to the next mark of a key (`Aggregate`)."""

    COUNTED = "counted"
    BLOCKING = "blocking"
    OUT = "out"
    LOST = "lost"
    SKIPPED = "skipped"


class Contribution(NamedTuple):
    """What a writer gives to a mark."""

    time: int | None
    cut: Cut
    newest: int | None

    @property
    def lacks_newest(self) -> bool:
        return self.newest is None and bool(self.cut)


@dataclass(slots=True)
class KeyState:
    """A writer in one time key."""

    phase: Phase
    floor: int | None = None  # while joined: the time with which it counts
    time: int | None = None  # the greatest time noted in this life
    earlier_time: int | None = None  # the greatest time noted in earlier lives
    newest: int | None = None  # the greatest event time below the writer's position, if known
    has_noted: bool = False  # in any life
    lost_at: int | None = None
    answered_floor: int | None = None  # the floor in the answer to the newest note, for a repeated note
    history: list[KeptNote] = field(default_factory=list)  # times strictly rise; entries no later mark needs are gone
    fresh: int = 0  # how many history entries were added since the last drain
    rewritten: bool = False  # whether the history changed since then other than by marks and new notes
    seen: WriterState | None = None  # the last state in the journal
    role: WriterRole | None = None  # None: the aggregate does not have it yet
    entry: tuple[int, str] | None = None  # while it is counted: its place among the counted writers

    @property
    def value(self) -> int | None:
        """The time with which it counts, or would count."""
        return self.floor if self.phase is JOINED else self.time

    @property
    def greatest_time(self) -> int | None:
        """The greatest time noted in any life."""
        return max((time for time in (self.time, self.earlier_time) if time is not None), default=None)

    def join(self, last_time: int | None) -> int | None:
        """Makes it joined: until it notes, it counts with its floor, the greater of its time and the last mark's."""
        known = [time for time in (self.time, last_time) if time is not None]
        self.phase, self.floor, self.lost_at, self.answered_floor = Phase.JOINED, max(known, default=None), None, None
        return self.floor

    def note(self, time: int, cut: Cut, answered_floor: int | None, last_time: int | None, bound: int) -> bool:
        """Takes a note: the writer's events older than `time` lie below `cut`.

        Keeps it, among at most `bound`, if a mark after the last one, of `last_time`, can need it. Of equal times the
        first stays: its cut is tighter. Returns whether other notes that a mark can need were given up for it.
        """
        self.phase, self.floor, self.lost_at = NOTED, None, None
        self.time, self.has_noted, self.answered_floor = time, True, answered_floor
        if last_time is not None:
            if time <= last_time:
                return False
            if self.history and self.history[0].time <= last_time:
                self.drop_passed(last_time)
        history = self.history
        if history and time <= history[-1].time:
            return False
        history.append(new_tuple(KeptNote, (time, cut, self.newest)))
        self.fresh += 1
        return len(history) > bound and self._thin()

    def go_idle(self) -> None:
        """Makes it idle."""
        self.phase, self.floor, self.lost_at = Phase.IDLE, None, None

    def _thin(self) -> bool:
        """Leaves every second kept note, from the end: a time between two of them maps to the later, looser cut."""
        self._rewrite(self.history[::-2][::-1])
        return True

    def kept_above(self, last_time: int | None) -> int | None:
        """The time of the last kept note, if a mark above `last_time` can need it."""
        time = self.history[-1].time if self.history else None
        return None if time is None or (last_time is not None and time <= last_time) else time

    def drop_passed(self, last_time: int) -> None:
        """Forgets the kept notes that no mark above `last_time` can need."""
        if self.history and self.history[0].time <= last_time:
            self.history = [earlier for earlier in self.history if earlier.time > last_time]

    def drain(self) -> tuple[bool, list[KeptNote]]:
        """The entries added since the last call, for the store; with True, the whole history, which replaces the stored
        one. It does not report what `drop_passed` forgets: the store has the mark, and can forget the same."""
        rewritten, fresh = self.rewritten, self.fresh
        self.rewritten, self.fresh = False, 0
        if rewritten:
            return True, self.history
        return False, self.history[-fresh:] if fresh else []

    def start_over(self) -> None:
        """Begins a new life: earlier notes refuse no new note, and leave no kept note for later marks."""
        self.phase, self.earlier_time = Phase.IDLE, self.greatest_time
        self.time = self.floor = self.lost_at = None
        self._rewrite([])

    def forget_segment(self, segment: str) -> None:
        """Removes a segment that the log never had."""
        self._rewrite(
            [KeptNote(earlier.time, earlier.cut.without(segment), earlier.newest) for earlier in self.history]
        )

    def _rewrite(self, history: list[KeptNote]) -> None:
        self.history, self.rewritten = history, True


@dataclass(slots=True)
class StreamWriter:
    """A writer, or a tail reporter, in all keys."""

    name: str
    heard_at: int  # by the clock, for display; silence is measured from `served_at`
    served_at: int  # the served time of its last call (`Unserved`)
    tail: bool = False
    life: int = 0  # the first epoch that this life could get: no earlier life of the name has it
    epoch: int | None = None
    closed: bool = False
    closed_epoch: int | None = None
    excluded_at: int | None = None
    registration: str | None = None  # the caller's name for the newest registration
    noted: Cut = NOTHING  # the join of what it named in this life, not closed; mostly the position itself
    position: Cut = NOTHING  # the join of everything noted in any life, closed
    key_states: dict[str, KeyState] = field(default_factory=dict)
    number: int | None = field(default=None, compare=False)  # in the stream's `SharedSegments`, once it has a position

    @property
    def lost(self) -> bool:
        """Whether it is lost in some key: it is not known what it wrote."""
        return any(self.lost_since(key_state) is not None for key_state in self.key_states.values())

    def lost_since(self, key_state: KeyState) -> int | None:
        """The moment at which it was lost in a key, by exclusion or silence, the earlier one; None if it is not."""
        if self.closed:
            return None
        if self.excluded_at is None or key_state.lost_at is None:
            return key_state.lost_at if self.excluded_at is None else self.excluded_at
        return min(self.excluded_at, key_state.lost_at)

    def contribution(self, key_state: KeyState, time: int) -> Contribution:
        """Its contribution to a mark at `time`: the earliest note at or above that time, else its whole position, from
        notes in any key."""
        for entry in key_state.history:
            if entry.time >= time:
                return Contribution(entry.time, entry.cut, entry.newest)
        return Contribution(key_state.time, self.position, key_state.newest)

    def given(self, key_state: KeyState) -> Iterator[Given]:
        """All that it contributes to the next marks of a key."""
        above: int | None = None
        position: Cut | None = None
        for earlier in key_state.history:
            position = earlier.cut
            yield Given(above, earlier.time, position)
            above = earlier.time
        if position is not self.position:
            yield Given(above, key_state.time, self.position)

    def close(self, epoch: int | None, now: int) -> None:
        """Closes it. A lost writer without its epoch becomes excluded instead: it is not known what it wrote. If it was
        lost by silence, a note ends that, and it then counts as lost since it was excluded."""
        if self.lost and epoch is None:
            self.excluded_at = now if self.excluded_at is None else self.excluded_at
        else:
            self.closed, self.closed_epoch, self.excluded_at = True, epoch, None
        self.epoch = None

    def lose(self, now: int) -> None:
        """Makes a tail reporter that closes lost: it cannot say that the stream's writers are done."""
        for key_state in self.key_states.values():
            key_state.lost_at = now if key_state.lost_at is None else key_state.lost_at
        self.epoch = None

    def start_over(self, life: int) -> None:
        """Begins a new life after closing: its old times and offsets refuse no note; its position stays."""
        self.closed, self.life = False, life
        self.noted = NOTHING
        for key_state in self.key_states.values():
            key_state.start_over()

    def move(self, given: Cut, cut: Cut, newest: Mapping[str, int]) -> None:
        """Adds a noted position, as given and as a closed cut, and `newest` at that position, by key."""
        before, noted = self.position, self.noted
        covers = before.le(cut)
        self.position = cut if covers else before.join(cut)
        if noted is before and given is cut:
            self.noted = self.position
        else:
            self.noted = given if noted.le(given) else noted.join(given)
        for key, key_state in self.key_states.items():
            known = key_state.newest
            if known is None and not newest:
                continue
            stated = newest.get(key)
            if stated is not None and known is not None:
                key_state.newest = max(stated, known)
            elif stated is not None:
                key_state.newest = stated if covers else None
            elif known is not None and self.position != before:
                key_state.newest = None

    def forget_segment(self, segment: str) -> None:
        """Removes a segment that the log never had."""
        alike = self.noted is self.position
        self.position = self.position.without(segment)
        self.noted = self.position if alike else self.noted.without(segment)
        for key_state in self.key_states.values():
            key_state.forget_segment(segment)

    def state(self, key_state: KeyState, last_time: int | None) -> WriterState:
        """Its state in a key, given the time of that key's last mark."""
        if self.closed:
            return WriterState.CLOSED
        if self.excluded_at is not None:
            return WriterState.EXCLUDED
        if key_state.lost_at is not None:
            return WriterState.TIMED_OUT
        phase, time = key_state.phase, key_state.time
        if phase is NOTED:
            return BEHIND if last_time is not None and time is not None and time < last_time else ACTIVE
        match phase:
            case Phase.IDLE:
                return WriterState.IDLE
            case Phase.JOINED:
                return WriterState.JOINED
            case _:
                assert_never(phase)
