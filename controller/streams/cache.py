"""A cache by name: loads an item once, when it is first needed, and again after it was discarded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, Protocol, TypeVar


class Loadable(Protocol):
    """An item of a cache."""

    @property
    def discarded(self) -> bool:
        """Whether it no longer equals what the store has."""

    ending: asyncio.Future[None] | None  # set while its deletion is not durable


Item = TypeVar("Item", bound=Loadable)


class StillLoading(Exception):
    """Loading takes longer than the caller waits. It continues."""


class LoadingCache(Generic[Item]):
    """Holds each item at most once. A caller must not keep an item across an `await`, but find it again."""

    def __init__(self, load: Callable[[str], Awaitable[Item | None]]) -> None:
        self._load = load
        self._items: dict[str, Item] = {}
        self._loading: dict[str, asyncio.Task[bool]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[Item]:
        """All items that are neither discarded nor being deleted."""
        return [item for item in self._items.values() if not item.discarded and item.ending is None]

    def find_loaded(self, name: str) -> Item | None:
        """The item if it is in memory; never waits."""
        item = self._items.get(name)
        return item if item is not None and not item.discarded and item.ending is None else None

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
            if await loading and name not in self._items:
                return None

    async def stop(self) -> None:
        """Cancels all loading."""
        loading = list(self._loading.values())
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)

    def _loaded(self, name: str, task: asyncio.Task[bool]) -> None:
        del self._loading[name]
        if not task.cancelled():
            task.exception()  # marks it as retrieved, even if nobody waits

    def put(self, name: str, item: Item) -> None:
        """Adds a new item. Call it right after `find` returned None."""
        self._items[name] = item

    async def _fetch(self, name: str, before: Item | None) -> bool:
        """Loads the item that replaces `before`, unless another one has replaced it meanwhile. Returns whether the
        store has none."""
        item = await self._load(name)
        present = self._items.get(name)
        if present is not None and present is not before:
            return False  # a caller found none and put a new one: what was read here may be outdated
        if item is None:
            self._items.pop(name, None)
            return True
        self._items[name] = item
        return False
