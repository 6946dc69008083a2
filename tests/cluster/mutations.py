"""Every rule of the protocol, and how to leave it out: in the member, in the simulated store, or in their driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, repeat
from typing import Any
from weakref import WeakKeyDictionary

import pytest

from controller.cluster import cluster_view
from controller.cluster.actions import CallRoute, Hold, Refusal, Refuse, Serve
from controller.cluster.member import Member, MemberPhase
from controller.cluster.owned_shards import OwnedShards
from controller.cluster.records import LEASE_MS, Beat, BeatAnswer, Begin, Identity, NameTaken, Taken
from controller.cluster.silence import Hearing
from controller.cluster.store_clock import StoreClock
from controller.joint.shard_tenures import ShardTenures
from controller.storage.tenure import Tenure
from tests.cluster import store as store_module
from tests.cluster.process import Process
from tests.cluster.store import START, Data, Store
from tests.cluster.world import FAULTS, Plan

Patch = pytest.MonkeyPatch


FOR_EVER = 10**12
HAND_OVERS = Plan(("hand_over",), shards=1, controllers=2, every_ms=300, note_ms=150)
LATE_BEATS = Plan(("slow", "cut", "cut"), shards=2, controllers=2, every_ms=600, note_ms=200, latency_ms=(1, 10))
SUSPENDED = Plan(("suspend",), shards=2, controllers=2, every_ms=3_000, note_ms=250)
ALONE_AND_SUSPENDED = Plan(("suspend",), shards=2, controllers=1, every_ms=6_000, note_ms=250)
MUTED = Plan((*(each for each in FAULTS if each not in ("set_clock", "silence")), *["mute"] * 4), every_ms=1_200)
MUTED_HAND_OVERS = Plan(("mute", "mute", "hand_over", "slow", "refuse"), shards=2, every_ms=700)
FAIL_OVERS = Plan(("fail_over", "fail_over", "pause", "cut"), shards=2, note_ms=150)


# -- in the store -----------------------------------------------------------------------------------------------------


def commit_checks(patch: Patch) -> None:
    patch.setattr(Store, "may_write", lambda self, check: True)


def row_lock(patch: Patch) -> None:
    patch.setattr(Store, "is_locked", lambda self, controller: False)


def idle_ends(patch: Patch) -> None:
    patch.setattr(store_module, "IDLE_MS", FOR_EVER)


def same_beat(patch: Patch) -> None:
    patch.setattr(Store, "is_same_beat", lambda self, end: True)


def clock_floor(patch: Patch) -> None:
    patch.setattr(Store, "floor_of", lambda self, shard, former: self.now)


def new_incarnation(patch: Patch) -> None:
    """A controller begins anew with the row that it had, and with the bound and the shards of that row."""
    begin, init = Store.begin, Member.__init__

    def revive(self: Store, asked: Begin, ends: set[int]) -> BeatAnswer | NameTaken:
        if asked.id in self.rows:
            self.rows[asked.id] = replace(self.rows[asked.id], ended_at=None)
        return begin(self, asked, ends)

    def with_one_id(self: Member, identity: Identity, new_id: Callable[[], int]) -> None:
        init(self, identity, repeat(new_id()).__next__)

    patch.setattr(Store, "begin", revive)
    patch.setattr(Member, "__init__", with_one_id)


# -- in the member ----------------------------------------------------------------------------------------------------


def wait_lease(patch: Patch) -> None:
    patch.setattr(cluster_view, "LEASE_MS", 0)


def read_lease(patch: Patch) -> None:
    route = Member.route

    def broken(self: Member, monotonic: int, shard: int, **named: Any) -> CallRoute:
        return route(self, min(monotonic, self._lease.until - 1), shard, **named)

    patch.setattr(Member, "route", broken)


def fence_token(patch: Patch) -> None:
    """An owner believes that it is one, whatever fence the caller has seen."""
    route = Member.route

    def broken(self: Member, monotonic: int, shard: int, *, fence: int = 0, **named: Any) -> CallRoute:
        return route(self, monotonic, shard, **named)

    patch.setattr(Member, "route", broken)


def from_sending(patch: Patch) -> None:
    answered = Member.beat_answered

    def broken(self: Member, monotonic: int, beat: Beat, answer: BeatAnswer) -> None:
        if self._beat_sent is not None:
            self._beat_sent = monotonic
        answered(self, monotonic, beat, answer)

    patch.setattr(Member, "beat_answered", broken)


def lapse_anew(patch: Patch) -> None:
    """A member whose lease ran out answers nothing, but goes on when a beat gets through."""
    route, moments = Member.route, Member._moments

    def refuse(self: Member, monotonic: int, shard: int, **named: Any) -> CallRoute:
        if self.phase is MemberPhase.SERVING and not self._lease.runs(monotonic):
            return Refuse(Refusal.NOT_SERVING)
        return route(self, monotonic, shard, **named)

    def without_lapse(self: Member) -> Iterator[int]:
        yield from islice(moments(self), 1, None)
        yield FOR_EVER

    patch.setattr(Member, "may_serve", lambda self, monotonic: self.phase is MemberPhase.SERVING)
    patch.setattr(Member, "_moments", without_lapse)
    patch.setattr(Member, "route", refuse)


def leap_anew(patch: Patch) -> None:
    """A member goes on when the store's clock is far ahead of its own."""

    def broken(self: Member, store_now: int, monotonic: int) -> bool:
        self.clock.learn(store_now, monotonic)
        return True

    patch.setattr(Member, "_learn_time", broken)


def adopt_newer(patch: Patch) -> None:
    patch.setattr(OwnedShards, "adopt_newer", OwnedShards.take)


def drain_first(patch: Patch) -> None:
    route = Member.route

    def go_on(self: Member, monotonic: int, shard: int, **named: Any) -> CallRoute:
        found, tenure = route(self, monotonic, shard, **named), self.owned.get(shard)
        return Serve(tenure.fence) if isinstance(found, Hold) and tenure is not None else found

    patch.setattr(Member, "route", go_on)


def same_tenure(patch: Patch) -> None:
    def broken(self: ShardTenures, tenure: Tenure) -> bool:
        return self._has_lease() and tenure.shard in self._present

    patch.setattr(ShardTenures, "serves", broken)


def latest_tenure(patch: Patch) -> None:
    """What a later tenure wrote is loaded under an earlier one, whose controller slept."""
    patch.setattr(Tenure, "check_latest", lambda self, kind, name, fence: None)


def settle_first(patch: Patch) -> None:
    patch.setattr(Process, "may_read", lambda self: True)


def clock_clamp(patch: Patch) -> None:
    def broken(self: StoreClock, monotonic: int) -> int:
        self.shown = max(self.shown, self.estimate(monotonic))
        return self.shown

    patch.setattr(StoreClock, "now", broken)


def add_gap(patch: Patch) -> None:
    patch.setattr(Store, "gap", lambda self, floor, served: 0)


def served_is_commit(patch: Patch) -> None:
    """A shard counts as served to the end of its owner's lease."""
    patch.setattr(Hearing, "until", lambda self, now: now + LEASE_MS)


def failing_is_silence(patch: Patch) -> None:
    """Beats tell that callers can be heard between commits that fail."""
    end = Hearing.end

    def forget(self: Hearing, now: int, *, done: bool) -> None:
        end(self, now, done=done)
        self._since = None

    patch.setattr(Hearing, "end", forget)


# -- in what drives the member ----------------------------------------------------------------------------------------


def store_clock(patch: Patch) -> None:
    """Each controller takes the time from its own host."""
    ask = Process.ask

    def with_own_clock(self: Process, request: Any, answered: Callable[..., None], failed: Callable[..., None]) -> None:
        def learn(monotonic: int, request: Any, answer: Any) -> None:
            if isinstance(answer, BeatAnswer | Taken):
                answer = replace(answer, store_now=int(self.world.time) + START + self.skew)
            answered(monotonic, request, answer)

        ask(self, request, learn, failed)

    patch.setattr(Process, "ask", with_own_clock)


def timeline(patch: Patch) -> None:
    patch.setattr(Process, "start_over", lambda self: None)


def load_after_take(patch: Patch) -> None:
    """Streams are loaded before their shard is taken, and used afterwards."""
    tick, load = Process.tick, Process.load
    ahead: WeakKeyDictionary[Process, dict[int, Data]] = WeakKeyDictionary()

    def look_ahead(self: Process) -> None:
        tick(self)
        for shard, data in enumerate(self.world.store.data):
            if shard not in self.member.owned:
                ahead.setdefault(self, {}).setdefault(shard, data.copy())

    def use(self: Process, shard: int) -> None:
        tenure = self.tenure_of(shard)
        if tenure is not None and shard in ahead.get(self, {}):
            self.remember(shard, tenure, ahead[self].pop(shard))
        else:
            load(self, shard)

    patch.setattr(Process, "tick", look_ahead)
    patch.setattr(Process, "load", use)


def drop_on_release(patch: Patch) -> None:
    patch.setattr(Member, "_let_go", lambda self, shards: self.owned.release(shards))


def discard_failed(patch: Patch) -> None:
    patch.setattr(Process, "discard_failed", lambda self, session: None)


def durable_first(patch: Patch) -> None:
    patch.setattr(Process, "newest_shown", lambda self, memory: len(memory.data.marks))


# By rule: how it is left out, and the plan of histories in which that soon shows, with the seed to begin at.
RULES: dict[str, tuple[Callable[[Patch], None], Plan, int]] = {
    "commit_checks": (commit_checks, Plan(("pause", "slow", "hand_over"), note_ms=300), 4),
    "row_lock": (row_lock, Plan(), 5),
    "idle_ends": (idle_ends, Plan(), 1),
    "same_beat": (same_beat, Plan(("slow", "cut", "pause"), note_ms=250, shards=2), 25),
    "wait_lease": (wait_lease, Plan(), 0),
    "read_lease": (read_lease, Plan(("pause",), note_ms=250, shards=2, every_ms=3_000), 9),
    "fence_token": (fence_token, SUSPENDED, 0),
    "latest_tenure": (latest_tenure, SUSPENDED, 120004448),
    "new_incarnation": (new_incarnation, Plan(), 4),
    "lapse_anew": (lapse_anew, Plan(("outage", "cut", "silence"), controllers=2), 9),
    "leap_anew": (leap_anew, ALONE_AND_SUSPENDED, 3),
    "add_gap": (add_gap, Plan(), 1),
    "served_is_commit": (served_is_commit, Plan(("silence", "kill", "pause"), shards=2, every_ms=2_500), 5),
    "failing_is_silence": (failing_is_silence, Plan(("refuse", "kill"), shards=2, every_ms=2_500), 29),
    "store_clock": (store_clock, Plan(("kill", "silence"), shards=2), 1),
    "clock_floor": (clock_floor, Plan(), 3),
    "clock_clamp": (clock_clamp, Plan(), 9),
    "timeline": (timeline, FAIL_OVERS, 1),
    "load_after_take": (load_after_take, Plan(), 0),
    "drop_on_release": (drop_on_release, Plan(("hand_over",), shards=1, controllers=2, every_ms=300), 0),
    "drain_first": (drain_first, HAND_OVERS, 54),
    "settle_first": (settle_first, Plan(("lose", "hand_over"), shards=2, note_ms=300), 9),
    "discard_failed": (discard_failed, Plan(), 0),
    "durable_first": (durable_first, Plan(), 0),
}
# What chance finds too seldom has a directed history of its own, in test_mutations.py.
DIRECTED: dict[str, Callable[[Patch], None]] = {
    "same_tenure": same_tenure,
    "adopt_newer": adopt_newer,
    "from_sending": from_sending,
}
