"""One member, driven by hand: what it asks for after each event, and what it says to calls."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import pytest

from controller.cluster.actions import CommitOutcome, Drop, HandOver, Hold, PassOn, Refusal, Refuse, Serve, Stop
from controller.cluster.cluster_view import QUIET_MEMBERSHIP_MS
from controller.cluster.events import (
    AddressShared,
    Drained,
    LeaseLost,
    MemberEvent,
    OtherEnded,
    ShardsReleased,
    ShardsTaken,
    StartedOver,
)
from controller.cluster.lease import TRUSTED_LEASE_MS
from controller.cluster.member import (
    BEAT_MS,
    BEAT_RETRY_MS,
    DRAIN_PARTS,
    DRAIN_PAUSE_MS,
    FREE_SHARDS_CHECK_MS,
    HANDED_OVER_SHARDS,
    HELD_CALL_MS,
    Member,
    MemberPhase,
)
from controller.cluster.records import (
    LEASE_MS,
    Adopt,
    Beat,
    BeatAnswer,
    Begin,
    ControllerRow,
    End,
    Identity,
    Leave,
    NameTaken,
    ShardRow,
    Take,
    Taken,
)

STORE = 1_000_000  # what the store's clock shows when the own one shows 0


def row(id: int, beat: int = 1, *, name: str | None = None, draining: bool = False) -> ControllerRow:
    return ControllerRow(id, name or f"c{id}", f"c{id}:1", None, "1", beat, STORE + LEASE_MS, STORE, draining, None)


def shard(id: int, owner: int | None, fence: int = 1) -> ShardRow:
    return ShardRow(id, owner, fence, STORE, STORE, 0)


class Driver:
    """Tells a member what happens, at moments in order, and keeps what it wants."""

    def __init__(self, *shards: ShardRow, others: tuple[ControllerRow, ...] = ()) -> None:
        """Controller 1 begins at 0, with these shards in the store."""
        self.events: list[MemberEvent] = []
        self.member = Member(Identity("c1", "c1:1", None, "1"), count(1).__next__, self.events.append)
        self.now = 0
        (begin,) = self.member.due(0)
        assert isinstance(begin, Begin)
        self.others, self.shards = others, shards
        self.member.begun(0, begin, self.answer())

    def answer(self, *, own: ControllerRow | None = None) -> BeatAnswer:
        mine = own or replace(row(1), clock_bound=STORE + self.now + LEASE_MS)
        return BeatAnswer(STORE + self.now, (mine, *self.others), self.shards, 1)

    def at(self, now: int) -> tuple[object, ...]:
        """What is due then, with every beat before it answered."""
        self.now = now
        return self.member.due(now)

    def beats_until(self, now: int) -> list[object]:
        """What was due by then, without the beats, which are all answered at once."""
        wanted: list[object] = []
        while True:
            at = self.member.next_due()
            if at is None or at > now:
                return wanted
            wanted += self.beat(at)

    def beat(self, now: int) -> list[object]:
        actions = self.at(max(now, self.now))
        for action in actions:
            if isinstance(action, Beat):
                self.member.beat_answered(self.now, action, self.answer())
        return [action for action in actions if not isinstance(action, Beat)]


def test_a_member_begins_and_beats_each_second() -> None:
    driver = Driver(shard(0, 1))
    assert driver.at(BEAT_MS - 1) == ()
    assert driver.at(BEAT_MS) == (Beat(1, STORE + BEAT_MS, False, 1),)
    assert driver.member.route(BEAT_MS, 0) == Serve(1)


def test_a_begin_without_an_answer_is_sent_again_as_it_was() -> None:
    member = Member(Identity("c1", "c1:1", None, "1"), count(1).__next__)
    (begin,) = member.due(0)
    assert isinstance(begin, Begin)
    assert member.next_due() is None
    member.begin_failed(50, begin)
    assert member.due(50) == ()
    assert member.next_due() == 50 + BEAT_RETRY_MS
    assert member.due(50 + BEAT_RETRY_MS) == (begin,)
    assert begin.restart


def test_a_begin_that_was_ended_before_its_answer_is_followed_by_another() -> None:
    member = Member(Identity("c1", "c1:1", None, "1"), count(1).__next__)
    (begin,) = member.due(0)
    assert isinstance(begin, Begin)
    member.begun(10, begin, BeatAnswer(STORE, (replace(row(1), ended_at=STORE),), (), 1))
    (next_begin,) = member.due(10)
    assert isinstance(next_begin, Begin)
    assert (next_begin.id, next_begin.previous, next_begin.restart) == (2, 1, False)


@pytest.mark.parametrize(("ago_ms", "phase"), [(LEASE_MS - 1, MemberPhase.SERVING), (LEASE_MS, MemberPhase.BEGINNING)])
def test_a_begin_that_was_done_a_lease_ago_is_followed_by_another(ago_ms: int, phase: MemberPhase) -> None:
    """Its answers were lost, so nobody could be heard: that is not the silence of writers."""
    member = Member(Identity("c1", "c1:1", None, "1"), count(1).__next__)
    (begin,) = member.due(0)
    assert isinstance(begin, Begin)
    begun = replace(row(1), served_until=STORE, beat=4)
    member.begun(ago_ms, begin, BeatAnswer(STORE + ago_ms, (begun,), (), 1))
    assert member.phase is phase
    if phase is MemberPhase.BEGINNING:
        (next_begin,) = member.due(ago_ms)
        assert isinstance(next_begin, Begin)
        assert (next_begin.id, next_begin.previous, next_begin.restart) == (2, 1, False)


def test_a_lease_that_ran_out_drops_everything_and_begins_anew() -> None:
    driver = Driver(shard(0, 1))
    assert driver.member.next_due() == BEAT_MS
    assert driver.member.route(TRUSTED_LEASE_MS, 0) == Refuse(Refusal.NOT_SERVING)
    drop, begin = driver.at(TRUSTED_LEASE_MS)
    assert drop == Drop((0,))
    assert isinstance(begin, Begin)
    assert (begin.id, begin.previous, begin.restart) == (2, 1, False)


def test_an_answer_after_the_lease_does_not_bring_it_back() -> None:
    driver = Driver(shard(0, 1))
    (beat,) = driver.at(BEAT_MS)
    assert isinstance(beat, Beat)
    driver.member.beat_answered(TRUSTED_LEASE_MS, beat, driver.answer())
    assert driver.member.phase is MemberPhase.BEGINNING


def test_a_beat_without_an_answer_is_soon_followed_by_another() -> None:
    driver = Driver(shard(0, 1))
    (beat,) = driver.at(BEAT_MS)
    assert isinstance(beat, Beat)
    driver.member.beat_failed(BEAT_MS + 10, beat)
    assert driver.member.next_due() == BEAT_MS + 10 + BEAT_RETRY_MS


def test_a_controller_of_the_same_name_ends_this_one_for_good() -> None:
    driver = Driver(shard(0, 1))
    (beat,) = driver.at(BEAT_MS)
    assert isinstance(beat, Beat)
    driver.member.beat_answered(BEAT_MS, beat, driver.answer(own=replace(row(1), ended_at=STORE)))
    begin = driver.at(BEAT_MS)[-1]
    assert isinstance(begin, Begin)
    driver.member.begun(BEAT_MS, begin, NameTaken(row(9, name="c1")))
    assert driver.at(BEAT_MS) == (Stop(row(9, name="c1")),)
    assert driver.member.next_due() is None
    assert driver.member.route(BEAT_MS, 0) == Refuse(Refusal.NOT_SERVING)


def test_free_shards_are_taken_up_to_the_fair_share() -> None:
    driver = Driver(*(shard(number, None) for number in range(4)), others=(row(2),))
    (take,) = driver.at(0)
    assert take == Take(1, (0, 1), STORE)
    driver.member.taken(5, take, Taken((shard(0, 1, 2),), STORE + 5))
    assert driver.at(5) == ()  # another one was faster; the next beat tells what is still free
    assert driver.member.route(5, 0) == Serve(2)


def test_who_is_below_its_share_looks_often_while_others_have_too_many() -> None:
    driver = Driver(shard(0, 2), shard(1, 2), others=(row(2),))
    driver.beat(BEAT_MS)
    assert driver.member.next_due() == BEAT_MS + FREE_SHARDS_CHECK_MS


def test_a_silent_controller_is_ended_and_its_shards_are_taken() -> None:
    driver = Driver(shard(0, 1), shard(1, 2), others=(row(2, beat=7),))
    assert driver.beats_until(LEASE_MS - 1) == []
    end = driver.beats_until(LEASE_MS)[0]
    assert end == End(2, 7)
    assert isinstance(end, End)
    driver.member.ended(driver.now, end, True)
    assert Take(1, (1,), STORE + driver.now) in driver.at(driver.now)


def test_a_controller_that_could_not_be_ended_gets_another_lease() -> None:
    driver = Driver(shard(0, 1), shard(1, 2), others=(row(2, beat=7),))
    end = driver.beats_until(LEASE_MS)[0]
    assert isinstance(end, End)
    driver.member.ended(driver.now, end, False)
    assert driver.beats_until(driver.now + LEASE_MS - 1) == []


def test_who_has_too_many_shards_hands_some_over_once_membership_is_quiet() -> None:
    shards = [shard(number, 1) for number in range(64)]
    driver = Driver(*shards)
    driver.others = (row(2),)
    driver.beat(BEAT_MS)
    driver.others = (row(2, 2),)
    early = driver.beats_until(BEAT_MS + LEASE_MS - 1)
    driver.others = (row(2, 3),)
    early += driver.beats_until(QUIET_MEMBERSHIP_MS - 1)
    driver.others = (row(2, 4),)
    early += driver.beats_until(BEAT_MS + QUIET_MEMBERSHIP_MS - 1)
    assert early == []
    (over,) = driver.beats_until(BEAT_MS + QUIET_MEMBERSHIP_MS)
    assert isinstance(over, HandOver)
    assert len(over.shards) == HANDED_OVER_SHARDS
    assert driver.member.route(driver.now, over.shards[0]) == Hold(driver.now + HELD_CALL_MS)


def test_a_release_is_part_of_the_next_commit() -> None:
    driver = Driver(shard(0, 1), shard(1, 1))
    driver.member.drain(0)
    assert HandOver((0, 1)) in driver.at(10)
    commit = driver.member.begin_commit(20, {1})
    assert commit is not None
    assert commit.check.fences == ((0, 1), (1, 1))
    assert commit.release is not None
    assert commit.release.shards == (0, 1)
    assert commit.release.clock_floor == commit.release.served_until + 1
    driver.member.commit_ended(30, commit, CommitOutcome.DONE)
    drop, leave = driver.at(30)
    assert drop == Drop((0, 1))
    assert isinstance(leave, Leave)
    driver.member.left(40, leave)
    assert driver.at(40) == (Stop(None),)


@pytest.mark.parametrize("first", ["leave", "beat"])
def test_who_leaves_commits_nothing_more_and_ends_by_whichever_answer_comes_first(first: str) -> None:
    driver = Driver()
    driver.member.drain(0)
    beat, leave = driver.at(10)
    assert isinstance(beat, Beat) and isinstance(leave, Leave)
    assert driver.member.begin_commit(20, set()) is None  # the store may have ended it already
    if first == "leave":
        driver.member.left(30, leave)
    else:
        driver.member.beat_answered(30, beat, driver.answer(own=replace(row(1), ended_at=STORE + 20)))
    assert driver.at(30) == (Stop(None),)
    assert driver.events[-1] == Drained()


def test_who_drains_hands_over_a_part_at_a_time() -> None:
    driver = Driver(*(shard(number, 1) for number in range(2 * DRAIN_PARTS)), others=(row(2),))
    driver.member.drain(0)
    driver.at(1)
    now = BEAT_MS + FREE_SHARDS_CHECK_MS
    assert HandOver((0, 1)) in driver.at(now)
    commit = driver.member.begin_commit(now, set())
    assert commit is not None
    driver.member.commit_ended(now + 10, commit, CommitOutcome.DONE)
    next_at = now + 10 + DRAIN_PAUSE_MS
    assert not any(isinstance(action, HandOver) for action in driver.at(next_at - 1))
    assert HandOver((2, 3)) in driver.at(next_at)


def test_who_drains_alone_releases_everything_at_once() -> None:
    driver = Driver(*(shard(number, 1) for number in range(100)))
    driver.member.drain(0)
    beat, first = driver.at(10)
    assert isinstance(beat, Beat)
    assert beat.draining
    assert first == HandOver(tuple(range(100)))


def test_who_drains_serves_until_the_others_look_often() -> None:
    driver = Driver(shard(0, 1), others=(row(2),))
    driver.member.drain(0)
    assert driver.at(1) == (Beat(1, STORE + 1, True, 1),)
    assert driver.member.route(BEAT_MS, 0) == Serve(1)
    assert HandOver((0,)) in driver.at(BEAT_MS + FREE_SHARDS_CHECK_MS)


def test_a_commit_of_notes_does_not_make_a_drain_begin_earlier() -> None:
    driver = Driver(shard(0, 1), others=(row(2),))
    driver.member.drain(0)
    driver.at(1)
    commit = driver.member.begin_commit(2, {0})
    assert commit is not None and commit.release is None
    driver.member.commit_ended(3, commit, CommitOutcome.DONE)
    assert driver.at(3) == ()
    assert HandOver((0,)) in driver.at(BEAT_MS + FREE_SHARDS_CHECK_MS)


def test_a_release_whose_commit_failed_is_asked_for_again() -> None:
    driver = Driver(shard(0, 1))
    driver.member.drain(0)
    driver.at(10)
    commit = driver.member.begin_commit(10, set())
    assert commit is not None
    driver.member.commit_ended(20, commit, CommitOutcome.FAILED)
    assert HandOver((0,)) in driver.at(10 + BEAT_MS)


def test_after_a_lost_commit_its_end_is_asked_for_until_it_is_settled() -> None:
    driver = Driver(shard(0, 1), shard(1, 1))
    commit = driver.member.begin_commit(10, {0})
    assert commit is not None
    assert driver.member.begin_commit(10, {1}) is None  # one commit at a time
    driver.member.commit_ended(20, commit, CommitOutcome.LOST)
    assert driver.member.settling
    (adopt,) = driver.at(20)
    assert adopt == Adopt(1)
    assert isinstance(adopt, Adopt)
    driver.member.request_failed(25, adopt)
    assert driver.member.next_due() == 25 + BEAT_RETRY_MS
    (again,) = driver.at(25 + BEAT_RETRY_MS)
    assert isinstance(again, Adopt)
    driver.member.adopted(290, adopt, Taken((), STORE + 290))  # too late: it was given up
    assert driver.member.settling
    driver.member.adopted(300, again, Taken((shard(0, 1), shard(1, 1)), STORE + 300))
    assert not driver.member.settling


def test_a_release_that_was_lost_comes_back_if_it_was_not_done() -> None:
    driver = Driver(shard(0, 1))
    driver.member.drain(0)
    driver.at(10)
    commit = driver.member.begin_commit(10, set())
    assert commit is not None
    driver.member.commit_ended(20, commit, CommitOutcome.LOST)
    drop, adopt = driver.at(20)
    assert drop == Drop((0,))
    assert isinstance(adopt, Adopt)
    driver.member.adopted(30, adopt, Taken((shard(0, 1),), STORE + 30))
    assert HandOver((0,)) in driver.at(10 + BEAT_MS)


def test_a_refused_commit_begins_anew() -> None:
    driver = Driver(shard(0, 1))
    commit = driver.member.begin_commit(10, {0})
    assert commit is not None
    driver.member.commit_ended(20, commit, CommitOutcome.REFUSED)
    assert driver.member.phase is MemberPhase.BEGINNING


def test_a_commit_of_a_shard_that_is_not_owned_does_not_begin() -> None:
    assert Driver(shard(0, 1), shard(1, 2), others=(row(2),)).member.begin_commit(10, {0, 1}) is None


def test_a_beat_tells_when_the_commit_under_way_began() -> None:
    driver = Driver(shard(0, 1))
    assert driver.member.begin_commit(300, {0}) is not None
    assert driver.at(BEAT_MS) == (Beat(1, STORE + 300, False, 1),)


def test_calls_go_to_the_owner_once() -> None:
    driver = Driver(shard(0, 1, 3), shard(1, 2), shard(2, None), others=(row(2),))
    route = driver.member.route
    assert route(10, 0) == Serve(3)
    assert route(10, 1) == PassOn(row(2))
    assert isinstance(route(10, 2), Hold)
    assert route(10, 0, passed_on_to=1) == Serve(3)
    assert route(10, 1, passed_on_to=1) == Refuse(Refusal.NOT_OWNER)
    assert route(10, 0, passed_on_to=9) == Refuse(Refusal.NOT_OWNER)


def test_an_owner_with_a_lower_fence_than_the_callers_asks_the_store_first() -> None:
    driver = Driver(shard(0, 1, 3))
    route = driver.member.route
    assert route(10, 0, fence=3, since=10) == Serve(3)
    for passed_on_to in (None, 1):
        assert isinstance(route(10, 0, fence=4, since=10, passed_on_to=passed_on_to), Hold)


def test_a_former_owner_that_slept_learns_from_the_next_beat_that_it_is_none() -> None:
    driver = Driver(shard(0, 1, 3))
    (beat,) = driver.at(BEAT_MS)
    assert isinstance(beat, Beat)
    since = driver.now = BEAT_MS + 10
    ended = replace(row(1), ended_at=STORE)
    driver.member.beat_answered(driver.now, beat, driver.answer())  # it was under way before the call came
    assert isinstance(driver.member.route(driver.now, 0, fence=4, since=since), Hold)
    (later,) = driver.at(2 * BEAT_MS)
    assert isinstance(later, Beat)
    driver.member.beat_answered(driver.now, later, driver.answer(own=ended))
    assert driver.member.route(driver.now, 0, fence=4, since=since) == Refuse(Refusal.NOT_SERVING)


def test_a_fence_that_the_store_never_gave_keeps_no_owner_from_answering() -> None:
    driver = Driver(shard(0, 1, 3))
    driver.beat(BEAT_MS)
    route = driver.member.route
    for passed_on_to in (None, 1):
        assert isinstance(route(BEAT_MS, 0, fence=10**18, since=BEAT_MS, passed_on_to=passed_on_to), Hold)
        assert route(BEAT_MS, 0, fence=10**18, since=BEAT_MS - 1, passed_on_to=passed_on_to) == Serve(3)


def test_a_call_that_found_no_owner_makes_the_member_check_soon() -> None:
    driver = Driver(shard(0, 1))
    driver.member.check_soon(10)
    assert driver.member.next_due() == 10 + FREE_SHARDS_CHECK_MS


def test_no_time_reaches_the_bound_that_the_store_has() -> None:
    driver = Driver(shard(0, 1))
    assert driver.member.clock.now(2_500) == STORE + 2_500
    assert driver.member.clock.now(60_000) == STORE + LEASE_MS - 1


def test_who_drains_and_loses_the_store_stops() -> None:
    driver = Driver(shard(0, 1))
    driver.member.drain(0)
    assert driver.at(TRUSTED_LEASE_MS) == (Drop((0,)), Stop(None))


def test_a_store_on_another_timeline_begins_anew() -> None:
    driver = Driver(shard(0, 1))
    driver.member.start_over()
    assert driver.member.route(10, 0) == Refuse(Refusal.NOT_SERVING)


@pytest.mark.parametrize("ahead_ms", [LEASE_MS - 1, LEASE_MS])
def test_a_store_that_is_a_lease_ahead_of_the_own_clock_begins_anew(ahead_ms: int) -> None:
    """This host was suspended meanwhile, or the store's clock was set: nobody was heard for so long."""
    driver = Driver(shard(0, 1))
    (beat,) = driver.at(BEAT_MS)
    assert isinstance(beat, Beat)
    ahead = replace(driver.answer(), store_now=STORE + BEAT_MS + ahead_ms)
    driver.member.beat_answered(BEAT_MS, beat, ahead)
    goes_on = isinstance(driver.member.route(BEAT_MS, 0), Serve)
    assert goes_on is (ahead_ms < LEASE_MS)
    if not goes_on:
        drop, begin = driver.at(BEAT_MS)
        assert drop == Drop((0,)) and isinstance(begin, Begin) and begin.previous == 1


def test_a_member_tells_of_a_lost_lease_and_of_its_new_one() -> None:
    driver = Driver(shard(0, 1))
    assert driver.events == [ShardsTaken(1, {"c1": 1})]  # those of an earlier run under its name
    begin = driver.at(TRUSTED_LEASE_MS)[-1]
    assert isinstance(begin, Begin)
    assert driver.member.controllers(TRUSTED_LEASE_MS)[0].beat_age_ms == TRUSTED_LEASE_MS
    answer = BeatAnswer(STORE, (row(2, name="c1"),), (shard(0, 2, 2),), 2)
    driver.member.begun(TRUSTED_LEASE_MS, begin, answer)
    assert driver.events[1:] == [LeaseLost(1), StartedOver(1)]
    assert driver.member.renewed_at == TRUSTED_LEASE_MS


def test_a_member_tells_whom_it_ended_and_whose_shards_it_took() -> None:
    driver = Driver(shard(0, 1), shard(1, 2), others=(row(2, beat=7),))
    end = driver.beats_until(LEASE_MS)[0]
    assert isinstance(end, End)
    driver.member.ended(driver.now, end, True)
    (take,) = (each for each in driver.at(driver.now) if isinstance(each, Take))
    driver.member.taken(driver.now, take, Taken((shard(1, 1, 2),), STORE + driver.now))
    assert driver.events[1:] == [OtherEnded(row(2, beat=7)), ShardsTaken(1, {"c2": 1})]
    assert not driver.member.has_successors


def test_a_member_tells_of_what_it_released_and_that_it_left() -> None:
    driver = Driver(shard(0, 1), others=(row(2),))
    assert driver.member.has_successors and driver.member.live_controllers == 2
    driver.member.drain(0)
    driver.at(BEAT_MS + FREE_SHARDS_CHECK_MS)
    commit = driver.member.begin_commit(driver.now, set())
    assert commit is not None
    driver.member.commit_ended(driver.now, commit, CommitOutcome.DONE)
    (leave,) = (each for each in driver.at(driver.now) if isinstance(each, Leave))
    driver.member.left(driver.now, leave)
    assert driver.events[1:] == [ShardsReleased(1), Drained()]


def test_a_member_knows_nobody_before_its_first_begin() -> None:
    member = Member(Identity("c1", "c1:1", None, "1"), count(1).__next__)
    assert member.controllers(0) == [] and member.named("c1") is None
    assert member.live_controllers == 0 and not member.has_successors


def test_a_member_tells_once_of_another_one_with_its_address() -> None:
    twin = replace(row(2), address="c1:1")
    driver = Driver(shard(0, 1), others=(twin,))
    driver.beat(BEAT_MS)
    assert driver.events[0] == AddressShared(twin)
    driver.others = ()
    driver.beat(2 * BEAT_MS)
    driver.others = (twin, row(3))
    driver.beat(3 * BEAT_MS)
    assert [event for event in driver.events if isinstance(event, AddressShared)] == [AddressShared(twin)] * 2
