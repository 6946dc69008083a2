"""Bugs that are planted in real controllers that serve together: each leaves out a rule of the cluster.

Many need an unlucky moment. Then the mutant makes the moment longer, which breaks no rule by itself, and names the
faults that strike in it. Rows that one owner writes over another's are refused by the store's keys as well; where the
rule is the first fence, the mutant takes away this second one.

Five rules are left out in the simulation (`tests/cluster`) alone: their moments are too rare for real processes.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from sqlalchemy import Connection, func, select

from controller.cluster.actions import CallRoute, Hold, Refusal, Refuse, Serve
from controller.cluster.lease import Lease
from controller.cluster.member import Member, MemberPhase
from controller.commit.store import Store
from controller.groups.loaded_group import LoadedGroup
from controller.groups.service import Groups
from controller.joint.shard_tenures import ShardTenures
from controller.joint.store_time import StoreTime
from controller.storage import cluster, database, save
from controller.storage.cluster import ControllerEnded, ShardsLost
from controller.storage.postgresql import STORE_NOW
from controller.storage.rewind import NEVER
from controller.streams.loaded_stream import LoadedStream
from controller.streams.registry import Streams
from tests.chaos.mutants import Mutant, patch, show_marks_before_they_are_durable

LEASE_MS: Final = 3_000


# -- unlucky moments -------------------------------------------------------------------------------------------------


def take_the_second_fence_away() -> None:
    """What is written twice is written over."""
    patch(save, "_ADDING", lambda _: save._PUTTING)


def wait_before_the_check(most_s: float, chance: float) -> None:
    """Some commits wait in their thread before they are sent: a process may be stopped there."""

    def make(commit: Any) -> Any:
        def slow(*given: Any) -> None:
            if random.random() < chance:
                time.sleep(random.random() * most_s)
            commit(*given)

        return slow

    patch(save, "_write", make)


def wait_in_the_store(seconds: float, chance: float) -> None:
    """The store takes so long for some commits, whether or not the controller is there."""

    def make(write_rows: Any) -> Any:
        def slow(connection: Connection, commit: Any) -> None:
            if random.random() < chance:
                connection.execute(select(func.pg_sleep(seconds)))
            write_rows(connection, commit)

        return slow

    patch(save, "_write_rows", make)


def wait_after_a_commit(seconds: float) -> None:
    def make(commit: Any) -> Any:
        def slow(self: Store, given: Any, order: Any) -> None:
            commit(self, given, order)
            if given.serving.release is not None:
                time.sleep(seconds)

        return slow

    patch(Store, "_commit", make)


# -- who may write ---------------------------------------------------------------------------------------------------


def write_without_a_check() -> None:
    """Neither that this controller has not ended is checked, nor that the shards are its own."""

    def make(check_commit: Any) -> Any:
        def broken(connection: Connection, request: Any) -> None:
            with suppress(ControllerEnded, ShardsLost):
                check_commit(connection, request)

        return broken

    patch(cluster, "check_commit", make)
    take_the_second_fence_away()
    wait_before_the_check(0.3, 0.5)


def end_without_waiting_for_a_commit() -> None:
    patch(cluster, "_LOCK", lambda _: select(cluster._controller.id).where(cluster._ME))
    take_the_second_fence_away()
    wait_in_the_store(9.0, 0.01)


def keep_what_was_not_stored() -> None:
    patch(LoadedStream, "discard", lambda _: lambda self: None)
    patch(LoadedGroup, "discard", lambda _: lambda self: None)


# -- leases ----------------------------------------------------------------------------------------------------------


def answer_without_a_lease() -> None:
    patch(Lease, "runs", lambda _: lambda self, monotonic: True)


def go_on_after_a_lapse() -> None:
    """Without a lease nothing is answered, but a beat that gets through brings it back, with all that is in memory."""

    def serves(_: Any) -> Any:
        return lambda self, monotonic: self.phase is MemberPhase.SERVING

    def moments(real: Any) -> Any:
        def without_lapse(self: Member) -> Iterator[int]:
            yield from islice(real(self), 1, None)
            yield self._lease.until + NEVER

        return without_lapse

    def refuse(route: Any) -> Any:
        def broken(self: Member, monotonic: int, shard: int, **named: Any) -> CallRoute:
            if self.phase is MemberPhase.SERVING and not self._lease.runs(monotonic):
                return Refuse(Refusal.NOT_SERVING)
            return route(self, monotonic, shard, **named)  # type: ignore[no-any-return]  # `patch` knows no types

        return broken

    patch(Member, "may_serve", serves)
    patch(Member, "_moments", moments)
    patch(Member, "route", refuse)


# -- handing over ----------------------------------------------------------------------------------------------------


def answer_while_handing_over() -> None:
    def make(route: Any) -> Any:
        def broken(self: Member, monotonic: int, shard: int, **named: Any) -> CallRoute:
            found, tenure = route(self, monotonic, shard, **named), self.owned.get(shard)
            return Serve(tenure.fence) if isinstance(found, Hold) and tenure is not None else found

        return broken

    patch(Member, "route", make)
    patch(ShardTenures, "serves", lambda _: lambda self, tenure: not tenure.over and self._has_lease())
    wait_after_a_commit(0.5)


def keep_memory_of_an_earlier_tenure() -> None:
    """What was loaded before a shard went to another controller is there again when it comes back."""

    def forget(_: Any) -> Any:
        return lambda self, tenures: None

    patch(Streams, "forget", forget)
    patch(Groups, "forget", forget)
    setattr(LoadedStream, "discarded", property(lambda self: self._discarded))  # noqa: B010  # it has no setter


# -- time ------------------------------------------------------------------------------------------------------------


def take_time_from_the_host() -> None:
    patch(StoreTime, "now", lambda _: lambda self: self._host.wall())


def begin_at_the_stores_clock() -> None:
    """Not at or above what the former owner may have shown."""
    floor = func.greatest(STORE_NOW, cluster._NOW_BY_CALLER)
    patch(cluster, "_TAKE", lambda take: take.values(clock_floor=floor))


def count_the_time_between_two_owners_as_silence() -> None:
    patch(cluster, "_TAKE", lambda take: take.values(unserved_ms=cluster._shard.unserved_ms))


def say_that_callers_are_heard_to_the_end_of_the_lease() -> None:
    told = func.greatest(cluster._controller.served_until, cluster._UNTIL) + LEASE_MS
    patch(cluster, "_EXTEND", lambda extend: extend.values(served_until=told))


# -- standing still --------------------------------------------------------------------------------------------------


def keep_a_transaction_open_for_ever() -> None:
    """A controller that is stopped between the check of a commit and its rows keeps the others from its shards."""

    def make(joint_engine: Any) -> Any:
        def broken(url: Any, timeline: Any, *, leading: bool = False, idle_ms: int = 0) -> Any:
            return joint_engine(url, timeline, leading=leading, idle_ms=idle_ms)

        return broken

    def wait(write_rows: Any) -> Any:
        def slow(connection: Connection, commit: Any) -> None:
            time.sleep(0.3)
            write_rows(connection, commit)

        return slow

    patch(database, "joint_engine", make)
    patch(save, "_write_rows", wait)


LOST: Final = ("durable_notes", "marks_agree", "pages", "windows", "refusals", "group_positions", "epochs", "floors")
BACK: Final = ("pages", "windows", "windows_never_back", "clock", "durable_notes", "marks_agree")
# By name: what plants it, the rules that tell, how many controllers, and the faults that it needs.
JOINT_MUTANTS: Final[Mapping[str, Mutant]] = {
    plant.__name__: Mutant(plant, rules, controllers, tuple(kinds.split()))
    for plant, rules, controllers, kinds in (
        (write_without_a_check, LOST, 2, "pause_owner"),
        (end_without_waiting_for_a_commit, LOST, 2, "pause_owner"),
        (keep_what_was_not_stored, ("answers", *LOST), 2, "cut_store end_sessions"),
        (show_marks_before_they_are_durable, BACK, 2, "kill_owner"),
        (answer_without_a_lease, ("excluded", *BACK), 2, "pause_owner"),
        (go_on_after_a_lapse, ("excluded", *BACK), 2, "pause_owner"),
        (answer_while_handing_over, BACK, 2, "drain_owner"),
        (keep_memory_of_an_earlier_tenure, ("progress",), 2, "pause_owner"),
        (take_time_from_the_host, ("clock", "marks_agree"), 2, "step_host_clock"),
        (begin_at_the_stores_clock, ("clock", "marks_agree"), 2, "set_store_clock_back kill_owner"),
        (count_the_time_between_two_owners_as_silence, ("excluded", "group_refusals"), 2, "kill_owner"),
        (say_that_callers_are_heard_to_the_end_of_the_lease, ("excluded", "group_refusals"), 2, "kill_owner"),
        (keep_a_transaction_open_for_ever, ("progress",), 3, "take_over"),
    )
}
