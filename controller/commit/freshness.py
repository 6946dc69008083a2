"""How old what is in memory may be: what others have written since is looked for when somebody asks.

Marks never change, and time only rises, so an old cache is loose and never wrong. What can go back, such as the
position of a reader group, is compared each time. All who ask within a turn of the event loop share one query.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from controller.commit.item import Item
from controller.commit.loop import STOPPED, CommitLoop
from controller.commit.store import Store
from controller.storage.news import Known, look
from controller.storage.subjects import Subject
from strandline.errors import StoreUnavailable, StoreUndecided

NEVER_FRESH_S: Final = -1.0  # for what is to be as new as the store is now
FRESH_S: Final = 0.1  # what was compared this recently is not compared again for a reader of marks


class Freshness:
    """Compares caches with the store."""

    def __init__(self, store: Store, commits: CommitLoop) -> None:
        self._store = store
        self._commits = commits
        self._asked: dict[Subject, None] = {}
        self._answer: asyncio.Future[None] | None = None  # to those
        self._looking: asyncio.Task[None] | None = None

    def is_fresh(self, cached: Item, within_s: float | None = None) -> bool:
        """Whether a cache is as new as the store was so many seconds ago, by default FRESH_S: nobody else writes the
        store, or it was compared since."""
        return not self._store.is_shared or self.age_s(cached) <= (FRESH_S if within_s is None else within_s)

    def age_s(self, cached: Item) -> float:
        """For how long a cache may differ from the store; 0 where nobody else writes it."""
        return asyncio.get_running_loop().time() - cached.compared_at if self._store.is_shared else 0.0

    async def compare(self, subjects: Iterable[Subject]) -> None:
        """Makes what is in memory of these as new as the store is now. Raises StoreUnavailable."""
        self._asked.update(dict.fromkeys(subjects))
        if self._answer is None:
            self._answer = asyncio.get_running_loop().create_future()
        answer = self._answer
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="freshness")
        await asyncio.wait([answer])  # many wait for it: who leaves must not cancel it
        answer.result()

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.wait([self._looking])
        if self._answer is not None:  # the task had not begun
            _refuse(self._answer, StoreUnavailable(reason=STOPPED))

    async def _look(self) -> None:
        """Looks for all who ask, one query at a time."""
        try:
            while self._answer is not None:
                asked, answer = self._asked, self._answer
                self._asked, self._answer = {}, None
                try:
                    await self._look_for(asked)
                except asyncio.CancelledError:
                    _refuse(answer, StoreUnavailable(reason=STOPPED))
                    raise
                except Exception as error:
                    _refuse(answer, error)
                else:
                    answer.set_result(None)
        finally:
            self._looking = None
            if self._answer is not None:
                _refuse(self._answer, StoreUnavailable(reason=STOPPED))
                self._answer = None

    async def _look_for(self, asked: Iterable[Subject]) -> None:
        """A commit that is under way now may have been in the store for a while, and others may have written since. So
        what it is about is looked at again; one that begins after this call, and does not fail, locks what is as new as
        it has to be."""
        busy = {subject for subject in asked if self._commits.under_way(subject) is not None}
        again = busy.union(await self._look_at(asked))
        for error in (await self._look_at(again)).values():
            raise StoreUnavailable(reason=error.reason) if isinstance(error, StoreUndecided) else error

    async def _look_at(self, asked: Iterable[Subject]) -> dict[Subject, BaseException]:
        """Looks at these, or waits for the commits that are under way; returns those whose commit has failed."""
        known: dict[Subject, Known] = {}
        under_way: dict[Subject, asyncio.Future[None]] = {}
        for subject in asked:
            commit, cached = self._commits.under_way(subject), self._commits.loaded(subject)
            if commit is not None:
                under_way[subject] = commit
            elif cached is not None:
                known[subject] = cached.known
        if known:
            began = asyncio.get_running_loop().time()
            found = await self._store.read(look, known)
            for subject, before in known.items():
                commit, cached = self._commits.under_way(subject), self._commits.loaded(subject)
                if commit is not None:
                    under_way[subject] = commit
                elif cached is not None and cached.head is before.head:  # else it is newer by now
                    cached.take_in(found, began)
        if under_way:
            await asyncio.wait(set(under_way.values()))
        ended = {subject: each.exception() for subject, each in under_way.items() if not each.cancelled()}
        return {subject: error for subject, error in ended.items() if error is not None}


def _refuse(answer: asyncio.Future[None], error: Exception) -> None:
    """Ends the wait for an answer."""
    answer.set_exception(error)
    answer.exception()  # marks it as retrieved, even if nobody waits
