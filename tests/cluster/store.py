"""A store that several simulated controllers share: transactions, row locks and sessions, as PostgreSQL has them.

Every statement runs at one moment. What waits for a row lock runs when the lock is free. A commit has two statements,
and holds its controller's row in between.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from controller.cluster.actions import CommitParts
from controller.cluster.records import (
    LEASE_MS,
    Adopt,
    Beat,
    BeatAnswer,
    Begin,
    Check,
    ControllerRow,
    End,
    Leave,
    NameTaken,
    ShardRow,
    Take,
    Taken,
)
from tests.cluster.truth import Truth

START = 1_000_000  # what the store's clock shows at first
IDLE_MS = 1_000  # an open transaction that hears nothing for so long is ended by the server
Answer = Callable[[Any], None]


@dataclass(slots=True)
class Data:
    """One stream, as it is stored: the times of its writers, who counts, and its marks. The times of marks rise."""

    notes: list[int]
    heard: list[int]  # in served time
    out: list[bool]  # writers that were let go for their silence
    marks: list[int] = field(default_factory=list)
    clock: int = 0
    version: int = 0
    fence: int = 0  # of the tenure that wrote it last

    def copy(self) -> Data:
        return replace(self, notes=[*self.notes], heard=[*self.heard], out=[*self.out], marks=[*self.marks])


@dataclass(slots=True, eq=False)
class Session:
    """A transaction that commits, from its check to its end."""

    commit: CommitParts
    writes: dict[int, Data]
    bad: dict[int, str]  # by shard: what would be untrue if it were written
    heard_at: dict[tuple[int, int], float]  # by shard and writer: when its note was applied, in real time or earlier
    unserved: dict[int, int]  # by shard: how long nobody could be heard, where the store has less
    idle_since: float | None = None
    over: bool = False


@dataclass(frozen=True, slots=True)
class Copy:
    """What a standby has of a store."""

    rows: dict[int, ControllerRow]
    shards: list[ShardRow]
    data: list[Data]
    version: int


class Store:
    """The rows and the locks. `shards` shards with one stream each; the truth is told of everything that is done."""

    def __init__(self, truth: Truth, shards: int, writers: int) -> None:
        self.truth = truth
        self.time = 0.0  # real time
        self.step = START
        self.version = 0
        self.timeline = 0
        self.changed_at = 0.0  # when a controller came or went last
        self.rows: dict[int, ControllerRow] = {}
        self.shards = [ShardRow(shard, None, 0, 0, 0, 0) for shard in range(shards)]
        self.data = [Data([0] * writers, [0] * writers, [False] * writers) for _ in range(shards)]
        self.sessions: list[Session] = []
        self._waiting: list[tuple[set[int], Callable[[], None]]] = []

    @property
    def now(self) -> int:
        return int(self.time) + self.step

    # -- locks ---------------------------------------------------------------------------------------------------

    def is_locked(self, controller: int) -> bool:
        return any(session.commit.check.id == controller for session in self.sessions)

    def when_free(self, controllers: set[int], do: Callable[[], None]) -> None:
        """Runs something that locks rows FOR UPDATE: now, or when no commit holds any of them."""
        if any(map(self.is_locked, controllers)):
            self._waiting.append((controllers, do))
        else:
            do()

    def close(self, session: Session) -> None:
        """Ends a session; whoever waits for its lock goes on."""
        session.over = True
        if session in self.sessions:
            self.sessions.remove(session)
        waiting, self._waiting = self._waiting, []
        for controllers, do in waiting:
            self.when_free(controllers, do)

    def hang_up(self, session: Session) -> None:
        """The client's process is gone: a transaction that is not being worked on is rolled back."""
        if session.idle_since is not None:
            self.close(session)

    def end_idle_sessions(self) -> None:
        for session in list(self.sessions):
            if session.idle_since is not None and self.time >= session.idle_since + IDLE_MS:
                self.close(session)

    # -- failing over --------------------------------------------------------------------------------------------

    def copy(self) -> Copy:
        return Copy(dict(self.rows), [*self.shards], [data.copy() for data in self.data], self.version)

    def fail_over(self, standby: Copy) -> None:
        """A standby is promoted. What it lacks is lost."""
        for session in list(self.sessions):
            self.close(session)
        self.rows, self.shards, self.data, self.version = standby.rows, standby.shards, standby.data, standby.version
        self.timeline += 1
        self.truth.lost(self.data)

    # -- requests ------------------------------------------------------------------------------------------------

    def do(self, request: Any, answer: Answer) -> None:
        """Does what was asked, perhaps later, and answers then."""
        match request:
            case Begin(previous=previous):
                same = {row.id for row in self.live() if request.restart and row.name == request.identity.name}
                ends = same | ({previous} if previous is not None else set())
                self.when_free(ends, lambda: answer(self.begin(request, ends)))
            case Beat():
                answer(self.beat(request))
            case End():
                self.when_free({request.id}, lambda: answer(self.end(request)))
            case Take():
                answer(self.take(request))
            case Adopt():
                self.when_free({request.id}, lambda: answer(Taken(self.owned(request.id), self.now)))
            case Leave():
                self.when_free({request.id}, lambda: self.leave(request, answer))

    def live(self) -> list[ControllerRow]:
        return [row for row in self.rows.values() if row.ended_at is None]

    def owned(self, controller: int) -> tuple[ShardRow, ...]:
        return tuple(row for row in self.shards if row.owner == controller)

    def did(self, controller: int) -> None:
        self.truth.did(controller, self.time)

    def has_ended(self, controller: int) -> bool:
        row = self.rows.get(controller)  # one that was lost can write as little
        return row is None or row.ended_at is not None

    def look(self, controller: int, known_version: int | None) -> BeatAnswer:
        rows = tuple(row for row in self.rows.values() if row.ended_at is None or row.id == controller)
        shards = None if known_version == self.version else tuple(self.shards)
        return BeatAnswer(self.now, rows, shards, self.version)

    def begin(self, begin: Begin, ends: set[int]) -> BeatAnswer | NameTaken:
        if begin.id in self.rows:
            if not self.has_ended(begin.id):
                self.beaten(begin.id)
            return self.look(begin.id, None)
        if not begin.restart:
            for row in self.live():
                if row.name == begin.identity.name and row.id != begin.previous:
                    return NameTaken(row)
        for controller in ends & self.rows.keys():
            row = self.rows[controller]
            bound = row.clock_bound
            if controller == begin.previous:
                bound = min(bound, begin.clock_shown + 1)
            self.rows[controller] = replace(row, clock_bound=bound, ended_at=row.ended_at or self.now)
        who, self.changed_at = begin.identity, self.time
        self.rows[begin.id] = ControllerRow(
            begin.id,
            who.name,
            who.address,
            who.client_address,
            who.version,
            1,
            self.now + LEASE_MS,
            self.now,
            False,
            None,
        )
        self.did(begin.id)
        for shard in self.shards:
            if shard.owner in ends:
                self.take_one(shard, begin.id)
        return self.look(begin.id, None)

    def beaten(self, controller: int, served_until: int = 0) -> None:
        row = self.rows[controller]
        bound = max(row.clock_bound, self.now + LEASE_MS)
        served = max(row.served_until, served_until)
        self.rows[controller] = replace(row, beat=row.beat + 1, clock_bound=bound, served_until=served)
        self.did(controller)

    def beat(self, beat: Beat) -> BeatAnswer:
        if not self.has_ended(beat.id):
            self.beaten(beat.id, beat.served_until)
            self.rows[beat.id] = replace(self.rows[beat.id], draining=beat.draining)
        return self.look(beat.id, beat.known_version)

    def is_same_beat(self, end: End) -> bool:
        return self.rows[end.id].beat == end.beat

    def end(self, end: End) -> bool:
        if not self.has_ended(end.id) and self.is_same_beat(end):
            self.rows[end.id] = replace(self.rows[end.id], ended_at=self.now)
            self.changed_at = self.time
        return self.has_ended(end.id)

    def leave(self, leave: Leave, answer: Answer) -> None:
        if not self.has_ended(leave.id):
            row = self.rows[leave.id]
            bound = min(row.clock_bound, leave.clock_shown + 1)
            self.rows[leave.id] = replace(row, clock_bound=bound, ended_at=self.now)
            self.changed_at = self.time
        answer(None)

    def take(self, take: Take) -> Taken:
        taken = []
        if not self.has_ended(take.id):
            self.did(take.id)
            for shard in take.shards:
                row = self.shards[shard]
                if row.owner is None or self.has_ended(row.owner):
                    taken.append(self.take_one(row, take.id, take.now))
        return Taken(tuple(taken), self.now)

    def take_one(self, shard: ShardRow, controller: int, now: int = 0) -> ShardRow:
        former = None if shard.owner is None else self.rows[shard.owner]
        floor = max(self.floor_of(shard, former), now)
        served = max(shard.served_until, 0 if former is None else former.served_until)
        taken = ShardRow(
            shard.id,
            controller,
            shard.fence + 1,
            served_until=floor,
            clock_floor=floor,
            unserved_ms=shard.unserved_ms + self.gap(floor, served),
        )
        self.shards[shard.id] = taken
        self.version += 1
        self.truth.took(shard.id, controller, shard.owner, self.time)
        return taken

    def floor_of(self, shard: ShardRow, former: ControllerRow | None) -> int:
        return max(self.now, shard.clock_floor, 0 if former is None else former.clock_bound)

    def gap(self, floor: int, served: int) -> int:
        return max(0, floor - served)

    # -- commits -------------------------------------------------------------------------------------------------

    def check(self, session: Session) -> bool:
        """The first statement of a commit; True if it may go on."""
        if not self.may_write(session.commit.check):
            session.over = True
            return False
        session.idle_since = self.time
        self.sessions.append(session)
        return True

    def may_write(self, check: Check) -> bool:
        if self.has_ended(check.id):
            return False
        return all((self.shards[s].owner, self.shards[s].fence) == (check.id, fence) for s, fence in check.fences)

    def write(self, session: Session) -> None:
        """The second statement, and the commit."""
        self.did(session.commit.check.id)
        fences = dict(session.commit.check.fences)
        for shard, written in session.writes.items():
            self.truth.judge_write(self.shards[shard], self.data[shard], written, session, fences[shard])
            self.data[shard] = written.copy()
            self.data[shard].version += 1
            self.data[shard].fence = fences[shard]
        for shard, unserved in session.unserved.items():
            row = self.shards[shard]
            if row.owner == session.commit.check.id:
                served = max(row.served_until, session.commit.served_until)
                self.shards[shard] = replace(row, unserved_ms=max(row.unserved_ms, unserved), served_until=served)
        release = session.commit.release
        for shard in release.shards if release is not None else ():
            assert release is not None
            row = self.shards[shard]
            if row.owner == session.commit.check.id:
                floor = max(row.clock_floor, release.clock_floor)
                served = max(row.served_until, release.served_until)
                self.shards[shard] = replace(row, owner=None, served_until=served, clock_floor=floor)
                self.version += 1
                self.truth.released(shard, self.time)
        self.close(session)
