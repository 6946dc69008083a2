"""Shards, leases, the store's clock, silence, membership and tenures, each alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cluster.cluster_view import ENDED_CONTROLLERS, LATE_BEAT_MS, QUIET_MEMBERSHIP_MS, ClusterView
from controller.cluster.lease import TRUSTED_LEASE_MS, Lease
from controller.cluster.owned_shards import OwnedShards
from controller.cluster.records import LEASE_MS, SHARDS, BeatAnswer, ControllerRow, Kind, ShardRow
from controller.cluster.shards import fair_share, shard_of, shards_to_hand_over, shards_to_take
from controller.cluster.silence import Hearing
from controller.cluster.store_clock import STORE_CLOCK_MS, StoreClock
from strandline.core.served_time import COMMIT_HANGS_MS

shard_counts = st.integers(64, 4_096)


def controller(id: int, beat: int = 1, *, draining: bool = False, ended_at: int | None = None) -> ControllerRow:
    return ControllerRow(id, f"c{id}", f"c{id}:1", None, "1", beat, 0, 0, draining, ended_at)


def shard(id: int, owner: int | None, fence: int = 1) -> ShardRow:
    return ShardRow(id, owner, fence, 0, 0, 0)


def told(*controllers: ControllerRow, shards: tuple[ShardRow, ...] | None = (), version: int = 1) -> BeatAnswer:
    return BeatAnswer(1_000, controllers, shards, version)


# -- shards -----------------------------------------------------------------------------------------------------------


def test_the_shard_of_a_name_never_changes() -> None:
    assert [shard_of(Kind.STREAM, "orders", 256), shard_of(Kind.GROUP, "orders", 256)] == [240, 21]


@given(st.text(), shard_counts)
def test_every_name_has_a_shard(name: str, shards: int) -> None:
    assert all(0 <= shard_of(kind, name, shards) < shards for kind in Kind)


def test_names_are_spread_over_the_shards() -> None:
    counts = Counter(shard_of(Kind.STREAM, f"stream-{number}", 64) for number in range(6_400))
    assert len(counts) == 64
    assert max(counts.values()) < 200


@given(st.data(), shard_counts, st.integers(1, 8))
def test_taking_and_handing_over_ends_with_fair_shares(data: st.DataObject, shards: int, controllers: int) -> None:
    owners = data.draw(st.lists(st.integers(-1, controllers - 1), min_size=shards, max_size=shards))
    share = fair_share(shards, controllers)
    for _ in range(shards):
        before = list(owners)
        for each in range(controllers):
            free = [place for place, owner in enumerate(owners) if owner == -1]
            for place in shards_to_take(free, owners.count(each), share, each, controllers):
                owners[place] = each
        for each in range(controllers):
            owned = [place for place, owner in enumerate(owners) if owner == each]
            for place in shards_to_hand_over(owned, share, SHARDS):
                owners[place] = -1
        if owners == before:
            break
    assert -1 not in owners
    assert max(Counter(owners).values()) <= share


def test_controllers_that_look_at_once_ask_for_different_shards() -> None:
    free = range(12)
    asked = [shards_to_take(free, 0, 4, place, 3) for place in range(3)]
    assert asked == [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)]


def test_no_more_shards_are_handed_over_than_at_once_may_be() -> None:
    assert shards_to_hand_over([5, 1, 4, 2, 3], 2, 2) == (3, 4)
    assert shards_to_hand_over([1, 2], 2, 16) == ()


# -- lease and clock --------------------------------------------------------------------------------------------------


def test_a_lease_runs_from_the_sending_of_the_beat() -> None:
    lease = Lease.begun(100)
    lease.extend(1_100)
    assert lease.runs(1_100 + TRUSTED_LEASE_MS - 1)
    assert not lease.runs(1_100 + TRUSTED_LEASE_MS)


def test_an_answer_that_comes_late_does_not_shorten_a_lease() -> None:
    lease = Lease.begun(1_000)
    lease.extend(500)
    assert lease.until == 1_000 + TRUSTED_LEASE_MS


@given(st.floats(0.975, 1.025), st.floats(0.975, 1.025), st.integers(0, LEASE_MS))
def test_a_lease_is_over_before_anybody_may_end_its_holder(own: float, other: float, way_ms: int) -> None:
    held_for = TRUSTED_LEASE_MS / own  # in real time, from the sending
    ended_after = way_ms + LEASE_MS / other  # from the sending, too: seen after the way to the store
    assert held_for <= ended_after + 1


def test_the_clock_is_the_greatest_bound_that_the_store_gave() -> None:
    clock = StoreClock()
    clock.grant(100_000)
    clock.learn(5_000, 100)
    clock.learn(5_010, 200)  # its answer took longer
    assert clock.now(300) == 5_200


def test_a_bound_is_forgotten_after_a_minute() -> None:
    clock = StoreClock()
    clock.grant(10**9)
    clock.learn(50_000, 0)
    clock.learn(20_000, 10)  # the store's clock was set back
    clock.learn(20_000 + STORE_CLOCK_MS, 10 + STORE_CLOCK_MS)
    assert clock.estimate(10 + STORE_CLOCK_MS) == 20_000 + STORE_CLOCK_MS


@given(st.lists(st.tuples(st.integers(1, 2_000), st.integers(-50_000, 50_000), st.integers(0, 3_000)), min_size=1))
def test_the_clock_never_goes_back_and_never_reaches_its_bound(looks: list[tuple[int, int, int]]) -> None:
    clock, monotonic, store = StoreClock(), 0, 1_000_000
    clock.learn(store, monotonic)
    clock.grant(store + LEASE_MS)
    shown = [clock.now(monotonic)]
    for passed, step, way in looks:
        monotonic, store = monotonic + passed, store + passed + step
        clock.learn(store - way, monotonic)
        clock.grant(store - way + LEASE_MS)
        shown.append(clock.now(monotonic))
    assert shown == sorted(shown)
    assert shown[-1] < clock.bound


@given(st.lists(st.tuples(st.integers(1, 2_000), st.integers(0, 3_000)), min_size=1))
def test_the_clock_is_never_ahead_of_the_stores(looks: list[tuple[int, int]]) -> None:
    clock, monotonic, store = StoreClock(), 0, 1_000_000
    clock.grant(10**12)
    for passed, way in looks:
        monotonic, store = monotonic + passed, store + passed
        clock.learn(store - way, monotonic)
        assert clock.now(monotonic) <= store


# -- silence ----------------------------------------------------------------------------------------------------------


def test_callers_are_heard_until_the_commit_under_way_began() -> None:
    hearing = Hearing()
    assert hearing.until(100) == 100
    assert hearing.begin(300) == 300
    assert hearing.until(200) == 200 and hearing.until(500) == 300
    hearing.end(600, done=True)
    assert hearing.until(700) == 700


def test_commits_that_fail_hold_back_what_beats_tell_until_one_has_written_it() -> None:
    hearing = Hearing()
    assert hearing.begin(300) == 300
    hearing.end(400, done=False)
    assert hearing.until(500) == 300
    assert hearing.begin(600) == 300  # a release with this commit is one of callers that were heard until 300
    hearing.end(700, done=True)
    assert hearing.until(800) == 300  # how long it was is not in the store yet
    assert hearing.begin(900) == 900
    hearing.end(1_000, done=True)
    assert hearing.until(1_100) == 1_100


def test_a_commit_that_hung_holds_back_what_beats_tell_until_the_next() -> None:
    hearing = Hearing()
    hearing.begin(300)
    hearing.end(300 + COMMIT_HANGS_MS, done=True)
    assert hearing.until(5_000) == 300
    assert hearing.begin(6_000) == 6_000
    hearing.end(6_001, done=True)
    assert hearing.until(7_000) == 7_000


@pytest.mark.parametrize(("failed", "told"), [(True, 9_000), (False, 9_500)])
def test_a_commit_that_failed_holds_back_what_the_beats_of_the_next_lease_tell(failed: bool, told: int) -> None:
    hearing = Hearing()
    hearing.begin(300)
    hearing.end(400, done=not failed)
    again = hearing.of_new_lease(9_000)
    assert again.until(9_500) == told
    assert again.begin(9_600) == (9_000 if failed else 9_600)


# -- membership -------------------------------------------------------------------------------------------------------


def test_a_controller_is_silent_after_a_lease_without_a_beat() -> None:
    members = ClusterView(1, told(controller(1), controller(2, beat=7)), 1_000)
    members.learn(told(controller(1, 2), controller(2, beat=7)), 2_000)
    assert members.next_silent_at() == 1_000 + LEASE_MS
    assert members.silent(1_000 + LEASE_MS - 1) == []
    assert members.silent(1_000 + LEASE_MS) == [(2, 7)]


def test_a_beat_begins_the_wait_again() -> None:
    members = ClusterView(1, told(controller(1), controller(2, beat=7)), 1_000)
    members.learn(told(controller(1, 2), controller(2, beat=8)), 2_000)
    assert members.silent(1_000 + LEASE_MS) == []
    members.is_alive(2, 3_000)  # the end found another beat
    assert members.next_silent_at() == 3_000 + LEASE_MS


def test_membership_is_quiet_when_nobody_came_or_went_for_a_while() -> None:
    members = ClusterView(1, told(controller(1)), 0)
    members.learn(told(controller(1), controller(2)), 1_000)
    members.learn(told(controller(1), controller(2)), 2_000)
    assert not members.is_quiet(1_000 + QUIET_MEMBERSHIP_MS - 1)
    members.learn(told(controller(1), controller(2, beat=9)), QUIET_MEMBERSHIP_MS)
    assert members.is_quiet(1_000 + QUIET_MEMBERSHIP_MS)
    members.learn(told(controller(1), controller(2, draining=True)), 9_000)
    assert members.quiet_at == 9_000 + QUIET_MEMBERSHIP_MS


def test_membership_is_not_quiet_while_a_beat_is_late() -> None:
    members = ClusterView(1, told(controller(1), controller(2, beat=7)), 0)
    seen = 2 * QUIET_MEMBERSHIP_MS
    members.learn(told(controller(1), controller(2, beat=8)), seen)
    assert members.is_quiet(seen + LATE_BEAT_MS - 1)
    assert not members.is_quiet(seen + LATE_BEAT_MS)


def test_ended_controllers_free_shards_and_draining_ones_have_no_share() -> None:
    shards = tuple(shard(number, owner) for number, owner in enumerate([1, 2, 3, None]))
    members = ClusterView(1, told(controller(1), controller(2, draining=True), shards=shards), 0)
    assert members.free() == [2, 3]
    assert members.share == 4
    assert members.some_will_be_free()
    assert members.owner_of(2) is None
    members.has_ended(2, 5)
    assert members.free() == [1, 2, 3]


def test_shards_stay_as_they_were_while_their_version_stands() -> None:
    members = ClusterView(1, told(controller(1), shards=(shard(0, 1),), version=4), 0)
    members.learn(told(controller(1, 2), shards=None, version=4), 1_000)
    assert members.version == 4
    assert members.shards_of(1) == [shard(0, 1)]


def test_a_controller_sees_all_with_their_shards_and_the_age_of_their_beats() -> None:
    shards = tuple(shard(number, owner) for number, owner in enumerate([1, 2, 2, None]))
    members = ClusterView(1, told(controller(2, beat=7), controller(1), shards=shards), 1_000)
    members.learn(told(controller(1, 2), controller(2, beat=7), controller(3), shards=shards), 2_000)
    seen = members.all(2_500, renewed_at=1_990)
    assert [(each.row.id, each.shards, each.beat_age_ms) for each in seen] == [(1, 1, 510), (2, 2, 1_500), (3, 0, 500)]
    assert not any(each.ended for each in seen)
    assert (members.live, members.named("c3"), members.named("c4")) == (3, controller(3), None)


def test_a_controller_that_ended_is_seen_until_its_name_is_back() -> None:
    members = ClusterView(1, told(controller(1), controller(2), controller(3)), 1_000)
    members.has_ended(2, 1_500)
    members.learn(told(controller(1, 2)), 2_000)
    seen = {each.row.id: each for each in members.all(3_000, renewed_at=2_000)}
    assert [seen[id].ended for id in (1, 2, 3)] == [False, True, True]
    assert (seen[2].shards, seen[2].beat_age_ms) == (0, 2_000)
    assert members.ended(2) == controller(2) and members.ended(9) is None and members.live == 1
    again = replace(controller(4), name="c2")
    members.learn(told(controller(1, 3), again), 3_000)
    assert [each.row.id for each in members.all(3_000, renewed_at=3_000)] == [1, 4, 3]


def test_the_controllers_that_ended_are_bounded() -> None:
    members = ClusterView(1, told(controller(1)), 0)
    for id in range(2, ENDED_CONTROLLERS + 4):
        members.learn(told(controller(1), controller(id)), id)
    members.learn(told(controller(1)), 1_000)
    assert len(members.all(1_000, renewed_at=0)) == 1 + ENDED_CONTROLLERS
    assert members.ended(2) is None


# -- tenures ----------------------------------------------------------------------------------------------------------


def test_a_beat_that_told_of_a_take_or_a_release_is_newer_than_its_answer() -> None:
    owned, released, others = shard(0, 1, fence=6), shard(0, None, fence=6), shard(0, 2, fence=7)
    members = ClusterView(1, told(controller(1), controller(2), shards=(released,), version=14), 0)
    members.was_taken(owned)  # it took the shard with this fence, and released it since
    assert members.free() == [0]
    members = ClusterView(1, told(controller(1), controller(2), shards=(others,), version=15), 0)
    members.was_released(0)  # and another one has taken it since
    assert members.last_owner_of(0) == 2
    members.was_taken(owned)
    assert members.last_owner_of(0) == 2


def test_a_shard_that_was_released_comes_back_only_with_a_higher_fence() -> None:
    tenures = OwnedShards()
    tenures.take([shard(0, 1, fence=3)])
    tenures.close([0])
    tenures.release([0])
    tenures.adopt_newer([shard(0, 1, fence=3)])
    assert 0 not in tenures
    tenures.adopt_newer([shard(0, 1, fence=4)])
    assert 0 in tenures


@pytest.mark.parametrize("fence", [3, 5])
def test_what_is_owned_already_stays_as_it_is(fence: int) -> None:
    tenures = OwnedShards()
    tenures.take([shard(0, 1, fence=4)])
    tenures.take([shard(0, 1, fence=fence)])
    tenure = tenures.get(0)
    assert tenure is not None
    assert tenure.fence == 4
