"""The calls for journals and the time index: what they send, and what they make of the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strandline.client import calls, group_calls
from strandline.client.calls import Call, Response
from strandline.core.time_index import IndexEntry
from strandline.errors import InvalidName, UnexpectedAnswer
from strandline.wire.journal import JournalEntry, JournalPage
from strandline.wire.streams import TimeIndexPage


def path_of(call: Call[Any]) -> str:
    request = next(call)
    call.close()
    assert (request.method, request.body, request.repeatable) == ("GET", None, True)
    return request.path


def answered(call: Call[Any], body: object) -> Any:
    next(call)
    with pytest.raises(StopIteration) as stop:
        call.send(Response(200, {}, json.dumps(body).encode()))
    return stop.value.value


def test_each_asks_for_what_it_is_told_and_leaves_out_the_rest() -> None:
    assert path_of(calls.journal("orders")) == "/v1/streams/orders/journal"
    assert path_of(calls.journal("orders", after=7, limit=5)) == "/v1/streams/orders/journal?after=7&limit=5"
    assert path_of(group_calls.group_journal("g", after=7)) == "/v1/reader-groups/g/journal?after=7"
    assert path_of(calls.time_index("orders", "0")) == "/v1/streams/orders/segments/0/time-index"
    asked = calls.time_index("orders", "0", key="ship", from_offset=3, token=0, limit=9)
    assert path_of(asked) == "/v1/streams/orders/segments/0/time-index?key=ship&from_offset=3&token=0&limit=9"


def test_names_are_checked_before_anything_is_sent() -> None:
    for call in (calls.journal("a b"), calls.time_index("s", "a/b"), calls.time_index("s", "0", key="a b")):
        with pytest.raises(InvalidName):
            next(call)


def test_a_journal_is_read() -> None:
    entry = {"seq": 3, "at": 5, "topic": "action", "kind": "sealed", "by": None, "details": {"final": {"0": 9}}}
    page = {"entries": [entry], "next": 3, "omitted": {"fenced": 2}, "more": "of a newer release"}

    assert answered(calls.journal("orders"), page) == JournalPage(
        (JournalEntry(seq=3, at=5, topic="action", kind="sealed", by=None, details={"final": {"0": 9}}),),
        3,
        {"fenced": 2},
    )


def test_a_time_index_is_read() -> None:
    page = {"entries": [{"offset": 4, "time": 100}, {"offset": 9, "time": 200}], "token": 17}

    assert answered(calls.time_index("orders", "0"), page) == TimeIndexPage(
        (IndexEntry(4, 100), IndexEntry(9, 200)), 17
    )


@pytest.mark.parametrize("body", [{}, {"entries": [{}], "token": 1}, {"entries": [], "token": "1"}, []])
def test_another_answer_is_not_made_to_fit(body: object) -> None:
    call = calls.time_index("orders", "0")
    next(call)

    with pytest.raises(UnexpectedAnswer):
        call.send(Response(200, {}, json.dumps(body).encode()))
