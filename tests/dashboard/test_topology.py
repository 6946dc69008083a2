"""The picture of what flows where."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from controller.dashboard.limits import FLOW_BRANCHES
from controller.dashboard.topology import Flows, lines
from controller.status.overview import Overview
from strandline.wire.status import GroupStatus, StreamStatus
from tests.served import InProcess, ManualClock

pytestmark = pytest.mark.full

CHAIN = {"totalling": "orders", "hourly": "totals", "archive": "hours"}  # groups, and the streams that they read
WRITERS = {"orders": "shop", "totals": "totalling", "hours": "hourly"}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    with InProcess(tmp_path_factory.mktemp("topology") / "store.db", ManualClock()) as controller:
        for stream, writer in WRITERS.items():
            controller.call("PUT", f"/v1/streams/{stream}", {"segments": 1, "max_ahead_ms": None})
            controller.note(writer, 10, {}, stream)
        for group, stream in CHAIN.items():
            controller.call("PUT", f"/v1/reader-groups/{group}", {"streams": [stream]})
        yield controller


@pytest.fixture(scope="module")
def look(served: InProcess) -> Overview:
    found: Overview = served.portal.call(served.app.state.controller.status.overview)
    return found


def drawn(look: Overview, written: Mapping[str, Sequence[str]], read: Mapping[str, Sequence[str]]) -> Flows:
    """Streams, each with the groups that write it, and groups, each with the streams that it reads."""
    streams = [
        structs.replace(look.streams[0], stream=name, programs=tuple(programs)) for name, programs in written.items()
    ]
    return Flows(streams, groups_that_read(look, read))


def groups_that_read(look: Overview, read: Mapping[str, Sequence[str]]) -> list[GroupStatus]:
    group = look.groups.groups[0]
    return [structs.replace(group, group=name, streams=tuple(streams)) for name, streams in read.items()]


def test_a_writer_that_is_called_as_a_group_makes_a_chain(look: Overview) -> None:
    flows = Flows(look.streams, look.groups.groups)
    (root,) = flows.roots()
    (line,) = lines(flows.stream_box(root))
    assert re.sub(r" \([^)]*\)", "", line) == "orders → totalling → totals → hourly → hours → archive"


def test_a_picture_begins_with_the_writers_by_state_besides_its_programs(look: Overview) -> None:
    flows = Flows(look.streams, look.groups.groups)
    orders, totals = (next(each for each in look.streams if each.stream == name) for name in ("orders", "totals"))
    counted = flows.picture(structs.replace(orders, writers={"behind": 3, "active": 9_997}))
    assert (counted.name, counted.state.text) == ("10,000 writers", "9997 active, 3 behind")
    assert [each.name for each in counted.then] == ["orders"]
    assert flows.picture(structs.replace(totals, writers={"active": 3})).name == "2 other writers"
    assert flows.picture(totals).name == "totals"


def test_many_groups_of_a_stream_fold(look: Overview) -> None:
    read = {f"g{n}": ["a"] for n in range(100)}
    flows = drawn(look, {"a": []}, read)
    (root,) = flows.roots()
    *shown, folded = flows.stream_box(root).then
    assert (len(shown), folded.name) == (FLOW_BRANCHES, f"{100 - FLOW_BRANCHES} more reader groups")


def test_streams_that_lead_back_to_themselves_are_drawn_once(look: Overview) -> None:
    flows = drawn(look, {"a": ["from-b"], "b": ["from-a"]}, {"from-a": ["a"], "from-b": ["b"]})
    (root,) = flows.roots()
    (line,) = lines(flows.stream_box(root))
    assert re.sub(r" \([^)]*\)", "", line) == "a → from-a → b → from-b → a"


@given(st.dictionaries(st.integers(0, 5), st.tuples(st.sets(st.integers(0, 7)), st.sets(st.integers(0, 7)))))
def test_each_stream_is_in_a_picture(look: Overview, programs: dict[int, tuple[set[int], set[int]]]) -> None:
    read = {f"g{each}": [f"s{n}" for n in reads] for each, (reads, _) in programs.items()}
    written: dict[str, list[str]] = {f"s{n}": [] for n in range(8)}
    for each, (_, writes) in programs.items():
        for n in writes:
            written[f"s{n}"].append(f"g{each}")
    flows = drawn(look, written, read)
    found = [name for root in flows.roots() for name in flows.names(root)]
    assert set(written) <= set(found)
    assert all(list(lines(flows.stream_box(root))) for root in flows.roots())


def test_what_a_visitor_may_not_see_is_in_no_picture(look: Overview) -> None:
    streams: list[StreamStatus] = [each for each in look.streams if each.stream != "totals"]
    groups = look.groups.allowed(lambda name: name != "totals").groups
    flows = Flows(streams, groups)
    said = " ".join(line for each in flows.roots() for line in lines(flows.stream_box(each)))
    assert "totals" not in said and "hourly" not in said
