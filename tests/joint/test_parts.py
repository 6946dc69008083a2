"""Who is asked for the status of what, and what becomes of the answers: without a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from controller.cluster.records import ControllerRow, Kind
from controller.slices import Slices
from controller.status.joint_status import JointStatus
from controller.status.overview import GroupsFound, StreamsFound, UnreadGroup, groups_of, in_order_of_trouble, summarize
from controller.status.parts import (
    NAMED_CHARACTERS,
    Nearby,
    PartAsked,
    Serving,
    divided,
    in_order,
    together,
    unread,
)
from controller.status.status_view import Viewer
from controller.status.stream_status import by_trouble
from strandline.errors import OwnerUndecided
from strandline.wire.status import StatusPart
from tests.served import NOON, InProcess, ManualClock

OTHERS = [ControllerRow(id_, f"c{id_}", f"http://c{id_}", None, "1", 0, 0, 0, False, None) for id_ in (1, 2)]
SERVING = st.sampled_from([*Nearby, *OTHERS])
NAMES = [f"s{number}" for number in range(12)]
NOTHING = StatusPart(streams=(), unread={}, groups=(), unread_groups={})


def slices() -> Slices:
    return Slices(time.perf_counter)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """Streams with different lags and troubles."""
    with InProcess(tmp_path_factory.mktemp("parts") / "store.db", ManualClock()) as controller:
        settings = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}
        for place, name in enumerate(NAMES):
            controller.call("PUT", f"/v1/streams/{name}", settings)
            controller.note("slow", NOON - 1_000 * place, {"0": 5}, name)
            if place % 3:
                controller.note("fast", NOON, {"1": 5}, name)
        controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s1", "s2"]})
        controller.pass_time(10_000)
        yield controller


@pytest.fixture(scope="module")
def whole(served: InProcess) -> StatusPart:
    part: StatusPart = served.portal.call(served.app.state.controller.status.part, PartAsked(NAMES, ["g"]))
    return part


@given(st.dictionaries(st.sampled_from(NAMES), SERVING), st.dictionaries(st.sampled_from(["g", "h"]), SERVING))
def test_every_name_is_asked_for_once_and_where_it_is_served(
    streams: dict[str, Serving], groups: dict[str, Serving]
) -> None:
    served = [(Kind.STREAM, name, to) for name, to in streams.items()]
    served += [(Kind.GROUP, name, to) for name, to in groups.items()]
    parts = divided(served)
    assert {name: to for to, asked in parts.items() for name in asked.streams} == streams
    assert {name: to for to, asked in parts.items() for name in asked.groups} == groups
    assert sum(len(asked.streams) + len(asked.groups) for asked in parts.values()) == len(served)


def test_a_controller_is_asked_again_for_names_that_do_not_fit_into_a_call() -> None:
    names = [f"{'n' * 240}{number}" for number in range(100)]
    calls = PartAsked(names, ["g"]).calls()
    assert len(calls) == 5 and all(len("&stream=".join(["", *asked.streams])) <= NAMED_CHARACTERS for asked in calls)
    assert [name for asked in calls for name in asked.streams] == names and calls[-1].groups == ["g"]


class BreaksOff:
    """Another controller, which serves all and answers two calls."""

    def __init__(self) -> None:
        self.calls = 0

    def serving(self, kind: Kind, name: str) -> Serving:
        return OTHERS[0]

    def name_of(self, controller: Serving) -> str | None:
        return "c1"

    def speak_for(self, viewer: Viewer) -> None: ...

    async def part(self, controller: ControllerRow, asked: PartAsked, viewer: Viewer) -> StatusPart:
        self.calls += 1
        if self.calls == 3:
            raise OwnerUndecided(reason="the test wants that")
        return NOTHING


def test_what_a_controller_answers_before_it_breaks_off_stays_and_the_rest_is_named(served: InProcess) -> None:
    own, names = served.app.state.controller, [f"{'n' * 240}{number}" for number in range(100)]
    status = JointStatus(own.status, BreaksOff(), own.clock)
    part, served_by = asyncio.run(status.of_all(Viewer(), names, ["g"], slices()))
    answered = sum(len(asked.streams) for asked in PartAsked(names).calls()[:2])
    assert part.unread == dict.fromkeys(names[answered:], "owner_undecided")
    assert part.unread_groups == {"g": "owner_undecided"} and served_by == dict.fromkeys(names, "c1")


@given(data=st.data())
def test_parts_together_rank_as_one_controller_would(whole: StatusPart, data: st.DataObject) -> None:
    owners = [data.draw(SERVING) for _ in whole.streams]
    silent = data.draw(st.sampled_from(OTHERS))
    parts = []
    served = [(Kind.STREAM, each.stream, to) for each, to in zip(whole.streams, owners, strict=True)]
    for to, asked in divided(served).items():
        answered = tuple(each for each in whole.streams if each.stream in asked.streams)
        parts.append(unread(asked, "owner_undecided") if to is silent else structs.replace(NOTHING, streams=answered))
    found = together(parts)
    known = [each for each, to in zip(whole.streams, owners, strict=True) if to is not silent]
    missing = {each.stream for each, to in zip(whole.streams, owners, strict=True) if to is silent}

    ranked = asyncio.run(in_order_of_trouble(found.streams, slices()))
    assert list(ranked) == sorted(known, key=by_trouble)
    assert found.unread == dict.fromkeys(missing, "owner_undecided")
    names = data.draw(st.permutations(NAMES))
    assert [each.stream for each in in_order(names, found.streams)] == [name for name in names if name not in missing]


def test_what_is_not_known_is_counted_and_not_taken_for_fine(whole: StatusPart) -> None:
    first = structs.replace(NOTHING, streams=whole.streams[:3])
    found = together([first, unread(PartAsked(NAMES[3:], ["g"]), "not_owner")])
    groups = groups_of(found, {"g": ["s1", "s2"]})
    summary = asyncio.run(summarize(StreamsFound(streams=found.streams, unread=found.unread), groups, slices()))
    assert (summary.streams, summary.in_memory, summary.groups) == (len(NAMES), 3, 1)
    assert sum(summary.states.values()) == 3


def test_groups_without_a_status_are_hidden_from_who_may_not_see_their_streams() -> None:
    unread = {"g": UnreadGroup("not_owner", ["a", "b"]), "h": UnreadGroup("not_owner", ["a"])}
    found = GroupsFound(unread=unread)
    assert found.allowed(Viewer(pattern="a").may_see).unread.keys() == {"h"}
    assert found.allowed(Viewer().may_see).unread == unread
