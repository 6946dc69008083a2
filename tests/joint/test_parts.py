"""Who is asked for the status of what, what is sent, and what becomes of the answers: without a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cluster.records import ControllerRow, Kind
from controller.slices import Slices
from controller.status.overview import GroupsFound, StreamsFound, UnreadGroup, in_order_of_trouble, summarize
from controller.status.parts import (
    STATUS_PART_NAMES,
    Nearby,
    PartAsked,
    Serving,
    StatusPart,
    divided,
    in_order,
    together,
    untold,
)
from controller.status.status_codec import (
    STATUS_SENT_WRITERS,
    NotUnderstood,
    decode_details,
    decode_part,
    encode_details,
    encode_part,
)
from controller.status.status_view import Viewer
from controller.status.stream_status import StreamDetails, StreamStatus, by_trouble
from strandline.core.cut import NOTHING
from tests.served import NOON, InProcess, ManualClock

OTHERS = [ControllerRow(id_, f"c{id_}", f"http://c{id_}", None, "1", 0, 0, 0, False, None) for id_ in (1, 2)]
SERVING = st.sampled_from([*Nearby, *OTHERS])
NAMES = [f"s{number}" for number in range(12)]


def slices() -> Slices:
    return Slices(time.perf_counter)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InProcess]:
    """Streams with different lags and troubles, one of them with very many writers."""
    with InProcess(tmp_path_factory.mktemp("parts") / "store.db", ManualClock()) as controller:
        settings = {"segments": 2, "mark_interval_ms": 0, "max_ahead_ms": None}
        for place, name in enumerate(NAMES):
            controller.call("PUT", f"/v1/streams/{name}", settings)
            controller.note("slow", NOON - 1_000 * place, {"0": 5}, name)
            if place % 3:
                controller.note("fast", NOON, {"1": 5}, name)
        notes = [{"writer": f"w{each:04}", "time": NOON, "position": {}} for each in range(STATUS_SENT_WRITERS)]
        controller.call("POST", "/v1/streams/s1/notes", {"notes": notes[:1_000]})
        controller.call("POST", "/v1/streams/s1/notes", {"notes": notes[1_000:]})
        controller.call("PUT", "/v1/reader-groups/g", {"streams": ["s1", "s2"]})
        controller.pass_time(10_000)
        yield controller


@pytest.fixture(scope="module")
def whole(served: InProcess) -> StatusPart:
    part: StatusPart = served.portal.call(served.app.state.controller.status.part, PartAsked(tuple(NAMES), ("g",)))
    return part


@given(st.dictionaries(st.sampled_from(NAMES), SERVING), st.dictionaries(st.sampled_from(["g", "h"]), SERVING))
def test_every_name_is_asked_for_once_and_where_it_is_served(
    streams: dict[str, Serving], groups: dict[str, Serving]
) -> None:
    served = [(Kind.STREAM, name, to) for name, to in streams.items()]
    served += [(Kind.GROUP, name, to) for name, to in groups.items()]
    parts = divided(served)
    assert len({to for to, _ in parts}) == len(parts)
    assert {name: to for to, asked in parts for name in asked.streams} == streams
    assert {name: to for to, asked in parts for name in asked.groups} == groups
    assert sum(len(asked.streams) + len(asked.groups) for _, asked in parts) == len(served)


def test_a_controller_is_asked_again_for_names_that_do_not_fit_into_a_call() -> None:
    names = [f"s{number}" for number in range(2 * STATUS_PART_NAMES + 1)]
    parts = divided([(Kind.STREAM, name, OTHERS[0]) for name in names])
    assert [len(asked.streams) for _, asked in parts] == [STATUS_PART_NAMES, STATUS_PART_NAMES, 1]
    assert [name for _, asked in parts for name in asked.streams] == names


@given(data=st.data())
def test_parts_together_rank_as_one_controller_would(whole: StatusPart, data: st.DataObject) -> None:
    owners = [data.draw(SERVING) for _ in whole.streams]
    silent = data.draw(st.sampled_from(OTHERS))
    parts = []
    for to, asked in divided([(Kind.STREAM, each.name, to) for each, to in zip(whole.streams, owners, strict=True)]):
        told = [each for each in whole.streams if each.name in asked.streams]
        parts.append(untold(asked, "owner_undecided") if to is silent else StatusPart(streams=told))
    found = together(parts)
    known = [each for each, to in zip(whole.streams, owners, strict=True) if to is not silent]
    missing = {each.name for each, to in zip(whole.streams, owners, strict=True) if to is silent}

    ranked = asyncio.run(in_order_of_trouble(found.streams, slices()))
    assert list(ranked) == sorted(known, key=by_trouble)
    assert found.unread == dict.fromkeys(missing, "owner_undecided")
    names = data.draw(st.permutations(NAMES))
    assert [each.name for each in in_order(names, found.streams)] == [name for name in names if name not in missing]


def test_what_is_not_known_is_counted_and_not_taken_for_fine(whole: StatusPart) -> None:
    found = together([StatusPart(streams=whole.streams[:3]), untold(PartAsked(tuple(NAMES[3:]), ("g",)), "not_owner")])
    groups = GroupsFound(groups=tuple(found.groups), unread={"g": UnreadGroup("not_owner", ["s1", "s2"])})
    summary = asyncio.run(summarize(StreamsFound(streams=tuple(found.streams), unread=found.unread), groups, slices()))
    assert (summary.streams, summary.in_memory, summary.groups) == (len(NAMES), 3, 1)
    assert sum(summary.states.values()) == 3


def test_groups_without_a_status_are_hidden_from_who_may_not_see_their_streams() -> None:
    unread = {"g": UnreadGroup("not_owner", ["a", "b"]), "h": UnreadGroup("not_owner", ["a"])}
    found = GroupsFound(unread=unread)
    assert found.allowed(Viewer(pattern="a").may_see).unread.keys() == {"h"}
    assert found.allowed(Viewer().may_see).unread == unread


def test_a_part_arrives_as_it_was_sent_without_cuts(whole: StatusPart) -> None:
    body = asyncio.run(encode_part(whole, slices()))
    arrived = asyncio.run(decode_part(body, slices()))
    assert list(map(summary_of, arrived.streams)) == list(map(summary_of, whole.streams))
    assert list(arrived.groups) == list(whole.groups) and arrived.groups
    assert all(key.mark is None or key.mark.cut == NOTHING for each in arrived.streams for key in each.keys)


def summary_of(status: StreamStatus) -> tuple[Any, ...]:
    marks = [(key.key, key.marked_at, key.excluded, key.state, key.holder, key.lag_ms) for key in status.keys]
    return status.name, status.seen_at, status.writers, status.notes, status.worst.key, status.state, marks


def test_details_arrive_with_segments_positions_and_the_first_writers(served: InProcess) -> None:
    details = served.portal.call(served.app.state.controller.status.of_stream, "s1")
    arrived = decode_details(StreamDetails, encode_details(details))
    assert list(arrived.graph) == list(details.graph) and arrived.noted == details.noted
    assert arrived.writers[""] == details.writers[""][:STATUS_SENT_WRITERS] != details.writers[""]
    assert sum(arrived.stream.keys[0].writers.values()) == len(details.writers[""])
    assert arrived.last_entry == details.last_entry


@pytest.mark.parametrize("body", [b"", b"\x00", b'{"streams":[]}', b"\xff" * 9])
def test_an_answer_of_another_shape_is_not_understood(body: bytes) -> None:
    with pytest.raises(NotUnderstood):
        asyncio.run(decode_part(body, slices()))
    with pytest.raises(NotUnderstood):
        decode_details(StreamDetails, body)
