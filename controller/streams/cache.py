"""A cache by name: loads an item once, when it is first needed, and again after it was discarded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Generic, Protocol, TypeVar

from controller.cluster.records import Kind
from controller.storage.tenure import Tenure, Tenures


class Loadable(Protocol):
    """An item of a cache."""

    @property
    def discarded(self) -> bool:
        """Whether it no longer equals what the store has, or its tenure is over."""

    ending: asyncio.Future[None] | None  # set while its deletion is not durable

    @property
    def tenure(self) -> Tenure:
        """Under which it was loaded."""


Item = TypeVar("Item", bound=Loadable)


class StillLoading(Exception):
    """Loading takes longer than the caller waits. It continues."""


class LoadingCache(Generic[Item]):
    """Holds each item at most once. A caller must not keep an item across an `await`, but find it again.

    An item whose tenure is over is never returned: it is loaded again under the next one. While there is none, or while
    it is being handed over, finding the item raises NotOwner.
    """

    def __init__(self, kind: Kind, tenures: Tenures, load: Callable[[str, Tenure], Awaitable[Item | None]]) -> None:
        self._kind = kind
        self._tenures = tenures
        self._load = load
        self.deletions = 0  # how many were begun
        self._items: dict[str, Item] = {}
        self._loading: dict[str, asyncio.Task[Tenure | None]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[Item]:
        """All items that are served, and neither discarded nor being deleted."""
        return [item for item in self._items.values() if self._is_served(item)]

    def find_loaded(self, name: str) -> Item | None:
        """The item if it is in memory; never waits."""
        item = self._items.get(name)
        return item if item is not None and self._is_served(item) else None

    def _is_served(self, item: Item) -> bool:
        return not item.discarded and item.ending is None and self._tenures.serves(item.tenure)

    async def find(self, name: str, wait_s: float | None = None) -> Item | None:
        """The item, loaded if necessary; None if the store has none. The result is valid until the next `await`.

        Raises StillLoading if that takes longer than `wait_s`. Then, or if the caller is cancelled, loading continues
        for the next caller.
        """
        loop = asyncio.get_running_loop()
        until = None if wait_s is None else loop.time() + wait_s
        while True:
            item = self._items.get(name)
            if item is not None and not item.discarded:
                self._tenures.of(self._kind, name)  # raises NotOwner while it is not served
                if item.ending is None:
                    return item
                await asyncio.wait([item.ending])  # then it is discarded, and the store shows whether it is gone
                continue
            loading = self._loading.get(name)
            if loading is None:
                loading = self._loading[name] = asyncio.create_task(self._fetch(name, item))
                loading.add_done_callback(partial(self._loaded, name))
            left = None if until is None else max(0.0, until - loop.time())
            done, _ = await asyncio.wait([loading], timeout=left)
            if not done:
                raise StillLoading
            without = await loading
            # What was loaded may be gone again: its tenure ended before this caller had its turn. That is no answer.
            if without is not None and name not in self._items and self._tenures.of(self._kind, name) is without:
                return None

    async def find_before_creation(
        self, name: str, find: Callable[[str], Awaitable[Item | None]], deleted_epochs: Callable[[], Awaitable[int]]
    ) -> tuple[Tenure, Item | None, int]:
        """The present tenure of a name, and what `find` finds of it in that tenure. If that is nothing, an epoch that
        no earlier item of the name has passed, be it deleted, or lost when the store was restored."""
        while True:
            deletions, (tenure, found) = self.deletions, await self._find_under(name, find)
            if found is not None:
                return tenure, found, 0
            epochs = await deleted_epochs()
            tenure_now, found = await self._find_under(name, find)
            if found is not None or (tenure_now is tenure and self.deletions == deletions):
                return tenure_now, found, max(epochs, tenure_now.restored_at(0) or 0)

    async def _find_under(self, name: str, find: Callable[[str], Awaitable[Item | None]]) -> tuple[Tenure, Item | None]:
        while True:
            tenure = self._tenures.of(self._kind, name)
            found = await find(name)
            if self._tenures.of(self._kind, name) is tenure:
                return tenure, found

    def under(self, tenures: Collection[Tenure]) -> list[Item]:
        """All items that were loaded under one of these tenures."""
        return [item for item in self._items.values() if item.tenure in tenures]

    def forget(self, tenures: Collection[Tenure]) -> list[Item]:
        """Removes all items that were loaded under one of these tenures, and returns them."""
        forgotten = [(name, item) for name, item in self._items.items() if item.tenure in tenures]
        for name, _ in forgotten:
            del self._items[name]
        return [item for _, item in forgotten]

    async def stop(self) -> None:
        """Cancels all loading."""
        loading = list(self._loading.values())
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)

    def _loaded(self, name: str, task: asyncio.Task[Tenure | None]) -> None:
        del self._loading[name]
        if not task.cancelled():
            task.exception()  # marks it as retrieved, even if nobody waits

    def put(self, name: str, item: Item) -> None:
        """Adds a new item. Call it right after `find` returned None."""
        self._items[name] = item

    async def _fetch(self, name: str, before: Item | None) -> Tenure | None:
        """Loads the item that replaces `before`, unless another one has replaced it meanwhile. Returns the tenure under
        which the store has none, or None."""
        while True:
            tenure = self._tenures.of(self._kind, name)
            item = await self._load(name, tenure)
            if not tenure.over:  # else another owner may have changed it since, or created it
                break
        present = self._items.get(name)  # `before` may have been forgotten, with the tenure that it was loaded under
        if present is not None and present is not before:
            return None  # a caller found none and put a new one: what was read here may be outdated
        if item is None:
            self._items.pop(name, None)
            return tenure
        self._items[name] = item
        return None
