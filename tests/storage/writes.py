"""Writes to a store without a controller."""

from __future__ import annotations

import asyncio

from controller.commit.item import Item
from controller.storage.database import Database
from controller.storage.heads import new_stamp
from controller.storage.save import Commit, write_rows
from controller.storage.transaction import transaction


def write(database: Database, *changed: Item) -> None:
    """Writes what has changed in these, in one commit."""
    commit = Commit(new_stamp())
    published = [each.write(commit) for each in changed]
    with transaction(database.writer):
        write_rows(database.writer, commit)

    async def publish() -> None:
        for each in published:
            each()

    asyncio.run(publish())
