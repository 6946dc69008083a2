"""The tenures of a controller that serves some shards of a store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from controller.cluster.owned_shards import OwnedShard
from controller.cluster.records import Kind
from controller.cluster.shards import shard_of
from controller.storage.tenure import Tenure, not_served
from strandline.core.served_time import Unserved


class ShardTenures:
    """A tenure for each shard, from the moment when its streams and groups may be loaded to the end of the tenure.

    Nothing is served without a lease, whatever the shards.
    """

    def __init__(self, owner: str, has_lease: Callable[[], bool]) -> None:
        """`owner` is the name of this controller in the rows."""
        self.shards = 1  # of the store, once a controller has begun there
        self._owner = owner
        self._has_lease = has_lease
        self._present: dict[int, Tenure] = {}
        self._ended: dict[int, Tenure] = {}  # the last one of each shard
        self._stored: dict[int, int] = {}  # by shard, its unserved time as the store has it
        self._undone = False  # whether a commit is under way, or the last one failed

    def __len__(self) -> int:
        return len(self._present)

    def of(self, kind: Kind, name: str) -> Tenure:
        tenure = self._present.get(shard_of(kind, name, self.shards))
        if tenure is None or not self.serves(tenure):
            raise not_served(kind, name)
        return tenure

    def serves(self, tenure: Tenure) -> bool:
        return not tenure.closing and not tenure.over and self._has_lease()

    def all(self) -> Collection[Tenure]:
        """Those that are not over."""
        return self._present.values()

    def has(self, owned: OwnedShard) -> bool:
        """Whether an owned shard has its tenure here."""
        tenure = self._present.get(owned.shard)
        return tenure is not None and tenure.fence == owned.fence

    def begin(self, owned: OwnedShard, restores: Sequence[tuple[int, int]], now: int) -> None:
        """Begins the tenure of a shard that is owned. `restores` are those of the store, for this shard.

        A shard whose release was not done comes back with its fence: what failed before that is still not over. In a
        new tenure nobody could be heard until now, or until the commit that is under way is done.
        """
        before = self._ended.get(owned.shard)
        if before is not None and before.fence == owned.fence:
            unserved = before.unserved
        else:
            unserved = Unserved(owned.unserved_ms)
            unserved.begin(owned.clock_floor)  # up to which the unserved time so far goes
            unserved.fail()
            if not self._undone:
                unserved.succeed(now)
        self._present[owned.shard] = Tenure(
            owned.fence, self._owner, owned.clock_floor, unserved, restores, shard=owned.shard
        )
        self._stored[owned.shard] = owned.unserved_ms

    def commit_begins(self, now: int) -> None:
        self._undone = True
        for tenure in self._present.values():
            tenure.unserved.begin(max(now, tenure.clock_floor))

    def commit_is_done(self, now: int, stored: Mapping[int, int]) -> None:
        """`stored` are the unserved times that the commit has written, by shard."""
        self._undone = False
        for tenure in self._present.values():
            tenure.unserved.succeed(max(now, tenure.clock_floor))
        self._stored.update((shard, total) for shard, total in stored.items() if shard in self._present)

    def commit_failed(self) -> None:
        for tenure in self._present.values():
            tenure.unserved.fail()

    def grown(self, owned: Iterable[OwnedShard], now: int) -> dict[int, int]:
        """By owned shard, its unserved time where the store has less: commits failed or hung, and callers were not
        heard.

        A shard whose release was not done may be released again before its tenure comes back. In one that is released
        before its tenure begins, nobody was ever heard.
        """
        totals: dict[int, int] = {}
        for each in owned:
            tenure = self._present.get(each.shard) or self._ended.get(each.shard)
            if tenure is not None and tenure.fence == each.fence:
                if tenure.unserved.total_ms > self._stored[each.shard]:
                    totals[each.shard] = tenure.unserved.total_ms
            elif each.closing:
                totals[each.shard] = each.unserved_ms + max(0, now - each.clock_floor)
        return totals

    def close(self, shards: Collection[int]) -> list[Tenure]:
        """Marks the tenures of these shards as being handed over, and returns them."""
        closing = self.under(shards)
        for tenure in closing:
            tenure.closing = True
        return closing

    def under(self, shards: Collection[int]) -> list[Tenure]:
        """The tenures of these shards, which are about to end."""
        return [tenure for shard, tenure in self._present.items() if shard in shards]

    def end(self, shards: Collection[int]) -> None:
        """Ends the tenures of these shards. What was loaded under them is discarded before."""
        for shard in shards:
            tenure = self._present.pop(shard, None)
            if tenure is not None:
                tenure.over = True
                self._ended[shard] = tenure
