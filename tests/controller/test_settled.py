"""Whatever readers of a group do, each of its segments can be had by somebody, and goes on from what is settled."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.groups.membership import Membership
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.served_time import Moment
from strandline.errors import StrandlineError
from strandline.wire.groups import GroupSettings


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
