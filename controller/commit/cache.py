"""What is in memory of one kind, by name: loaded when it is first needed, and again after it was discarded. And how it
is changed: by steps, which the commit loop takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, Generic

from controller.commit.freshness import Freshness
from controller.commit.loop import Cold, CommitLoop, Kept, Locked, Result
from controller.storage.subjects import Kind, Subject
from strandline.errors import StoreCorrupt, StreamLoading, UnknownGroup, UnknownStream
from strandline.names import check_name

NEARLY_FRESH_S: Final = 0.5  # what was compared this recently may be locked without another look


class Cache(Generic[Kept]):
    """Holds each item at most once. A caller must not keep an item across an `await`, but find it again. Only a step
    may change it."""

    def __init__(
        self,
        kind: Kind,
        load: Callable[[str], Awaitable[Kept | None]],
        commits: CommitLoop,
        freshness: Freshness,
        wait_ms: int | None = None,
    ) -> None:
        """`wait_ms` is how long a caller waits for an item that is being loaded."""
        self.wait_ms = wait_ms
        self._kind = kind
        self._load = load
        self._commits = commits
        self._freshness = freshness
        self._items: dict[str, Kept] = {}
        self._loading: dict[str, asyncio.Task[bool]] = {}
        commits.serve(kind, self)

    # -- finding -------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> list[Kept]:
        """All items that are neither discarded nor being deleted."""
        return [item for item in self._items.values() if not item.discarded and item.ending is None]

    def find_loaded(self, name: str) -> Kept | None:
        """The item if it is in memory; never waits."""
        item = self._items.get(name)
        return item if item is not None and not item.discarded and item.ending is None else None

    async def get(self, name: str, wait_ms: int | None = None) -> Kept:
        """The item, loaded if necessary; raises UnknownStream or UnknownGroup, and what `find` raises."""
        found = self.find_loaded(name) or await self.find(name, wait_ms)
        if found is None:
            raise UnknownStream(stream=name) if self._kind is Kind.STREAM else UnknownGroup(group=name)
        found.used_at = asyncio.get_running_loop().time()
        return found

    def let_go(self, item: Kept) -> None:
        """Frees the memory of an item, all of which the store has."""
        if self._commits.under_way(item.subject) is None and self._items.get(item.subject.name) is item:
            item.discard()
            del self._items[item.subject.name]

    async def find(self, name: str, wait_ms: int | None = None) -> Kept | None:
        """The item, loaded if necessary; None if the store has none. The result is valid until the next `await`.

        Raises StreamLoading if that takes longer than `wait_ms`, by default longer than any caller waits. Then, or if
        the caller is cancelled, loading continues for the next caller.
        """
        check_name(self._kind.value, name)
        loop, wait_ms = asyncio.get_running_loop(), self.wait_ms if wait_ms is None else wait_ms
        until = None if wait_ms is None else loop.time() + wait_ms / 1000
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
                raise StreamLoading(stream=name)
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

    async def _fetch(self, name: str, before: Kept | None) -> bool:
        """Loads the item that replaces `before`, unless another one has replaced it meanwhile. Returns whether the
        store has none."""
        item = await self._load(name)
        present = self._items.get(name)
        if present is not None and present is not before:
            return False  # a new one was created: what was read here may be outdated
        if item is None:
            self._items.pop(name, None)
            return True
        self._items[name] = item
        return False

    # -- changing ------------------------------------------------------------------------------------------------

    async def change(self, name: str, step: Callable[[Kept, Locked], Result]) -> Result:
        """Takes a step with an item as the store has it, and returns its result when all that it changed is durable.

        The step marks what it has changed. Raises what `get`, `CommitLoop.call` and the step raise.
        """
        subject = Subject(self._kind, name)
        while True:
            item = await self.get(name)
            if not self._freshness.is_fresh(item, NEARLY_FRESH_S):
                await self._freshness.compare([subject])  # so that little is left to be taken in under the lock
            with suppress(Cold):
                return await self._commits.call(subject, step=lambda locked: step(locked.item(self, subject), locked))

    def change_soon(self, name: str, step: Callable[[Kept, Locked], None]) -> asyncio.Future[None]:
        """The same of an item that is in memory, if it still is, and without waiting for it."""
        subject = Subject(self._kind, name)
        return self._commits.soon(subject, step=lambda locked: step(locked.item(self, subject), locked))

    async def create(self, name: str, step: Callable[[Kept | None, int, Locked], tuple[Kept, Result]]) -> Result:
        """Takes a step with the item of a name if there is one. If not, the step makes one that gives out greater
        epochs than the given one. It returns the item with its result."""
        subject = Subject(self._kind, name)

        def take(locked: Locked) -> Result:
            there = subject in locked.found.heads or self.find_loaded(name) is not None
            found = locked.item(self, subject) if there else None
            self._items[name], result = step(found, locked.found.epochs.get(subject, 0), locked)
            return result

        while True:
            await self.find(name)
            with suppress(Cold):
                return await self._commits.call(subject, step=take, creates=True)

    async def delete(self, name: str) -> Kept | None:
        """Deletes an item, also if its rows cannot be read: then returns None."""

        def end(item: Kept, locked: Locked) -> Kept:
            item.ending = locked.over
            locked.change(item)
            return item

        def end_unreadable(locked: Locked) -> None:
            if self.find_loaded(name) is not None:  # others have deleted it and created it again meanwhile
                raise Cold
            # The clock's time is more than any number of registrations: no epoch is given out twice.
            locked.commit.delete(self._kind, name, locked.now)

        subject = Subject(self._kind, name)
        while True:
            try:
                return await self.change(name, end)
            except StoreCorrupt:
                with suppress(Cold):
                    await self._commits.call(subject, step=end_unreadable)
                    return None
