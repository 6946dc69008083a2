"""The tenures of a controller with shards: what one hands on to the next."""

from __future__ import annotations

import pytest

from controller.cluster.owned_shards import OwnedShard
from controller.joint.shard_tenures import ShardTenures


@pytest.mark.parametrize(("fence", "unserved_ms"), [(7, 9_500), (8, 3_050)])
def test_a_shard_that_comes_back_has_the_silence_of_commits_that_failed(fence: int, unserved_ms: int) -> None:
    tenures = ShardTenures("one", lambda: True)
    tenures.begin(OwnedShard(3, 7, clock_floor=0, unserved_ms=500), (), 0)
    tenures.commit_begins(1_000)
    tenures.commit_failed()
    (tenure,) = tenures.under([3])
    tenures.end([3])  # its release went with a commit of which nobody knows the end
    assert tenure.over and not tenures.serves(tenure)

    owned = OwnedShard(3, fence, clock_floor=0 if fence == 7 else 9_950, unserved_ms=500 if fence == 7 else 3_000)
    tenures.begin(owned, (), 9_960)
    (again,) = tenures.under([3])
    tenures.commit_begins(9_900)
    tenures.commit_is_done(10_000, {})
    assert (again.unserved.total_ms, again is tenure) == (unserved_ms, False)
    assert tenures.grown([owned], 0) == {3: unserved_ms}


@pytest.mark.parametrize(("fence", "grown"), [(7, {3: 9_500}), (8, {3: 11_000})])
def test_a_shard_that_is_released_again_before_it_comes_back_has_it_too(fence: int, grown: dict[int, int]) -> None:
    tenures = ShardTenures("one", lambda: True)
    tenures.begin(OwnedShard(3, 7, clock_floor=0, unserved_ms=500), (), 0)
    tenures.commit_begins(1_000)
    tenures.commit_failed()
    tenures.commit_begins(9_900)
    tenures.commit_is_done(10_000, {})
    tenures.end([3])
    assert tenures.grown([OwnedShard(3, fence, clock_floor=0, unserved_ms=500, closing=True)], 10_500) == grown


def test_a_commit_under_way_when_a_tenure_begins_is_nobodys_silence_from_its_floor() -> None:
    tenures = ShardTenures("one", lambda: True)
    tenures.commit_begins(1_000)
    owned = OwnedShard(3, 7, clock_floor=2_500, unserved_ms=800)
    tenures.begin(owned, (), 2_600)
    tenures.commit_is_done(2_900, {})
    (tenure,) = tenures.under([3])
    assert tenure.unserved.total_ms == 1_200
    assert tenures.grown([owned], 0) == {3: 1_200}
    tenures.commit_is_done(2_910, tenures.grown([owned], 0))
    assert tenures.grown([owned], 0) == {}


def test_nobodys_silence_lasts_until_a_controller_has_heard_that_it_owns_the_shard() -> None:
    tenures = ShardTenures("one", lambda: True)
    owned = OwnedShard(3, 7, clock_floor=2_500, unserved_ms=800)
    tenures.begin(owned, (), 3_900)
    assert tenures.grown([owned], 0) == {3: 2_200}


def test_a_commit_hangs_no_longer_for_a_stream_whose_time_stands_still() -> None:
    tenures = ShardTenures("one", lambda: True)
    tenures.begin(OwnedShard(3, 7, clock_floor=4_000, unserved_ms=800), (), 1_000)
    (tenure,) = tenures.under([3])
    tenures.commit_begins(1_100)
    assert tenure.moment(1_150) == (4_000, 3_200)  # its floor is a lease ahead, and no commit is late
    tenures.commit_is_done(1_200, {})
    assert tenure.moment(4_100) == (4_100, 3_300)
