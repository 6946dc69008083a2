"""What is in memory, by name: loaded when first asked for, once, and again after it was discarded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Generic, Protocol, TypeVar


class Loadable(Protocol):
    """Something that a cache holds."""

    discarded: bool  # it is no longer what the store has
    ending: asyncio.Future[None] | None  # while its deletion is not durable


Item = TypeVar("Item", bound=Loadable)


class StillLoading(Exception):
    """It takes longer to load than anyone is to wait. Loading goes on."""


class LoadingCache(Generic[Item]):
    """Each thing at most once in memory. Nobody may hold on to one over an `await`: ask again."""

    def __init__(self, load: Callable[[str], Awaitable[Item | None]]) -> None:
        self._load = load
        self._items: dict[str, Item] = {}
        self._loading: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[Item]:
        """All that is in memory and agrees, or will agree, with the store."""
        return [item for item in self._items.values() if not item.discarded and item.ending is None]

    def find_loaded(self, name: str) -> Item | None:
        """The thing if it is in memory: a look without a wait."""
        item = self._items.get(name)
        return item if item is not None and not item.discarded and item.ending is None else None

    async def find(self, name: str, wait_s: float | None = None) -> Item | None:
        """The thing, loaded if need be; None where the store has none. Right after it, memory still agrees.

        Raises StillLoading where that takes longer than `wait_s`. Then, or if this is cancelled, loading goes on all
        the same, for whoever asks next.
        """
        loop = asyncio.get_running_loop()
        until = None if wait_s is None else loop.time() + wait_s
        while True:
            item = self._items.get(name)
            if item is not None and not item.discarded:
                if item.ending is None:
                    return item
                await asyncio.wait([item.ending])  # then it is discarded, and the store tells whether it is gone
                continue
            loading = self._loading.get(name)
            if loading is None:
                loading = self._loading[name] = asyncio.create_task(self._fetch(name, item))
                loading.add_done_callback(partial(self._loaded, name))
            left = None if until is None else max(0.0, until - loop.time())
            done, _ = await asyncio.wait([loading], timeout=left)
            if not done:
                raise StillLoading
            await loading
            if name not in self._items:
                return None

    async def stop(self) -> None:
        """Gives up what is being loaded."""
        loading = list(self._loading.values())
        for task in loading:
            task.cancel()
        await asyncio.gather(*loading, return_exceptions=True)

    def _loaded(self, name: str, task: asyncio.Task[None]) -> None:
        del self._loading[name]
        if not task.cancelled():
            task.exception()  # seen, even where nobody waits any more

    def put(self, name: str, item: Item) -> None:
        """Puts in a new thing, right after `find` found none."""
        self._items[name] = item

    async def _fetch(self, name: str, before: Item | None) -> None:
        """Loads what is to stand in the place of `before`, unless something else does by then."""
        item = await self._load(name)
        if self._items.get(name) is not before:
            return  # who was told that there was none put one in: the store may have changed since it was read
        if item is None:
            self._items.pop(name, None)
        else:
            self._items[name] = item
