"""The shards that this controller owns, from the take of each to its release."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from controller.cluster.records import ShardRow


@dataclass(slots=True)
class OwnedShard:
    """One time in which this controller owns a shard."""

    shard: int
    fence: int
    clock_floor: int  # no time of the shard's streams is below
    unserved_ms: int  # how long nobody has served the shard, in all
    closing: bool = False  # it is being released: nothing is answered for it


class OwnedShards:
    """All own shards. Times of one that was released come back only with a higher fence."""

    def __init__(self) -> None:
        self._tenures: dict[int, OwnedShard] = {}
        self._released: dict[int, int] = {}  # the fence with which each shard was released last, or may have been

    def __len__(self) -> int:
        return len(self._tenures)

    def __contains__(self, shard: int) -> bool:
        return shard in self._tenures

    def get(self, shard: int) -> OwnedShard | None:
        return self._tenures.get(shard)

    def all(self) -> Collection[OwnedShard]:
        return self._tenures.values()

    def shards(self) -> list[int]:
        return list(self._tenures)

    def closing(self) -> list[OwnedShard]:
        return [tenure for tenure in self._tenures.values() if tenure.closing]

    def take(self, rows: Iterable[ShardRow]) -> None:
        """Records shards that a take got, or of which it is certain that they are owned now."""
        for row in rows:
            if row.id not in self._tenures:
                self._tenures[row.id] = OwnedShard(row.id, row.fence, row.clock_floor, row.unserved_ms)

    def adopt_newer(self, rows: Iterable[ShardRow]) -> None:
        """Records shards that a beat shows as owned: the answer to their take was lost.

        The beat may be of before a release of the shard. Then its fence is the released one, and it is no news.
        """
        self.take(row for row in rows if row.fence > self._released.get(row.id, 0))

    def close(self, shards: Iterable[int]) -> None:
        """Begins the release of shards: from now on nothing is answered for them."""
        for shard in shards:
            self._tenures[shard].closing = True

    def release(self, shards: Iterable[int]) -> None:
        """Records that shards were released, or may have been."""
        for shard in shards:
            tenure = self._tenures.pop(shard, None)
            if tenure is not None:
                self._released[shard] = tenure.fence

    def clear(self) -> None:
        """Records that this controller began anew, under another id: higher fences follow."""
        self._tenures.clear()
        self._released.clear()
