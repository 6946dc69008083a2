"""Group commit, with a store that commits when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from controller.clock import Clock
from controller.commit.group_commit import Committer, Durable
from controller.commit.serving import TermRecord
from controller.storage import schema
from controller.storage.rows import StreamOrigin
from controller.storage.save import Commit
from controller.streams.loaded_stream import RECENT_MARKS, LoadedStream
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import Overloaded, StoreUnavailable
from strandline.testing import ManualClock
from tests.terms import FIRST, tenure_of


class HeldStore:
    """Takes what is to be written, and says that it is when it is told to."""

    def __init__(self) -> None:
        self.writings: list[Commit] = []
        self._ends: list[asyncio.Future[None]] = []

    def commit(self, commit: Commit) -> asyncio.Future[None]:
        self.writings.append(commit)
        self._ends.append(asyncio.get_running_loop().create_future())
        return self._ends[-1]

    async def end(self, error: Exception | None = None) -> None:
        """Ends the oldest commit that has begun, once there is one."""
        while not self._ends:
            await asyncio.sleep(0)
        end = self._ends.pop(0)
        if error is None:
            end.set_result(None)
        else:
            end.set_exception(error)


def stream(name: str) -> LoadedStream:
    made = Stream(name, StreamConfig(mark_interval_ms=0, max_ahead_ms=None), SegmentGraph.equal_shares(1, 0), now=0)
    return LoadedStream(made, StreamOrigin("1", 0, None), tenure_of(FIRST), stored_fence=None, watch=lambda _: None)


def note(live: LoadedStream, time: int) -> None:
    live.stream.note(Note(writer="w", times={"": time}, position={"0": time}), time)


def run(scene: Callable[[HeldStore, Committer], object], **limits: Any) -> None:
    async def play() -> None:
        store = HeldStore()
        committer = Committer(store.commit, TermRecord(FIRST, Clock(ManualClock(0))), **limits)
        committer.start()
        await scene(store, committer)  # type: ignore[misc]  # every scene is a coroutine function

    asyncio.run(play())


async def call(done: Durable) -> None:
    """What a caller does until it is answered."""
    await done


def test_calls_that_come_during_a_commit_go_together_in_the_next() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live = stream("s")
        note(live, 1)
        first = committer.join(live)
        while not store.writings:
            await asyncio.sleep(0)
        for time in (2, 3, 4):
            note(live, time)
        rest = {committer.join(live) for _ in range(3)}
        assert len(rest) == 1 and not first.done()

        await store.end()
        await first
        assert [mark.time for mark in live.chains[""]] == [1]
        await store.end()
        await rest.pop()

        assert [mark.time for mark in live.chains[""]] == [1, 2, 3, 4]
        assert [len(commit.added.get(schema.mark, [])) for commit in store.writings] == [1, 3]
        assert [len(commit.added[schema.writer_change]) for commit in store.writings] == [1, 1]

    run(scene)


def test_no_mark_is_shown_before_its_commit_has_ended() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live = stream("s")
        note(live, 1)
        done, heard = committer.join(live), live.next_mark("")
        while not store.writings:
            await asyncio.sleep(0)
        assert live.chains == {} and not heard.done()
        await store.end()
        await done
        assert heard.done() and live.chains[""].last_seq == 1

    run(scene)


def test_a_waiter_hears_at_once_when_no_mark_will_come() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live = stream("s")
        heard = live.next_mark("")
        live.stream.register("w", None, 0)
        done = committer.join(live)
        await store.end()
        await done
        assert not heard.done()
        live.stream.seal({}, 0)
        done = committer.join(live)
        assert not live.sealed
        await store.end()
        await done
        assert heard.done() and live.sealed and live.chains == {}

    run(scene)


def test_a_call_has_its_turn_when_no_commit_is_under_way() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live, applied = stream("s"), list[int]()

        async def noted(time: int) -> None:
            await committer.turn()
            note(live, time)
            applied.append(time)
            await committer.join(live)

        calls = [asyncio.create_task(noted(1))]
        while not store.writings:
            await asyncio.sleep(0)
        calls += [asyncio.create_task(noted(time)) for time in (2, 3)]
        impatient = asyncio.create_task(noted(4))
        await asyncio.sleep(0)
        impatient.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert applied == [1] and not committer.is_turn and committer.waiting == 4
        await store.end()
        await store.end()
        await asyncio.gather(*calls)
        assert applied == [1, 2, 3] and impatient.cancelled() and committer.is_turn and committer.waiting == 0
        assert [len(commit.added.get(schema.mark, [])) for commit in store.writings] == [1, 2]

    run(scene)


@pytest.mark.parametrize("on_top", [False, True])
def test_a_failed_commit_fails_what_was_changed_on_top_of_it_and_no_call_that_waits(on_top: bool) -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        failed, other = stream("s"), stream("t")

        async def waits() -> None:
            await committer.turn()
            assert failed.discarded
            live = stream("t") if other.discarded else other  # as a call finds it
            note(live, 2)
            await committer.join(live)

        note(failed, 1)
        first = committer.join(failed)
        while not store.writings:
            await asyncio.sleep(0)
        waiting = asyncio.create_task(waits())
        note(other, 1)
        committer.keep(other)  # of a deadline, say
        if on_top:
            note(failed, 2)
            committer.keep(failed)

        await store.end(OSError("no room"))
        with pytest.raises(StoreUnavailable, match="OSError"):
            await first
        assert failed.chains == {} and other.discarded == on_top
        await store.end()
        await waiting
        assert on_top or [mark.time for mark in other.chains[""]] == [1, 2]

    run(scene)


def test_of_very_many_marks_the_newest_stay_in_memory() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live, count = stream("s"), 2 * RECENT_MARKS + 1
        for time in range(1, count + 1):
            note(live, time)
        done = committer.join(live)
        await store.end()
        await done
        assert (len(live.chains[""]), live.chains[""].last_seq) == (RECENT_MARKS, count)

    run(scene)


def test_a_change_that_cannot_be_shown_discards_later_ones() -> None:
    class Unshowable:
        discarded = False

        def write(self, commit: Commit) -> Callable[[], None]:
            return self._show

        def _show(self) -> None:
            raise RuntimeError("a fault of ours")

        def discard(self) -> None:
            self.discarded = True

    async def scene(store: HeldStore, committer: Committer) -> None:
        kept, other = Unshowable(), stream("s")
        first = committer.join(kept)
        while not store.writings:
            await asyncio.sleep(0)
        on_top = committer.join(kept)
        await store.end()
        await first  # it is durable, if not to be seen before it is loaded again
        with pytest.raises(StoreUnavailable, match="RuntimeError"):
            await on_top
        assert kept.discarded
        note(other, 1)
        last = committer.join(other)
        await store.end()
        await last

    run(scene)


def test_a_caller_that_goes_away_takes_nobody_with_it() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live = stream("s")
        note(live, 1)

        impatient, patient = (asyncio.create_task(call(committer.join(live))) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        await store.end()
        await patient
        assert impatient.cancelled()

    run(scene)


def test_when_the_committer_ends_nobody_goes_on_waiting() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        ending = asyncio.create_task(committer.stop(5))
        while not store.writings:
            await asyncio.sleep(0)
        live = stream("s")
        note(live, 1)
        waiting = asyncio.create_task(call(committer.join(live)))
        await store.end()
        await ending
        with pytest.raises((StoreUnavailable, asyncio.CancelledError)):
            await waiting
        with pytest.raises(StoreUnavailable, match="the controller has stopped"):
            await committer.join(live)

    run(scene)


def test_beyond_the_bound_calls_are_turned_away_until_there_is_room() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        live = stream("s")
        note(live, 1)
        committer.admit()
        first = committer.join(live)
        while not store.writings:
            await asyncio.sleep(0)
        committer.admit()
        second = committer.join(live)
        with pytest.raises(Overloaded, match="2 calls are waiting"):
            committer.admit()

        await store.end()
        await first
        await store.end()
        await second
        third = committer.join(live)
        committer.admit()
        await store.end()
        await third

    run(scene, waiting_calls=2)


def test_more_than_the_bound_in_one_request_is_taken_when_nobody_waits() -> None:
    async def scene(store: HeldStore, committer: Committer) -> None:
        committer.admit(100)

    run(scene, waiting_calls=2)
