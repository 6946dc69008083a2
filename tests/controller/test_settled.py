"""What is read and what is settled are two positions: bounds follow the one, and whoever reads next goes on from the
other."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.groups.membership import READER_FORGOTTEN_MS, Membership
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.served_time import Moment
from strandline.errors import StrandlineError
from strandline.wire.groups import GroupSettings

CONFIG = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}
GROUP = "/v1/reader-groups/g"
TIMEOUT_MS = 30_000


@pytest.fixture
def database(store_url: str) -> str:
    return store_url


@pytest.fixture
def group(controller: Any) -> Any:
    """A stream with marks at 100 (10, 10), 200 (20, 20) and 300 (30, 30), and a group that reads it."""
    controller.call("PUT", "/v1/streams/s", CONFIG)
    for n in (10, 20, 30):
        controller.note("a", 10 * n, {"0": n, "1": n})
    controller.call("PUT", GROUP, {"streams": ["s"]}, expect=201)
    return controller


def report(
    controller: Any,
    name: str,
    read: dict[str, int],
    settled: dict[str, int] | None = None,
    epoch: int | None = None,
    expect: int = 200,
) -> Any:
    body: dict[str, Any] = {"positions": {"s": read}}
    if settled is not None:
        body["settled"] = {"s": settled}
    if epoch is not None:
        body["epoch"] = epoch
    return controller.call("PUT", f"{GROUP}/readers/{name}", body, expect=expect)


def position(controller: Any) -> Any:
    return controller.call("GET", f"{GROUP}/time-window")["streams"]["s"]["position"]


def acquire(controller: Any, name: str, epoch: int) -> Any:
    return controller.call("POST", f"{GROUP}/readers/{name}/acquire", {"epoch": epoch, "max": 9})["owned"]


def test_a_silent_readers_segments_resume_from_what_is_settled(group: Any) -> None:
    one = report(group, "one", {"0": 0, "1": 0})["epoch"]
    told = report(group, "one", {"0": 20, "1": 20}, {"0": 5, "1": 20}, one)
    assert told["window"]["watermarks"] == {"": 200}
    assert told["owned"] == {"s": {"0": 20, "1": 20}}
    (member,) = group.call("GET", GROUP)["readers"]
    assert (member["owned"], member["settled"]) == ({"s": {"0": 20, "1": 20}}, {"s": {"0": 5, "1": 20}})

    group.clock.now += TIMEOUT_MS
    two = report(group, "two", {})

    assert position(group) == {"0": 5, "1": 20} and two["window"]["watermarks"] == {"": None}
    assert acquire(group, "two", two["epoch"]) == {"s": {"0": 5, "1": 20}}


def test_a_reader_is_forgotten_after_a_day_of_silence_and_its_epoch_is_not_given_out_again(group: Any) -> None:
    one = report(group, "one", {"0": 5})["epoch"]
    group.clock.now += READER_FORGOTTEN_MS - 1
    assert report(group, "two", {})["owned"] == {}
    assert [each["reader"] for each in group.call("GET", GROUP)["readers"]] == ["one", "two"]
    group.clock.now += READER_FORGOTTEN_MS
    group.call("GET", f"{GROUP}/time-window")
    # The one heard last stays: by it the group counts as abandoned, and keeps no marks.
    assert [each["reader"] for each in group.call("GET", GROUP)["readers"]] == ["two"]
    report(group, "two", {})
    report(group, "one", {"0": 9}, epoch=one, expect=404)
    assert report(group, "one", {})["epoch"] > one
    assert position(group) == {"0": 5}


def test_without_settled_all_that_is_read_is_settled(group: Any) -> None:
    one = report(group, "one", {"0": 0})["epoch"]
    report(group, "one", {"0": 20}, {"0": 5}, one)
    report(group, "one", {"0": 25}, None, one)
    group.clock.now += TIMEOUT_MS
    assert position(group) == {"0": 25}


def test_a_segment_missing_from_settled_stays_settled_as_it_was(group: Any) -> None:
    one = report(group, "one", {"0": 0, "1": 7})["epoch"]
    report(group, "one", {"0": 20, "1": 20}, {"0": 5}, one)
    report(group, "one", {"0": 25}, {}, one)
    assert position(group) == {"0": 25, "1": 20}
    group.call("POST", f"{GROUP}/readers/one/offline", {"positions": {}})
    assert position(group) == {"0": 5, "1": 7}


def test_settled_stays_within_what_was_read_and_never_goes_back(group: Any) -> None:
    one = report(group, "one", {"0": 0})["epoch"]
    report(group, "one", {"0": 20}, {"0": 5}, one)
    for read, settled, code in [
        ({"0": 20}, {"0": 21}, "invalid_note"),
        ({"0": 20}, {"1": 0}, "invalid_note"),
        ({"0": 20}, {"0": 4}, "position_went_back"),
        ({"0": 20, "9": 1}, {"9": 1}, "unknown_segment"),
    ]:
        expect = 409 if code == "position_went_back" else 422
        assert report(group, "one", read, settled, one, expect=expect)["code"] == code
    told = {"positions": {"t": {"0": 1}}, "settled": {"t": {"0": 1}}, "epoch": one}
    assert group.call("PUT", f"{GROUP}/readers/one", told, expect=422)["code"] == "invalid_config"
    assert report(group, "three", {"0": 20}, {"0": 5}, expect=422)["code"] == "invalid_note"  # it registers
    assert position(group) == {"0": 20}


def test_what_is_given_up_is_read_again_from_what_is_settled(group: Any) -> None:
    one = report(group, "one", {"0": 0})["epoch"]
    body = {"epoch": one, "positions": {"s": {"0": 20}}, "settled": {"s": {"0": 5}}}
    assert group.call("POST", f"{GROUP}/readers/one/release", body)["owned"] == {}
    assert acquire(group, "one", one)["s"]["0"] == 5


def test_a_reregistered_reader_starts_at_settled_or_given_positions(group: Any) -> None:
    one = report(group, "one", {"0": 0, "1": 0})["epoch"]
    report(group, "one", {"0": 20, "1": 20}, {"0": 5, "1": 5}, one)
    one = report(group, "one", {"1": 7})["epoch"]
    assert position(group) == {"0": 5, "1": 7}
    assert acquire(group, "one", one) == {"s": {"0": 5, "1": 7}}


def test_successors_are_read_before_their_predecessors_are_settled(group: Any) -> None:
    #    0 [0, .5) ── 40 ─┐
    #                     ├─ 2          0 is read to its end, and settled up to 5
    #    1 [.5, 1) ── 50 ─┘
    scale = {"seal": {"0": 40, "1": 50}, "create": [{"id": "2", "low": 0, "high": 1}]}
    group.call("POST", "/v1/streams/s/scale", scale)
    one = report(group, "one", {"0": 0, "1": 0})["epoch"]
    report(group, "one", {"0": 40, "1": 50}, {"0": 5, "1": 50}, one)
    assert acquire(group, "one", one)["s"] == {"0": 40, "1": 50, "2": 0}
    told = report(group, "one", {"2": 9}, {"2": 0}, one)
    assert told["owned"]["s"] == {"0": 40, "1": 50, "2": 9} and told["window"]["watermarks"] == {"": 300}

    group.clock.now += TIMEOUT_MS
    two = report(group, "two", {})["epoch"]
    assert position(group) == {"0": 5, "1": 50}
    assert acquire(group, "two", two)["s"] == {"0": 5}

    report(group, "two", {"0": 40}, {"0": 5}, two)
    assert acquire(group, "two", two)["s"] == {"0": 40, "2": 0}
    report(group, "two", {"2": 3}, {"2": 3}, two)
    assert report(group, "two", {"0": 40}, {"0": 40}, two)["owned"]["s"] == {"2": 3}  # 0 is over now


def test_a_returned_segment_is_free_for_its_successors_readers() -> None:
    """One of three readers is lost while it has a predecessor that is read to its end and not settled; the other two
    have the successors by then. Somebody must have room for the predecessor, or the group stands still for ever."""
    graph = SegmentGraph.equal_shares(1, 0)
    graph.scale({"0": 10}, [NewSegment("1", 0.0, 0.5), NewSegment("2", 0.5, 1.0)], 0)
    graphs, moment = {"s": graph}, Moment(0, 0)
    members = Membership("g", GroupSettings(streams=("s",), reader_timeout_ms=100))
    for name in ("one", "two", "three"):
        members.register(name, {}, graphs, moment)
    members.report("one", 1, {"s": {"0": 10}}, graphs, moment, {"s": {"0": 4}})
    later = Moment(100, 100)
    members.report("two", 2, {"s": {"1": 0}}, graphs, Moment(50, 50), {"s": {"1": 0}})
    members.report("three", 3, {"s": {"2": 0}}, graphs, Moment(50, 50), {"s": {"2": 0}})

    assert list(members.readable(graphs)) == [("s", "1"), ("s", "2")]
    members.time_out_silent(later)

    assert list(members.readable(graphs)) == [("s", "0")]
    assert members.share(graphs, later) == (2, 1)
    members.acquire("two", 2, 1, graphs, lambda place, offset: offset, later)
    assert members.owned("two") == {"s": {"0": 4, "1": 0}}


def test_both_positions_outlive_a_restart(start: Any) -> None:
    controller = start()
    controller.call("PUT", "/v1/streams/s", CONFIG)
    controller.call("PUT", GROUP, {"streams": ["s"]})
    one = report(controller, "one", {"0": 0})["epoch"]
    report(controller, "one", {"0": 20}, {"0": 5}, one)

    controller = start(after_ms=0)

    assert position(controller) == {"0": 20}
    assert controller.call("GET", GROUP)["readers"][0]["settled"] == {"s": {"0": 5}}
    controller.clock.now += TIMEOUT_MS
    assert position(controller) == {"0": 5}
    controller = start(after_ms=0)
    assert position(controller) == {"0": 5}


# -- laws --------------------------------------------------------------------------------------------------------------

READERS, SEGMENTS = ("one", "two"), ("0", "1", "2")
CALLS = st.lists(
    st.tuples(
        st.sampled_from(["register", "report", "plain", "acquire", "release", "offline", "wait"]),
        st.sampled_from(READERS),
        st.dictionaries(st.sampled_from(SEGMENTS), st.tuples(st.integers(0, 10), st.integers(0, 10)), max_size=3),
    ),
    max_size=40,
)


@given(CALLS)
def test_nothing_settled_is_read_again_and_nothing_unsettled_is_passed_over(
    calls: list[tuple[str, str, dict[str, tuple[int, int]]]],
) -> None:
    """Whatever readers do: what is settled lies within what was read, is all that is read of a free segment, and goes
    back only where somebody says so (registering, or `offline`)."""
    graph = SegmentGraph.equal_shares(2, 0)
    graph.scale({"0": 10, "1": 10}, [NewSegment("2", 0.0, 1.0)], 0)
    graphs, moment = {"s": graph}, Moment(0, 0)
    members = Membership("g", GroupSettings(streams=("s",), reader_timeout_ms=100))
    for what, name, given_positions in calls:
        read = {"s": {segment: max(pair) for segment, pair in given_positions.items()}}
        settled = {"s": {segment: min(pair) for segment, pair in given_positions.items()}}
        before = {segment: members.settled_at(("s", segment)) for segment in SEGMENTS}
        epoch = members.readers[name].epoch if name in members.readers else 0
        try:
            match what:
                case "register":
                    members.register(name, read, graphs, moment)
                case "report":
                    members.report(name, epoch, read, graphs, moment, settled)
                case "plain":
                    members.report(name, epoch, read, graphs, moment)
                case "acquire":
                    members.acquire(name, epoch, 3, graphs, lambda place, offset: offset, moment)
                case "release":
                    members.release(name, epoch, read, graphs, moment, settled)
                case "offline":
                    members.offline(name, read, graphs, moment)
                case _:
                    moment = Moment(moment.now + 100, moment.served + 100)
                    members.time_out_silent(moment)
        except StrandlineError:
            pass
        for segment in SEGMENTS:
            place = ("s", segment)
            known, offset = members.settled_at(place), members.offsets.get(place, 0)
            assert known <= offset
            assert place in members.owners or known == offset
            assert known >= before[segment] or what in ("register", "offline")
        check_that_somebody_has_room(members, graphs, moment)


def check_that_somebody_has_room(members: Membership, graphs: dict[str, SegmentGraph], moment: Moment) -> None:
    """While a segment is free and readable, some live reader has fewer unfinished segments than its share."""
    share, free = members.share(graphs, moment)
    alive = [name for name in members.readers if not members.is_silent(name, moment)]
    if free and alive:
        unfinished = {
            name: sum(
                offset != graphs["s"][segment].final_offset
                for segment, offset in members.owned(name).get("s", {}).items()
            )
            for name in alive
        }
        assert min(unfinished.values()) < share
