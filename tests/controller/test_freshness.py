"""Whoever waits for a look at the store is answered, whatever becomes of the look."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.commit.freshness import Freshness
from controller.commit.group_commit import Committer
from controller.commit.store import Store
from controller.storage.news import Known
from controller.storage.subjects import Kind, Subject
from strandline.errors import StoreUnavailable

ONE, OTHER = Subject(Kind.STREAM, "one"), Subject(Kind.STREAM, "other")


class SilentStore:
    """A store that does not answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def read(self, *_: Any) -> None:
        self.asked.set()
        await asyncio.Event().wait()


def test_who_waits_for_a_look_is_answered_when_the_controller_stops() -> None:
    asyncio.run(_stopped_while_two_wait())


async def _stopped_while_two_wait() -> None:
    store = SilentStore()
    cached = SimpleNamespace(known=Known(cast("Any", None), {}))
    committer = SimpleNamespace(pending=lambda _: None, cached=lambda _: cached)
    freshness = Freshness(cast("Store", store), cast("Committer", committer))
    looking = asyncio.create_task(freshness.compare([ONE]))
    await store.asked.wait()
    waiting = asyncio.create_task(freshness.compare([OTHER]))  # for the next look
    await asyncio.sleep(0)

    await freshness.stop()

    for each in (looking, waiting):
        with pytest.raises(StoreUnavailable, match="the controller has stopped"):
            await asyncio.wait_for(each, 10)
