"""A writer as a stream knows it: one life after another, and in each time key its standing.

                 register                note
    (unknown) ────────────► JOINED ─────────────► NOTED ◄──── note ────┐
        │                     ▲ │                   │                  │
        │      register again │ └──────── idle ─────┴────────► IDLE ───┘
        └── note ──► NOTED    └── from anywhere

    lost_at      it was not heard from for too long (per key; a note or registration ends it)
    excluded_at  an operator set it aside (all keys; bringing back or registering ends it)
    closed       it said it is done; a note or registration then starts a new life

Positions outlive everything: what was noted once stays below every later cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple, assert_never

from strandline.core.cut import NOTHING, Cut


class Phase(StrEnum):
    """What a writer itself last said in a key."""

    JOINED = "joined"
    NOTED = "noted"
    IDLE = "idle"


JOINED: Final = Phase.JOINED  # looking a member up in its class takes longer than all else that `value` does


class WriterState(StrEnum):
    """What a writer is to the stream, all things considered."""

    JOINED = "joined"
    ACTIVE = "active"
    BEHIND = "behind"
    IDLE = "idle"
    CLOSED = "closed"
    TIMED_OUT = "timed_out"
    EXCLUDED = "excluded"


class KeptNote(NamedTuple):  # made for every note, and a tuple is made in a fifth of the time of a frozen dataclass
    """A note as kept for tight cuts: its time, the writer's whole position then, the newest event below that."""

    time: int
    cut: Cut
    newest: int | None


@dataclass(frozen=True, slots=True)
class Contribution:
    """What a writer gives to a mark. `lasting`: it came from a note that outlives whatever the writer notes next."""

    time: int | None
    cut: Cut
    newest: int | None
    lasting: bool

    @property
    def lacks_newest(self) -> bool:
        return self.newest is None and bool(self.cut)


@dataclass(slots=True)
class KeyState:
    """A writer in one time key."""

    phase: Phase
    floor: int | None = None  # while joined: what it counts with
    time: int | None = None  # the greatest time noted in this life
    earlier_time: int | None = None  # the greatest time noted in the lives before
    newest: int | None = None  # greatest event time below the writer's position, where known
    has_noted: bool = False  # in any life
    lost_at: int | None = None
    told_floor: int | None = None  # with the newest note's answer, should that be asked for again
    history: list[KeptNote] = field(default_factory=list)  # times strictly rise; what no later mark needs is dropped
    lasting: bool = False  # what the last mark took from it still stands, whatever it notes next
    fresh: int = 0  # how many of the newest in the history came since the last drain
    rewritten: bool = False  # whether since then it became another than marks and new notes make of it
    seen: WriterState | None = None  # what the journal has it as

    @property
    def value(self) -> int | None:
        """The time that it counts with, or would."""
        return self.floor if self.phase is JOINED else self.time

    @property
    def greatest_time(self) -> int | None:
        """The greatest time noted in any life."""
        return max((time for time in (self.time, self.earlier_time) if time is not None), default=None)

    def join(self, last_time: int | None) -> int | None:
        """Registered: it counts with its floor, the greater of its own time and the last mark's, until it notes."""
        known = [time for time in (self.time, last_time) if time is not None]
        self.phase, self.floor, self.lost_at, self.told_floor = Phase.JOINED, max(known, default=None), None, None
        return self.floor

    def note(self, time: int, cut: Cut, told_floor: int | None, last_time: int | None, bound: int) -> None:
        """Noted: all of the writer that is older than `time` lies below `cut`, kept where a later mark can need it."""
        self.phase, self.floor, self.lost_at = Phase.NOTED, None, None
        self.time, self.has_noted, self.told_floor = time, True, told_floor
        if last_time is None or time > last_time:
            self.remember(KeptNote(time, cut, self.newest), last_time, bound)

    def go_idle(self) -> None:
        """The writer said that nothing is to come for now."""
        self.phase, self.floor, self.lost_at = Phase.IDLE, None, None

    def remember(self, entry: KeptNote, last_time: int | None, bound: int) -> None:
        """Adds a note to the history, at most `bound` long. Of equal times the first stays: its cut is the tighter.

        What the last mark, at `last_time`, has left behind goes first, so that it never counts against the bound.
        """
        if self.history and entry.time <= self.history[-1].time:
            return
        self.history.append(entry)
        self.fresh += 1
        if len(self.history) > bound and last_time is not None:
            self._rewrite([kept for kept in self.history if kept.time > last_time])
        if len(self.history) > bound:
            # Every second one, counted from the end: a time between two of them maps to the later, looser cut.
            self._rewrite(self.history[::-2][::-1])
            self.lasting = False

    def drop_below(self, time: int) -> None:
        """Forgets what no mark at or above `time` can need."""
        if self.history and self.history[0].time < time:
            self.history = [entry for entry in self.history if entry.time >= time]

    def drain(self) -> tuple[bool, list[KeptNote]]:
        """What came to the history since the last call, for the store; with True, it is all of it, and nothing else
        counts any more. What `drop_below` forgets with each mark is never told: who has the mark can forget it too."""
        rewritten, fresh = self.rewritten, self.fresh
        self.rewritten, self.fresh = False, 0
        if rewritten:
            return True, self.history
        return False, self.history[-fresh:] if fresh else []

    def begin_anew(self) -> None:
        """A new life: nothing of the time before refuses a note, and nothing of it goes into later marks as a note."""
        self.phase, self.earlier_time = Phase.IDLE, self.greatest_time
        self.time = self.floor = self.lost_at = None
        self._rewrite([])
        self.lasting = False

    def forget_segment(self, segment: str) -> None:
        """Takes out a segment that the log never had."""
        self._rewrite([entry._replace(cut=entry.cut.without(segment)) for entry in self.history])
        self.lasting = False

    def _rewrite(self, history: list[KeptNote]) -> None:
        self.history, self.rewritten = history, True


@dataclass(slots=True)
class Writer:
    """A writer, or a tail reporter, in all keys."""

    name: str
    heard_at: int  # by the clock, for people; silence is judged by `served_at`
    served_at: int  # the served time when it was heard (`Unserved`)
    tail: bool = False
    epoch: int | None = None
    closed: bool = False
    closed_epoch: int | None = None
    excluded_at: int | None = None
    registration: str | None = None  # what the newest registration called itself
    noted: dict[str, int] = field(default_factory=dict)  # what this life named itself, segment by segment
    position: Cut = NOTHING  # all that was ever noted, closed
    key_states: dict[str, KeyState] = field(default_factory=dict)

    @property
    def lost(self) -> bool:
        """Whether nobody knows what it may have written."""
        return any(self.lost_since(key_state) is not None for key_state in self.key_states.values())

    def lost_since(self, key_state: KeyState) -> int | None:
        """When it was lost in a key, for whichever reason came first; None if it is not."""
        if self.closed:
            return None
        if self.excluded_at is None or key_state.lost_at is None:
            return key_state.lost_at if self.excluded_at is None else self.excluded_at
        return min(self.excluded_at, key_state.lost_at)

    def contribution(self, key_state: KeyState, time: int) -> Contribution:
        """What it gives to a mark at `time`: the earliest note at or above that time, else all that it noted,
        whichever key it was noted for."""
        for entry in key_state.history:
            if entry.time >= time:
                return Contribution(entry.time, entry.cut, entry.newest, lasting=True)
        return Contribution(key_state.time, self.position, key_state.newest, lasting=False)

    def hear(self, now: int, served: int) -> None:
        """It was heard, at a moment and a served time."""
        self.heard_at = now
        self.served_at = max(self.served_at, served)

    def forgive(self, silence_ms: int, served: int) -> None:
        """Does not count so many milliseconds of served time as its silence; `served` is the served time now."""
        if not self.closed:
            self.served_at = max(self.served_at, min(self.served_at + silence_ms, served))

    def close(self, epoch: int | None, now: int) -> None:
        """It is done. A lost one that cannot show its epoch becomes excluded: nobody knows what it wrote."""
        if self.lost and epoch is None:
            since = [moment for each in self.key_states.values() if (moment := self.lost_since(each)) is not None]
            self.excluded_at = min(since, default=now)
        else:
            self.closed, self.closed_epoch, self.excluded_at = True, epoch, None
        self.epoch = None

    def lose(self, now: int) -> None:
        """It is gone, and does not speak for those who write: a tail reporter that closed."""
        for key_state in self.key_states.values():
            key_state.lost_at = now if key_state.lost_at is None else key_state.lost_at
        self.epoch = None

    def begin_anew(self) -> None:
        """A new life after closing: neither its old time nor its old offsets refuse what comes; positions stay."""
        self.closed = False
        self.noted = {}
        for key_state in self.key_states.values():
            key_state.begin_anew()

    def move(self, given: Mapping[str, int], cut: Cut, newest: Mapping[str, int]) -> None:
        """Takes in a noted position, as given and closed, and what is known of the newest event below it."""
        before = self.position
        covers = before.le(cut)
        self.position = cut if covers else before.join(cut)
        for key, key_state in self.key_states.items():
            said, known = newest.get(key), key_state.newest
            if said is not None and known is not None:
                key_state.newest = max(said, known)
            elif said is not None:
                key_state.newest = said if covers else None
            elif known is not None and self.position != before:
                key_state.newest = None
        self.noted.update(given)

    def forget_segment(self, segment: str) -> None:
        """Takes out a segment that the log never had."""
        self.noted.pop(segment, None)
        self.position = self.position.without(segment)
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
        match key_state.phase:
            case Phase.NOTED:
                behind = last_time is not None and key_state.time is not None and key_state.time < last_time
                return WriterState.BEHIND if behind else WriterState.ACTIVE
            case Phase.IDLE:
                return WriterState.IDLE
            case Phase.JOINED:
                return WriterState.JOINED
            case _:
                assert_never(key_state.phase)
