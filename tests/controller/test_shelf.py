"""Each thing at most once in memory, whatever loads and arrivals overlap."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from controller.streams.cache import LoadingCache


@dataclass(eq=False)
class Item:
    number: int
    discarded: bool = False
    ending: asyncio.Future[None] | None = None


class Store:
    """What is durable; a read takes a while, and what it brings is what was there when it was made."""

    def __init__(self, turns: list[int]) -> None:
        self.stored: int | None = None
        self.loads = 0
        self._turns = turns

    async def pause(self) -> None:
        for _ in range(self._turns.pop() if self._turns else 1):
            await asyncio.sleep(0)

    async def load(self, _name: str) -> Item | None:
        self.loads += 1
        await self.pause()
        number = self.stored
        await self.pause()
        return None if number is None else Item(number)


def cache_of(load: Callable[[str], Awaitable[Item | None]]) -> LoadingCache[Item]:
    return LoadingCache(load)


@given(turns=st.lists(st.integers(0, 4)), waits=st.lists(st.integers(0, 12), min_size=2, max_size=6))
def test_creations_that_overlap_create_once_and_all_end_up_with_that_one(turns: list[int], waits: list[int]) -> None:
    async def scene() -> None:
        store = Store(list(turns))
        shelf = cache_of(store.load)
        created: list[Item] = []

        async def create(wait: int) -> Item:
            for _ in range(wait):
                await asyncio.sleep(0)
            found = await shelf.find("x")
            if found is not None:
                return found
            item = Item(len(created))
            created.append(item)
            shelf.put("x", item)
            await store.pause()
            store.stored = item.number
            return item

        found = await asyncio.gather(*map(create, waits))
        assert len(created) == 1 and all(item is created[0] for item in found)
        assert await shelf.find("x") is created[0]

    asyncio.run(scene())


def test_a_cancelled_caller_leaves_the_load_to_other_waiters() -> None:
    async def scene() -> None:
        store = Store([])
        store.stored = 7
        shelf = cache_of(store.load)
        impatient, patient = (asyncio.create_task(shelf.find("x")) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        found = await patient
        assert found is not None and found.number == 7 and store.loads == 1

    asyncio.run(scene())


def test_a_failed_load_fails_all_waiters_and_the_next_retries() -> None:
    async def scene() -> None:
        tries = 0

        async def load(_name: str) -> Item | None:
            nonlocal tries
            tries += 1
            await asyncio.sleep(0)
            if tries == 1:
                raise OSError("away")
            return Item(7)

        shelf = cache_of(load)
        heard = await asyncio.gather(*(shelf.find("x") for _ in range(3)), return_exceptions=True)
        assert [type(each) for each in heard] == [OSError] * 3 and tries == 1
        found = await shelf.find("x")
        assert found is not None and tries == 2

    asyncio.run(scene())
