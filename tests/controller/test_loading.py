"""Streams that are wanted at the same time."""

from __future__ import annotations

import asyncio

from controller.lifecycle import Controller, start_controller
from controller.streams.loading import LOADED_TOGETHER
from strandline.core.note import Note
from strandline.errors import UnknownStream
from strandline.testing import ManualClock


def test_streams_that_are_wanted_at_once_are_all_found(store_url: str) -> None:
    names = [f"s{number}" for number in range(2 * LOADED_TOGETHER + 3)]

    async def start() -> Controller:
        return await start_controller(store_url, ManualClock(), "test", by_hand=True)

    async def make() -> None:
        controller = await start()
        for time, name in enumerate(names):
            await controller.streams.create(name, 1, {"mark_interval_ms": 0, "max_ahead_ms": None})
            await controller.notes.take(name, Note(writer="w", times={"": time}, position={"0": 1}))
        await controller.stop()

    async def want() -> None:
        controller = await start()
        wanted = [asyncio.create_task(controller.streams.get(name)) for name in (*names, "none", *names)]
        wanted[1].cancel()  # another caller wants the same
        found = await asyncio.gather(*wanted, return_exceptions=True)
        assert isinstance(found[1], asyncio.CancelledError)
        assert isinstance(found[len(names)], UnknownStream)
        for time, name in enumerate(names):
            loaded = await controller.streams.get(name)
            assert loaded is found[len(names) + 1 + time]
            assert [mark.time for mark in loaded.chains[""]] == [time]
        await controller.stop()

    asyncio.run(make())
    asyncio.run(want())
