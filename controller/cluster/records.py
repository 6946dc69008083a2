"""What controllers ask of the store that they share, and what it answers.

Times are milliseconds of the store's clock, rounded down. Every request is one transaction, except that a commit of
streams has two parts (`Check`, then its rows).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LEASE_MS: Final = 3_000  # a controller whose beat stands still for so long may be ended by the others
SHARDS: Final = 256  # of a new store


class Kind(StrEnum):
    """What belongs to a shard, and what a controller can have the right to serve."""

    STREAM = "stream"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class ControllerRow:
    """One run of a controller, from its begin to its end. Its id is random and is never used again."""

    id: int
    name: str
    address: str  # for other controllers
    client_address: str | None  # for clients, if they may call this controller directly
    version: str
    beat: int  # how many beats it had
    clock_bound: int  # it shows no time that is not below
    served_until: int  # callers could be heard until then
    draining: bool  # it stops, and takes no shards
    ended_at: int | None  # None while it may write
    began_at: int = 0  # for people: no rule asks for it


@dataclass(frozen=True, slots=True)
class ShardRow:
    """A shard as the store has it."""

    id: int
    owner: int | None  # the id of a controller, which may have ended; None if the shard was released
    fence: int  # the number of the tenure; each take adds one
    served_until: int  # when it was taken, or released, last
    clock_floor: int  # no time of the shard's streams is below
    unserved_ms: int  # how long nobody served it, in all


@dataclass(frozen=True, slots=True)
class BeatAnswer:
    """The answer to a beat or a begin: what the store knows of the cluster, read in one transaction."""

    store_now: int
    controllers: tuple[ControllerRow, ...]  # all that have not ended, and the one that asks
    shards: tuple[ShardRow, ...] | None  # all; None if `cluster_version` is the one that the request named
    cluster_version: int  # moves whenever the owner or the fence of a shard does

    def row_of(self, controller: int) -> ControllerRow | None:
        return next((row for row in self.controllers if row.id == controller), None)


@dataclass(frozen=True, slots=True)
class Taken:
    """The shards that a take got, which may be fewer than it asked for; or those that an adopt found."""

    shards: tuple[ShardRow, ...]
    store_now: int


@dataclass(frozen=True, slots=True)
class NameTaken:
    """The answer to a begin that follows an earlier one: a live controller has the same name, and nothing was done."""

    by: ControllerRow


@dataclass(frozen=True, slots=True)
class Identity:
    """How a controller describes itself. None of it decides what the controller may do, except the name at a begin."""

    name: str
    address: str
    client_address: str | None
    version: str


@dataclass(frozen=True, slots=True)
class Begin:
    """Inserts a row for this controller and takes the shards of the rows that it ends.

    It ends the row of `previous`, and every live row with the same name if `restart` says so. Each is locked FOR UPDATE
    first, which waits for its commit. Answer: BeatAnswer, with shards; or NameTaken without `restart`, if a live row
    other than `previous` has the name.

    It is sent again, with the same id, until it is answered. If the row is there already, the begin counts as a beat
    and does nothing else; the row may have ended since.
    """

    id: int
    identity: Identity
    previous: int | None  # the row of the same process before
    restart: bool  # the process has just started
    clock_shown: int  # the greatest time that `previous` showed; its `clock_bound` becomes one more, if that is less


@dataclass(frozen=True, slots=True)
class Beat:
    """Adds one to the beat of a controller that has not ended, and extends its clock's bound. Answer: BeatAnswer.

    If the controller was ended, nothing changes, and the answer has its row with `ended_at`.
    """

    id: int
    served_until: int
    draining: bool
    known_version: int | None  # the newest `cluster_version` that an answer had, None before the first


@dataclass(frozen=True, slots=True)
class End:
    """Ends another controller if its beat is still this one. Answer: whether it has ended, by this or before.

    Locks its row FOR UPDATE first, which waits for its commit.
    """

    id: int
    beat: int


@dataclass(frozen=True, slots=True)
class Take:
    """Takes those of these shards that are free: released, or of an owner that has ended. Answer: Taken.

    Holds the row of `id` FOR KEY SHARE; a controller that has ended gets none. Each shard gets the next fence. Its
    `clock_floor` is the greatest of the store's clock, `now`, the former owner's `clock_bound` and the floor before.
    It gets as much more `unserved_ms` as lies between the former `served_until` (the owner's, or the shard's if it was
    released) and that floor.
    """

    id: int
    shards: tuple[int, ...]
    now: int  # by the clock of the controller that takes them


@dataclass(frozen=True, slots=True)
class Adopt:
    """Locks the own row FOR UPDATE, which waits for what a lost session had under way. Answer: Taken, all own shards.

    Nothing is loaded between the loss of the session and this answer.
    """

    id: int


@dataclass(frozen=True, slots=True)
class Check:
    """The first part of a commit: holds the own row FOR KEY SHARE until the transaction ends.

    The commit is refused unless the controller has not ended and owns each of these shards with that fence.
    """

    id: int
    fences: tuple[tuple[int, int], ...]  # shard, fence


@dataclass(frozen=True, slots=True)
class Release:
    """Part of a commit whose check named these shards: nobody owns them afterwards."""

    shards: tuple[int, ...]
    served_until: int
    clock_floor: int  # the shard's becomes this, if its own is less


@dataclass(frozen=True, slots=True)
class Leave:
    """Ends the own row, when all shards are released. Its `clock_bound` becomes one more than `clock_shown`."""

    id: int
    clock_shown: int
