"""Group commit, with a store that commits when the test says so, and looks at one that does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from controller.commit.freshness import Freshness
from controller.commit.group_commit import Committer, Durable
from controller.commit.store import Store
from controller.storage import schema
from controller.storage.news import Found, Known
from controller.storage.save import Commit
from controller.storage.subjects import Kind, Subject
from controller.storage.transaction import CommitUnknown
from controller.streams.loaded_stream import LoadedStream
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import Overloaded, StoreUnavailable, StoreUndecided
from tests.controller.world import unfollowed
from tests.storage.loads import made


class HeldStore:
    """Takes what is to be written, and has written it when the test says so. Nobody else writes it."""

    def __init__(self) -> None:
        self.loaded: dict[str, LoadedStream] = {}
        self.writings: list[Commit] = []
        self.durable: bool | None = None  # what became of a commit whose outcome was unknown
        self._ends: list[asyncio.Future[None]] = []

    def find_loaded(self, name: str) -> LoadedStream | None:
        return self.loaded.get(name)

    async def lock(
        self, subjects: Collection[Subject], known: Mapping[Subject, Known], creating: Collection[Subject] = ()
    ) -> Found:
        return Found({subject: each.head for subject, each in known.items()})

    async def commit(self, commit: Commit) -> None:
        self.writings.append(commit)
        self._ends.append(asyncio.get_running_loop().create_future())
        await self._ends[-1]

    async def release(self) -> None:
        pass

    async def outcome(self, versions: Mapping[Subject, int], stamp: int) -> bool | None:
        return self.durable

    async def begun(self, commits: int) -> None:
        """Returns when so many commits have begun."""
        while len(self.writings) < commits:
            await asyncio.sleep(0)

    async def end(self, error: Exception | None = None) -> None:
        """Ends the oldest commit that has begun, once there is one."""
        while not self._ends:
            await asyncio.sleep(0)
        end = self._ends.pop(0)
        if error is None:
            end.set_result(None)
        else:
            end.set_exception(error)

    def stream(self, name: str) -> LoadedStream:
        config = StreamConfig(mark_interval_ms=0, max_ahead_ms=None)
        self.loaded[name] = made(Stream(name, config, SegmentGraph.equal_shares(1, 0), now=0))
        return self.loaded[name]


def note(live: LoadedStream, time: int) -> None:
    live.stream.note(Note(writer="w", times={"": time}, position={"0": time}), time)


def call(committer: Committer, live: LoadedStream, *times: int) -> asyncio.Task[None]:
    """Takes notes when it is their turn, and ends when they are durable."""

    async def noted() -> None:
        await committer.turn(live.subject)
        for time in times:
            note(live, time)
        await committer.join(live)

    return asyncio.create_task(noted())


def run(scene: Callable[[HeldStore, Committer], object], **limits: Any) -> None:
    async def play() -> None:
        store = HeldStore()
        committer = Committer(store, unfollowed, **limits)
        committer.serve(Kind.STREAM, store)
        committer.start()
        await scene(store, committer)  # type: ignore[misc]  # every scene is a coroutine function

    asyncio.run(play())


def test_calls_that_come_during_a_commit_go_together_in_the_next() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live = store.stream("s")
        first = call(committer, live, 1)
        await store.begun(1)
        rest = [call(committer, live, time) for time in (2, 3, 4)]

        await store.end()
        await first
        assert [mark.time for mark in live.chains[""]] == [1]
        await store.end()
        await asyncio.gather(*rest)

        assert [mark.time for mark in live.chains[""]] == [1, 2, 3, 4]
        assert [len(commit.added.get(schema.mark, [])) for commit in store.writings] == [1, 3]
        assert [len(commit.added[schema.writer_change]) for commit in store.writings] == [1, 1]

    run(scene)


@pytest.mark.parametrize(
    ("durable", "answered"), [(True, None), (False, StoreUnavailable), (None, StoreUndecided)], ids=str
)
def test_calls_of_a_commit_whose_outcome_is_unknown_are_answered_by_what_became_of_it(
    durable: bool | None, answered: type[Exception] | None
) -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live = store.stream("s")
        store.durable = durable
        done = call(committer, live, 1)
        await store.end(CommitUnknown(reason="cut"))
        if answered is None:
            await done
        else:
            with pytest.raises(answered):
                await done
        assert live.discarded  # it is loaded again in any case

    run(scene)


def test_a_caller_that_goes_away_takes_nobody_with_it() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live = store.stream("s")
        impatient, patient = (call(committer, live, time) for time in (1, 2))
        await store.begun(1)
        impatient.cancel()
        await store.end()
        await patient
        assert impatient.cancelled() and [mark.time for mark in live.chains[""]] == [1, 2]

    run(scene)


def test_when_the_committer_ends_nobody_goes_on_waiting() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live = store.stream("s")
        under_way = call(committer, live, 1)
        await store.begun(1)
        waiting = call(committer, live, 2)
        await asyncio.sleep(0)
        assert not await committer.stop(0)
        for each in (under_way, waiting):
            with pytest.raises((StoreUnavailable, asyncio.CancelledError)):
                await each
        for late in (committer.turn(live.subject), committer.portion([live.subject], 1)):
            with pytest.raises(StoreUnavailable, match="the controller has stopped"):
                await asyncio.wait_for(late, 5)

    run(scene)


def test_beyond_the_bound_calls_are_turned_away_until_there_is_room() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live = store.stream("s")
        committer.admit()
        first = call(committer, live, 1)
        await store.begun(1)
        committer.admit()
        second = call(committer, live, 2)
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="2 calls are waiting"):
            committer.admit()

        await store.end()
        await first
        await store.end()
        await second
        third = call(committer, live, 3)
        committer.admit()
        await store.end()
        await third

    run(scene, waiting_calls=2)


class SilentStore:
    """A store that does not answer."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def read(self, *_: Any) -> None:
        self.asked.set()
        await asyncio.Event().wait()


async def _compared_while_commits_fail() -> None:
    subject = Subject(Kind.STREAM, "s")
    cached = SimpleNamespace(known=Known(cast("Any", None), {}))

    def failing(_: object) -> Durable:
        """A commit that is under way, and fails."""
        commit = Durable(loop=asyncio.get_running_loop())
        asyncio.get_running_loop().call_soon(commit.set_exception, StoreUnavailable(reason="away"))
        return commit

    committer = SimpleNamespace(pending=failing, cached=lambda _: cached)
    with pytest.raises(StoreUnavailable, match="away"):
        await Freshness(cast("Store", SilentStore()), cast("Committer", committer)).compare([subject])


def test_a_look_at_the_store_that_only_met_commits_that_failed_has_failed() -> None:
    asyncio.run(_compared_while_commits_fail())


async def _stopped_while_two_wait() -> None:
    one, other = Subject(Kind.STREAM, "one"), Subject(Kind.STREAM, "other")
    store = SilentStore()
    cached = SimpleNamespace(known=Known(cast("Any", None), {}))
    committer = SimpleNamespace(pending=lambda _: None, cached=lambda _: cached)
    freshness = Freshness(cast("Store", store), cast("Committer", committer))
    looking = asyncio.create_task(freshness.compare([one]))
    await store.asked.wait()
    waiting = asyncio.create_task(freshness.compare([other]))  # for the next look
    await asyncio.sleep(0)

    await freshness.stop()

    for each in (looking, waiting):
        with pytest.raises(StoreUnavailable, match="the controller has stopped"):
            await asyncio.wait_for(each, 10)


def test_who_waits_for_a_look_at_the_store_is_answered_when_the_controller_stops() -> None:
    asyncio.run(_stopped_while_two_wait())
