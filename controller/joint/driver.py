"""Obeys a member of the cluster: sends its requests to the store, tells it the answers, and serves its shards.

    event loop   step ── due ──► beat ──────────► lane of the beats ──┐
                   ▲             end, take, … ──► lane of the rest ───┤
                   └───────────────── answers ◄───────────────────────┘

The beats have a session of their own, and go out from the event loop. So slow commits end no lease, and an event loop
that is stuck loses its own, instead of keeping its shards from the others. A drain goes in parts, so that each stream
waits only until those of its part are loaded elsewhere.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, TypeVar, assert_never

from controller.cluster.actions import Action, Drop, HandOver, Stop
from controller.cluster.lease import TRUSTED_LEASE_MS
from controller.cluster.member import Member
from controller.cluster.records import Adopt, Beat, Begin, ControllerRow, End, Leave, NameTaken, Take
from controller.commit.health import STORE_LOG_MS
from controller.commit.store_threads import Lane
from controller.joint.shard_record import ShardRecord
from controller.joint.shard_tenures import ShardTenures
from controller.limits import DEFAULT_LIMITS, Limits
from controller.records.operator_log import log_event
from controller.records.rate_limit import RateLimit
from controller.storage import cluster
from controller.storage.cluster import BeginAnswer
from controller.storage.database import JointSessions
from controller.storage.diagnosis import diagnose
from controller.storage.tenure import Tenure
from controller.storage.worker import in_thread

Answer = TypeVar("Answer")
Request = TypeVar("Request", End, Take, Adopt, Leave)


class Memory(Protocol):
    """What was loaded under tenures: streams, or groups."""

    def hand_over(self, tenures: Collection[Tenure]) -> None:
        """Adds to the next commit what may otherwise be written later, and wakes everyone who waits for something."""

    def forget(self, tenures: Collection[Tenure]) -> None:
        """Discards everything under tenures that are about to end."""


class Driver:
    """Serves the shards of one member."""

    def __init__(
        self,
        member: Member,
        sessions: JointSessions,
        monotonic: Callable[[], int],
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        """`monotonic` returns milliseconds."""
        self.member = member
        self.tenures = ShardTenures(member.identity.name, lambda: member.may_serve(monotonic()))
        self.stopped: asyncio.Future[ControllerRow | None] = asyncio.get_running_loop().create_future()
        self.record = ShardRecord(member, self.tenures, monotonic, self.step, self.changed)
        self._memories: Sequence[Memory] = ()
        self._commit_soon: Callable[[], object] = lambda: None
        self._taken: Callable[[], object] = lambda: None
        self._monotonic = monotonic
        self._sessions = sessions
        self._limits = limits
        self._beats = Lane("store-beats", sessions.beats, limits.cut_grace_s)
        self._requests = Lane("store-requests", sessions.requests, limits.cut_grace_s)
        self._pace = RateLimit(1, STORE_LOG_MS)
        self._timer: asyncio.TimerHandle | None = None
        self._learning = False
        self._left_timeline = False
        self._news = asyncio.Event()
        self._closed = False

    # -- from outside --------------------------------------------------------------------------------------------

    async def begin(
        self,
        memories: Sequence[Memory],
        commit_soon: Callable[[], object],
        taken: Callable[[], object] = lambda: None,
    ) -> None:
        """Begins to serve what is loaded into these memories; returns once this controller has a lease, or has been
        stopped. `commit_soon` wants a commit, whether or not anything has changed. `taken` is called when tenures have
        begun."""
        self._memories, self._commit_soon, self._taken = memories, commit_soon, taken
        self._sessions.timeline.when_left = partial(_in_loop, asyncio.get_running_loop(), self._leave_timeline)
        self.step()
        while not self.member.may_serve(self._monotonic()) and not self.stopped.done():
            await self.changed()

    def drain(self) -> None:
        """Begins to hand everything over; `stopped` is done when that has happened."""
        self.member.drain(self._monotonic())
        self.step()

    async def changed(self) -> None:
        """Returns after the next event."""
        await self._news.wait()

    async def close(self, seconds: float) -> bool:
        """Asks nothing any more, and ends the sessions; returns whether all calls have ended."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        closing = asyncio.wrap_future(in_thread("joint-end", partial(self._close, seconds)))
        await asyncio.wait([closing], timeout=seconds + self._limits.cut_grace_s)
        return closing.done() and closing.exception() is None and closing.result()

    def _close(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        ended = [lane.close(max(0.0, until - time.monotonic())) for lane in (self._beats, self._requests)]
        if all(ended):
            self._sessions.close()
        return all(ended)

    # -- steps ---------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """Does what is due. Called after every event."""
        if self._closed:
            return
        for action in self.member.due(self._monotonic()):
            self._do(action)
        self._learn()
        self._arm()
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.member.next_due()
        if due is not None:
            wait_ms = max(1, due - self._monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self.step)

    def _do(self, action: Action) -> None:
        member, beats, requests = self.member, self._sessions.beat_connection, self._sessions.request_connection
        match action:
            case Begin() as begin:
                renew, self._left_timeline = self._left_timeline, False
                self._ask(
                    self._beats,
                    self._limits.commit_s,
                    partial(_begin, self._sessions, begin, renew=renew),
                    lambda now, answer: self._begun(now, begin, answer),
                    lambda now: member.begin_failed(now, begin),
                )
            case Beat() as beat:
                self._ask(
                    self._beats,
                    TRUSTED_LEASE_MS / 1000,
                    partial(cluster.beat, beats, beat),
                    lambda now, answer: member.beat_answered(now, beat, answer),
                    lambda now: member.beat_failed(now, beat),
                )
            case End() as end:
                self._request(end, partial(cluster.end, requests, end), member.ended)
            case Take() as take:
                self._request(take, partial(cluster.take, requests, take), member.taken)
            case Adopt() as adopt:
                self._request(adopt, partial(cluster.adopt, requests, adopt), member.adopted)
            case Leave() as leave:
                left = partial(cluster.leave, requests, leave)
                self._request(leave, left, lambda now, asked, _: member.left(now, asked))
            case HandOver(shards):
                closing = self.tenures.close(shards)
                for memory in self._memories:
                    memory.hand_over(closing)
                self._commit_soon()
            case Drop(shards):
                ending = self.tenures.under(shards)
                for memory in self._memories:
                    memory.forget(ending)
                self.tenures.end(shards)
            case Stop(replaced_by):
                if not self.stopped.done():  # whoever waited may have given up
                    self.stopped.set_result(replaced_by)
            case _:
                assert_never(action)

    def _leave_timeline(self) -> None:
        """The store failed over, and may lack what is in memory."""
        self._left_timeline = True
        self.member.start_over()
        self.step()

    def _begun(self, now: int, begin: Begin, answer: BeginAnswer | NameTaken) -> None:
        if isinstance(answer, NameTaken):
            self.member.begun(now, begin, answer)
            return
        if answer.ended and begin.previous is None:
            log_event("former_ended", logging.WARNING, name=begin.identity.name)
        if answer.answer.shards is not None:
            self.tenures.shards = len(answer.answer.shards)
        self.member.begun(now, begin, answer.answer)

    def _learn(self) -> None:
        """Begins the tenures of shards that are owned since the last step."""
        new = [owned for owned in self.member.owned.all() if not owned.closing and not self.tenures.has(owned)]
        if not new or self._learning:
            return
        self._learning = True

        def begin_new(monotonic: int, found: Mapping[int, Sequence[tuple[int, int]]]) -> None:
            self._learning = False
            now = self.member.clock.now(monotonic)
            for owned in new:
                if self.member.owned.get(owned.shard) is owned and not owned.closing:
                    self.tenures.begin(owned, found[owned.shard], now)
            self._taken()

        def failed() -> None:
            self._learning = False

        read = partial(cluster.restores, self._sessions.request_connection, [owned.shard for owned in new])
        self._ask(self._requests, self._limits.commit_s, read, begin_new, lambda _: failed())

    def _request(
        self, request: Request, call: Callable[[], Answer], answered: Callable[[int, Request, Answer], None]
    ) -> None:
        self._ask(
            self._requests,
            self._limits.commit_s,
            call,
            lambda now, answer: answered(now, request, answer),
            lambda now: self.member.request_failed(now, request),
        )

    def _ask(
        self,
        lane: Lane,
        seconds: float,
        call: Callable[[], Answer],
        answered: Callable[[int, Answer], None],
        failed: Callable[[int], None],
    ) -> None:
        """Calls the store in a thread. What is told then is followed by a step."""

        def finish(future: asyncio.Future[Answer]) -> None:
            now = self._monotonic()
            error = future.exception()
            if error is None:
                answered(now, future.result())
            else:
                self._log(error)
                failed(now)
            self.step()

        lane.call(seconds, call).add_done_callback(finish)

    def _log(self, error: BaseException) -> None:
        now = self._monotonic()
        found = diagnose(error)
        suppressed = self._pace.allow(now)
        if suppressed is not None:
            why = {"cause": str(found.cause), "reason": found.reason}
            log_event("joint_request_failed", logging.ERROR, error=error, **why, suppressed=suppressed)


def _begin(sessions: JointSessions, begin: Begin, *, renew: bool) -> BeginAnswer | NameTaken:
    if renew:
        sessions.renew()
    return cluster.begin(sessions.beat_connection, begin)


def _in_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], object]) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(call)
