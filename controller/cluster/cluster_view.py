"""What the store told of all controllers and shards, and what follows from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from controller.cluster.records import LEASE_MS, BeatAnswer, ControllerRow, ShardRow
from controller.cluster.shards import fair_share

ENDED_CONTROLLERS: Final = 16  # the last ones that ended, which a controller still lists
LATE_BEAT_MS: Final = 1_500  # without a new beat of a controller, nobody hands shards over: it may be dead
QUIET_MEMBERSHIP_MS: Final = 5_000  # without a controller that came or went; before that none hands shards over


@dataclass(frozen=True, slots=True)
class SeenController:
    """A controller as another one sees it, or as it sees itself."""

    row: ControllerRow
    shards: int
    beat_age_ms: int  # since its last beat was seen; of one's own since it was sent
    ended: bool
    lost: bool = False  # it ended because it was silent: nobody heard that it was about to end


class ClusterView:
    """The last answers of the store, seen from one controller. Moments are of its monotonic clock."""

    def __init__(self, own: int, answer: BeatAnswer, monotonic: int) -> None:
        """Begins with the answer to a begin, which has all shards."""
        self.own = own
        self.version: int | None = None  # of the shards
        self._controllers: dict[int, ControllerRow] = {}  # that have not ended
        self._seen: dict[int, tuple[int, int]] = {}  # of the others: the last beat, and since when it is the last one
        self._shards: dict[int, ShardRow] = {}
        # The last ones, with the moment of the last beat, and how long they had been silent when they ended.
        self._ended: dict[int, tuple[ControllerRow, int, int]] = {}
        self._changed_at = monotonic
        self.learn(answer, monotonic)

    def learn(self, answer: BeatAnswer, monotonic: int) -> None:
        """Records an answer that arrived at this moment."""
        before, rows = self.takers, self._controllers
        self._controllers = {row.id: row for row in answer.controllers if row.ended_at is None}
        if self.takers != before:
            self._changed_at = monotonic
        for row in self._controllers.values():
            if row.id != self.own and (row.id not in self._seen or self._seen[row.id][0] != row.beat):
                self._seen[row.id] = (row.beat, monotonic)
        for controller in self._seen.keys() - self._controllers.keys():
            self._keep_ended(rows[controller], monotonic)
        if answer.shards is not None:
            self._shards = {row.id: row for row in answer.shards}
            self.version = answer.cluster_version

    def has_ended(self, controller: int, monotonic: int) -> None:
        """Records that a controller was ended: its shards are free, before a beat has told so."""
        row = self._controllers.pop(controller, None)
        if row is not None:
            self._keep_ended(row, monotonic)
        self._changed_at = monotonic

    def _keep_ended(self, row: ControllerRow, monotonic: int) -> None:
        last_beat = self._seen.pop(row.id)[1]
        self._ended[row.id] = row, last_beat, monotonic - last_beat
        if len(self._ended) > ENDED_CONTROLLERS:
            del self._ended[next(iter(self._ended))]

    def is_alive(self, controller: int, monotonic: int) -> None:
        """Records that a controller could not be ended, because it had beaten since."""
        if controller in self._seen:
            self._seen[controller] = (self._seen[controller][0], monotonic)

    def was_taken(self, shard: ShardRow) -> None:
        """Records a shard as a take made it, unless a beat has told of that take, and perhaps of what came after it."""
        if shard.fence > self._shards[shard.id].fence:
            self._shards[shard.id] = shard

    def was_released(self, shard: int) -> None:
        """Records that nobody owns a shard of this controller, unless a beat has told who does."""
        row = self._shards[shard]
        if row.owner == self.own:
            self._shards[shard] = replace(row, owner=None)

    # -- controllers ---------------------------------------------------------------------------------------------

    @property
    def takers(self) -> list[int]:
        """The controllers that take shards, in an order that is the same for all of them."""
        return sorted(row.id for row in self._controllers.values() if not row.draining)

    @property
    def others_take(self) -> bool:
        """Whether somebody else takes what this controller hands over."""
        return any(taker != self.own for taker in self.takers)

    @property
    def live(self) -> int:
        """How many controllers have not ended, this one among them."""
        return len(self._controllers)

    def row_of(self, controller: int) -> ControllerRow | None:
        """A live controller."""
        return self._controllers.get(controller)

    def named(self, name: str) -> ControllerRow | None:
        """The live controller with this name."""
        return next((row for row in self._controllers.values() if row.name == name), None)

    def sharing(self, address: str) -> list[ControllerRow]:
        """The other live controllers with this address."""
        return [row for row in self._controllers.values() if row.address == address and row.id != self.own]

    def ended(self, controller: int) -> ControllerRow | None:
        """A controller that has ended not long ago."""
        return self._ended[controller][0] if controller in self._ended else None

    def all(self, monotonic: int, renewed_at: int) -> list[SeenController]:
        """All controllers by name, and those that have ended and have not come back. `renewed_at` is when one's own
        last beat was sent."""
        counts = Counter(row.owner for row in self._shards.values())
        beats = {controller: since for controller, (_, since) in self._seen.items()}
        live = [
            SeenController(row, counts[row.id], monotonic - beats.get(row.id, renewed_at), False)
            for row in self._controllers.values()
        ]
        names = {each.row.name for each in live}
        ended = {
            row.name: SeenController(row, 0, monotonic - since, True, not row.draining and silent_ms >= LEASE_MS // 2)
            for row, since, silent_ms in self._ended.values()
            if row.name not in names
        }
        return sorted([*live, *ended.values()], key=lambda each: each.row.name)

    def silent(self, monotonic: int) -> list[tuple[int, int]]:
        """The controllers that may be ended, each with its beat: it stood still for a whole lease since it was seen."""
        return [(other, beat) for other, (beat, since) in self._seen.items() if monotonic >= since + LEASE_MS]

    def next_silent_at(self) -> int | None:
        """When the next controller may be ended, if no beat of it is seen before."""
        return min((since + LEASE_MS for _, since in self._seen.values()), default=None)

    def is_quiet(self, monotonic: int) -> bool:
        """Whether no controller came or went lately, and none is late with its beat, so that handing shards over is
        worth it: one that is late may be dead."""
        late = any(monotonic >= since + LATE_BEAT_MS for _, since in self._seen.values())
        return monotonic >= self.quiet_at and not late

    @property
    def quiet_at(self) -> int:
        """When it is quiet, if no beat is late."""
        return self._changed_at + QUIET_MEMBERSHIP_MS

    # -- shards --------------------------------------------------------------------------------------------------

    def owner_of(self, shard: int) -> ControllerRow | None:
        """The live controller that owns a shard, by what is known; None if there is none."""
        owner = self._shards[shard].owner
        return None if owner is None else self._controllers.get(owner)

    def clock_floor_of(self, shard: int) -> int:
        """No time of a shard's streams is below, by what is known."""
        return self._shards[shard].clock_floor

    def last_owner_of(self, shard: int) -> int | None:
        """The id of the controller that has a shard, or had it until it ended; None if it was released."""
        return self._shards[shard].owner

    def shards_of(self, controller: int) -> list[ShardRow]:
        return [row for row in self._shards.values() if row.owner == controller]

    def free(self) -> list[int]:
        """The shards that nobody has: released, or of a controller that has ended."""
        return [row.id for row in self._shards.values() if row.owner not in self._controllers]

    @property
    def share(self) -> int:
        """The fair share of one controller."""
        return fair_share(len(self._shards), max(1, len(self.takers)))

    def some_will_be_free(self) -> bool:
        """Whether another controller is about to hand shards over: it has too many, or it stops."""
        counts: dict[int, int] = {}
        for row in self._shards.values():
            if row.owner is not None and row.owner != self.own:
                counts[row.owner] = counts.get(row.owner, 0) + 1
        return any(
            count > self.share or self._controllers[owner].draining
            for owner, count in counts.items()
            if owner in self._controllers
        )
