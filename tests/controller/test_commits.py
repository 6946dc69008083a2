"""Group commit, with a store that commits when the test says so, and looks at one that does not answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from controller.clock import Clock
from controller.commit.freshness import Freshness
from controller.commit.loop import FLUSH_NOTES_BESIDE, Cold, CommitLoop, Locked
from controller.commit.store import Store, _in_loop
from controller.commit.store_threads import CommitOrder
from controller.storage import schema
from controller.storage.database import open_database
from controller.storage.diagnosis import StoreSilent
from controller.storage.heads import Head
from controller.storage.news import Found, Known, StreamNews
from controller.storage.save import Commit
from controller.storage.subjects import Kind, Subject
from controller.storage.transaction import CommitUnknown
from controller.streams.loaded_stream import LoadedStream
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import InvalidNote, Overloaded, StoreUnavailable, StoreUndecided
from strandline.testing import ManualClock
from tests.controller.world import unfollowed
from tests.served import NOON
from tests.storage.loads import made


class HeldStore:
    """Takes what is to be written, and has written it when the test says so. Nobody else writes it."""

    def __init__(self) -> None:
        self.loaded: dict[str, LoadedStream] = {}
        self.writings: list[Commit] = []
        self.news: dict[str, StreamNews] = {}  # what others have written
        self.durable: bool | None = None  # what became of a commit whose outcome was unknown
        self.written_elsewhere: dict[Subject, Head] = {}
        self.writing = asyncio.Lock()
        self.locks: list[list[str]] = []  # what was locked, commit by commit
        self.looks: list[float] = []  # when caches were compared
        self.fails: Exception | None = None  # why no lock is given
        # Locks are given, what became of a commit, and what others have written.
        self.locked, self.answers, self.reads = asyncio.Event(), asyncio.Event(), asyncio.Event()
        for each in (self.locked, self.answers, self.reads):
            each.set()
        self._ends: list[asyncio.Future[None]] = []

    def find_loaded(self, name: str) -> LoadedStream | None:
        return self.loaded.get(name)

    async def transact(
        self,
        subjects: Collection[Subject],
        known: Mapping[Subject, Known],
        creating: Collection[Subject],
        apply: Callable[[Found], Commit | None],
    ) -> None:
        self.locks.append(sorted(subject.name for subject in subjects))
        await self.locked.wait()
        if self.fails is not None:
            raise self.fails
        found = {subject: self.loaded.get(subject.name) for subject in subjects}
        heads = {subject: each.head for subject, each in found.items() if each is not None}
        commit = apply(Found(heads | self.written_elsewhere, streams=self.news))
        if commit is not None:
            self.writings.append(commit)
            self._ends.append(asyncio.get_running_loop().create_future())
            await self._ends[-1]

    async def outcome(self, versions: Mapping[Subject, int], stamp: int) -> bool | None:
        await self.answers.wait()
        return self.durable

    async def read(self, _: object, known: Mapping[Subject, Known]) -> Found:
        self.looks.append(asyncio.get_running_loop().time())
        await asyncio.sleep(0)
        await self.reads.wait()
        return Found({subject: each.head for subject, each in known.items()})

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


def call(commits: CommitLoop, live: LoadedStream, *times: int) -> asyncio.Future[None]:
    """Takes notes; done when they are durable."""

    def step(locked: Locked) -> None:
        for time in times:
            live.stream.note(Note(writer="w", times={"": time}, position={"0": time}), time)
        locked.change(live)

    return commits.call(live.subject, step=step)


def run(scene: Callable[[HeldStore, CommitLoop], object], **limits: Any) -> None:
    async def play() -> None:
        store = HeldStore()
        commits = CommitLoop(cast("Store", store), Clock(ManualClock(NOON), by_hand=True), unfollowed, **limits)
        commits.serve(Kind.STREAM, store)
        commits.start()
        await scene(store, commits)  # type: ignore[misc]  # every scene is a coroutine function

    asyncio.run(play())


def test_calls_that_come_during_a_commit_go_together_in_the_next() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        first = call(commits, live, 1)
        await store.begun(1)
        rest = [call(commits, live, time) for time in (2, 3, 4)]

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
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        store.durable = durable
        done = call(commits, live, 1)
        await store.end(CommitUnknown(reason="cut"))
        if answered is None:
            await done
        else:
            with pytest.raises(answered):
                await done
        assert live.discarded  # it is loaded again in any case

    run(scene)


def test_a_caller_that_goes_away_takes_nobody_with_it() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        impatient, patient = (call(commits, live, time) for time in (1, 2))
        await store.begun(1)
        impatient.cancel()
        await store.end()
        await patient
        assert impatient.cancelled() and [mark.time for mark in live.chains[""]] == [1, 2]

    run(scene)


def test_when_the_loop_ends_nobody_goes_on_waiting() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        under_way = call(commits, live, 1)
        await store.begun(1)
        waiting = call(commits, live, 2)
        await asyncio.sleep(0)
        assert not await commits.stop(0)
        with pytest.raises(StoreUndecided, match="the controller has stopped"):
            await under_way
        with pytest.raises(StoreUnavailable, match="the controller has stopped"):
            await waiting
        with pytest.raises(StoreUnavailable, match="the controller has stopped"):
            _ = call(commits, live, 3)

    run(scene)


def test_when_the_loop_ends_while_it_asks_what_became_of_a_commit_nobody_goes_on_waiting() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        store.answers.clear()
        done = call(commits, live, 1)
        await store.end(CommitUnknown(reason="cut"))
        await asyncio.sleep(0)
        assert not await commits.stop(0)
        with pytest.raises(StoreUndecided, match="the controller has stopped"):
            await asyncio.wait_for(done, 10)
        await asyncio.wait_for(commits.settled(), 10)

    run(scene)


def test_beyond_the_bound_calls_are_turned_away_until_there_is_room() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        first = call(commits, live, 1)
        await store.begun(1)
        second, third = call(commits, live, 2), call(commits, live, 3)
        with pytest.raises(Overloaded, match="2 calls are waiting"):
            _ = call(commits, live, 4)

        await store.end()
        await first
        await store.end()
        await asyncio.gather(second, third)
        fourth = call(commits, live, 4)
        await store.end()
        await fourth

    run(scene, waiting_calls=2)


def test_a_call_that_comes_while_another_controller_holds_the_lock_goes_with_the_others() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live, other = store.stream("s"), store.stream("t")
        store.news["u"] = cast("StreamNews", None)
        store.locked.clear()
        first = call(commits, live, 1)
        while not store.locks:
            await asyncio.sleep(0)
        assert commits.under_way(live.subject) is not None  # nobody else takes in what is found
        second, elsewhere = call(commits, live, 2), call(commits, other, 1)
        creating = commits.call(live.subject, step=lambda _: None, creates=True)  # its name is not reserved
        store.locked.set()
        await store.end()
        await asyncio.gather(first, second)
        assert not elsewhere.done() and not creating.done()
        await store.end()
        await asyncio.gather(elsewhere, creating)
        assert store.locks == [["s"], ["s", "t"]]

    run(scene)


def test_a_refusal_is_told_when_that_is_durable_which_it_rests_on() -> None:
    def refused(_: Locked) -> None:
        raise InvalidNote(name="time", value=1, wanted="2")

    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        for error, told in ((None, InvalidNote), (OSError("no room"), StoreUnavailable)):
            taken, other = call(commits, live, 1), commits.call(live.subject, step=refused)
            await store.begun(len(store.writings) + 1)
            assert not other.done()
            await store.end(error)
            await asyncio.wait([taken, other])
            assert isinstance(other.exception(), told) and bool(taken.exception()) == bool(error)

    run(scene)


def test_a_bug_takes_with_it_what_it_may_have_changed_and_nothing_else() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        one, two, three = (store.stream(name) for name in ("one", "two", "three"))

        def fail(locked: Locked) -> None:
            locked.change(one)
            raise ZeroDivisionError

        def change(locked: Locked) -> None:
            locked.change(one)
            locked.change(two)

        both = commits.call(one.subject, two.subject, step=change)  # before the bug, and shares a stream with it
        alone, broken = call(commits, three, 1), commits.call(one.subject, step=fail)
        beside = call(commits, two, 1)
        await store.end()
        await asyncio.wait([both, alone, broken, beside])
        assert isinstance(broken.exception(), ZeroDivisionError) and alone.exception() is None
        for each in (both, beside):
            assert isinstance(each.exception(), StoreUnavailable)
        assert [each.discarded for each in (one, two, three)] == [True, True, False]
        assert [subject.name for commit in store.writings for subject in commit.versions] == ["three"]

    run(scene)


def test_what_a_caller_has_left_is_not_done() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        gone = call(commits, live, 1)
        gone.cancel()
        stays = call(commits, live, 2)
        await store.end()
        await stays
        assert [mark.time for mark in live.chains[""]] == [2]

    run(scene)


def test_who_waits_for_a_turn_and_leaves_takes_nobody_with_it() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        taken = call(commits, live, 1)
        await store.begun(1)
        waiting = [asyncio.create_task(commits.over(live.subject)) for _ in range(2)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await store.end()
        await asyncio.gather(taken, waiting[1])

    run(scene)


def test_single_calls_go_before_all_that_wait_in_portions() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live, order = store.stream("s"), list[str]()

        def take(name: str, locked: Locked) -> None:
            order.append(name)
            locked.change(live)

        def waits(name: str) -> asyncio.Future[None]:
            return commits.portion(live.subject, step=partial(take, name), work=FLUSH_NOTES_BESIDE)

        many = [waits(name) for name in "abcd"]
        single = commits.call(live.subject, step=partial(take, "single"))
        await store.begun(1)
        assert order == ["single", "a"]
        await store.end()
        await single
        await store.end()
        await asyncio.gather(*many[:3])
        assert order[2:] == ["b", "c"]
        await store.end()
        await many[3]

    run(scene)


def test_a_stream_of_a_restored_store_begins_anew_also_if_it_is_loaded_while_it_is_being_locked() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        subject = store.stream("s").subject
        del store.loaded["s"]  # it has left memory while its call waited
        store.locked.clear()
        epochs = commits.call(subject, step=lambda locked: locked.item(store, subject).stream.epochs)
        while not store.locks:
            await asyncio.sleep(0)
        loaded = store.stream("s")
        loaded.head = loaded.head._replace(restored_at=NOON)
        store.locked.set()
        await asyncio.wait_for(store.end(), 10)
        assert await epochs > NOON

    run(scene)


def test_what_is_other_than_it_is_locked_is_not_changed() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live, locked = store.stream("s"), Locked([])
        store.written_elsewhere[live.subject] = live.head._replace(version=live.head.version + 9)
        locked.found = Found(store.written_elsewhere)
        with pytest.raises(Cold):
            locked.item(store, live.subject)
        with pytest.raises(Cold):
            await commits.call(live.subject, step=lambda locked: locked.item(store, live.subject))
        assert live.discarded  # it could not take in what others have written

    run(scene)


def test_what_is_locked_is_as_new_as_when_its_lock_was_asked_for() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        store.written_elsewhere[live.subject] = live.head._replace()  # read anew, and the same
        store.locked.clear()
        done = commits.call(live.subject, step=lambda _: None)
        while not store.locks:
            await asyncio.sleep(0)
        asked = asyncio.get_running_loop().time()
        store.locked.set()
        await done
        assert 0 < live.compared_at <= asked

    run(scene)


def test_what_a_commit_is_about_is_looked_at_once_it_is_over() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        done = call(commits, live, 1)
        await store.begun(1)
        comparing = asyncio.create_task(Freshness(cast("Store", store), commits).compare([live.subject]))
        for _ in range(9):
            await asyncio.sleep(0)
        assert not store.looks
        await store.end()
        await asyncio.gather(done, comparing)
        (looked_at,) = store.looks
        assert 0 < live.compared_at <= looked_at

    run(scene)


def test_what_a_commit_failed_about_during_a_look_is_looked_at_again() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        store.reads.clear()
        store.locked.clear()
        comparing = asyncio.create_task(Freshness(cast("Store", store), commits).compare([live.subject]))
        while not store.looks:
            await asyncio.sleep(0)
        failing = commits.call(live.subject, step=lambda _: None)
        while not store.locks:
            await asyncio.sleep(0)
        store.reads.set()
        for _ in range(9):
            await asyncio.sleep(0)
        store.fails = OSError("away")
        store.locked.set()
        await asyncio.wait([failing, comparing])
        assert isinstance(failing.exception(), StoreUnavailable) and comparing.exception() is None
        _, looked_at = store.looks
        assert 0 < live.compared_at <= looked_at

    run(scene)


def test_at_the_end_everything_that_waits_is_committed() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        under_way = call(commits, live, 1)
        settled = asyncio.create_task(commits.settled())
        await store.begun(1)
        assert not settled.done()
        waiting = call(commits, live, 2)
        stopping = asyncio.create_task(commits.stop(60))
        for _ in range(2):
            await store.end()
        await asyncio.gather(under_way, waiting)
        await asyncio.gather(settled, stopping)
        assert [mark.time for mark in live.chains[""]] == [1, 2]

    run(scene)


def test_what_is_durable_and_not_published_is_loaded_again() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        live = store.stream("s")
        done = call(commits, live, 1)
        await store.end()
        await done
        assert live.discarded

    with mock.patch.object(LoadedStream, "_publish", side_effect=ZeroDivisionError):
        run(scene)


def test_a_commit_is_either_ordered_or_withdrawn() -> None:
    given, withdrawn = CommitOrder(1.0), CommitOrder(1.0)
    given.give()
    assert not given.withdraw()
    assert withdrawn.withdraw()
    with pytest.raises(StoreSilent):
        withdrawn.give()


def test_what_nobody_waits_for_any_more_is_not_applied(tmp_path: Path) -> None:
    async def scene() -> None:
        free, applied, subject = threading.Event(), list[Found](), Subject(Kind.STREAM, "s")
        with open_database(f"sqlite:///{tmp_path / 'store.db'}") as database:
            store = Store(database)
            busy = asyncio.create_task(store.write(lambda _: free.wait()))
            waiting = asyncio.create_task(store.transact([subject], {}, [subject], applied.append))
            for _ in range(3):
                await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
            free.set()
            await busy
            await store.write(lambda _: None)  # which its thread does afterwards
        assert not applied

    asyncio.run(scene())


def test_nothing_is_applied_once_the_caller_was_told_that_it_failed() -> None:
    async def scene(store: HeldStore, commits: CommitLoop) -> None:
        order, applied = CommitOrder(1.0), list[Found]()
        assert order.withdraw()
        with pytest.raises(StoreSilent):
            await asyncio.to_thread(_in_loop, asyncio.get_running_loop(), applied.append, order, lambda: Found({}))
        assert not applied

    run(scene)


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

    def failing(_: object) -> asyncio.Future[None]:
        """A commit that is under way, and fails."""
        commit: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(commit.set_exception, StoreUnavailable(reason="away"))
        return commit

    commits = SimpleNamespace(under_way=failing, loaded=lambda _: cached)
    with pytest.raises(StoreUnavailable, match="away"):
        await Freshness(cast("Store", SilentStore()), cast("CommitLoop", commits)).compare([subject])


def test_a_look_at_the_store_that_only_met_commits_that_failed_has_failed() -> None:
    asyncio.run(_compared_while_commits_fail())


async def _stopped_while_two_wait() -> None:
    one, other = Subject(Kind.STREAM, "one"), Subject(Kind.STREAM, "other")
    store = SilentStore()
    cached = SimpleNamespace(known=Known(cast("Any", None), {}))
    commits = SimpleNamespace(under_way=lambda _: None, loaded=lambda _: cached)
    freshness = Freshness(cast("Store", store), cast("CommitLoop", commits))
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
