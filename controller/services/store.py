"""The store as services see it: reads in one thread, commits in another, so that no reader waits for a sync."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError

from controller.storage.database import Database
from controller.storage.writing import Scribe, Writing
from strandline.errors import StoreUnavailable

Given = ParamSpec("Given")
Result = TypeVar("Result")


class Store:
    """An open database with a thread for each of its two connections."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._scribe = Scribe(database.writer)
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="store-writer")
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="store-reader")

    def commit(self, writing: Writing) -> asyncio.Future[None]:
        return asyncio.get_running_loop().run_in_executor(self._writer, self._scribe.commit, writing)

    async def read(
        self,
        function: Callable[Concatenate[Connection, Given], Result],
        *args: Given.args,
        **kwargs: Given.kwargs,
    ) -> Result:
        """Calls a function of `controller.storage` with a connection; raises StoreUnavailable where the store fails."""

        def call() -> Result:
            return function(self._database.reader, *args, **kwargs)

        try:
            return await asyncio.get_running_loop().run_in_executor(self._reader, call)
        except DBAPIError as error:
            raise StoreUnavailable(reason=type(error).__name__) from error

    def close(self) -> None:
        """Waits for both threads, then closes the connections."""
        self._writer.shutdown()
        self._reader.shutdown()
        self._database.close()
