"""Loads streams from the store, those together that are wanted at the same time."""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from controller.commit.store import Store
from controller.storage.load import LARGE, FoundStream, StoredStream, read_stream, ready_streams
from strandline.core.served_time import Unserved
from strandline.errors import StoreCorrupt

LOADED_TOGETHER: Final = 16  # streams that are wanted at the same time, in one read


class _Wanted(NamedTuple):
    name: str
    found: asyncio.Future[FoundStream]


class Loading:
    """One read of the store at a time; the next one is for all streams that were wanted meanwhile.

    A large stream is loaded by itself, in another thread, so that small ones do not wait for it.
    """

    def __init__(self, store: Store, unserved: Unserved) -> None:
        """`unserved` is the controller's."""
        self._store = store
        self._unserved = unserved
        self._wanted: list[_Wanted] = []
        self._reading: asyncio.Task[None] | None = None

    async def load(self, name: str) -> StoredStream | None:
        """The stream; None if it does not exist. Raises what `Store.load` raises."""
        wanted = _Wanted(name, asyncio.get_running_loop().create_future())
        self._wanted.append(wanted)
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        found = await wanted.found
        if found is LARGE:
            return await self._store.load(read_stream, name, self._unserved)
        if isinstance(found, StoreCorrupt):
            self._store.unreadable(found)
            raise found
        return found

    async def stop(self) -> None:
        """Reads no more. Call it when nobody waits any longer."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait([self._reading])

    async def _read(self) -> None:
        try:
            while self._wanted:
                together, self._wanted = self._wanted[:LOADED_TOGETHER], self._wanted[LOADED_TOGETHER:]
                await self._read_together([each for each in together if not each.found.done()])
        finally:
            self._reading = None

    async def _read_together(self, together: list[_Wanted]) -> None:
        try:
            found = await self._store.read(ready_streams, [each.name for each in together], self._unserved)
        except Exception as error:
            for each in together:
                if not each.found.done():
                    each.found.set_exception(error)
        else:
            for each, stream in zip(together, found, strict=True):
                if not each.found.done():
                    each.found.set_result(stream)
