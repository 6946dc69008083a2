"""`strandline api`: any call of the HTTP API, with its values as a query or a body."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest


def test_values_of_a_get_are_its_query_and_the_answer_is_printed(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    for time in (100, 200, 300):
        served.note(stream, "w1", time, s0=time)
    done = strandline("api", "GET", f"streams/{stream}/marks", "after=1", "limit=1")
    assert (done.code, [mark["time"] for mark in json.loads(done.out)["marks"]]) == (0, [200])
    assert json.loads(strandline("api", "get", f"/v1/streams/{stream}/marks?after=2").out)["marks"][0]["seq"] == 3
    both = strandline("api", "GET", "status", f"stream={stream}", f"stream={served.stream()}", "--json")
    assert len(json.loads(both.out)["streams"]) == 2


def test_values_of_other_calls_are_their_body(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    made = strandline("api", "PUT", f"streams/{stream}-2", "segments=open", "min_writers=2")
    assert made.code == 0 and json.loads(made.out)["min_writers"] == 2
    noted = strandline("api", "POST", f"streams/{stream}/notes", "writer=w1", "time=5", 'position={"0": 7}')
    assert json.loads(noted.out)["marks"][0]["cut"] == {"0": 7}
    assert strandline("api", "PATCH", f"streams/{stream}", "writer_timeout_ms=null").code == 0
    assert served.call("GET", f"/v1/streams/{stream}")["writer_timeout_ms"] is None


def test_a_call_without_an_answer_prints_nothing(served: Any, strandline: Callable[..., Any]) -> None:
    stream = served.stream()
    assert strandline("api", "DELETE", f"streams/{stream}").out == ""
    assert strandline("api", "GET", f"streams/{stream}").code == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("FETCH", "streams"), "'FETCH'"),
        (("GET", "http://elsewhere/v1/streams"), "'http://elsewhere/v1/streams' is no path"),
        (("GET", "streams/a b"), "'streams/a b' is no path"),
        (("GET", "streams/s/marks/live?after=5"), "`strandline marks STREAM --follow`"),
        (("GET", "streams", "limit"), "'limit' is no value: give it as name=value"),
        (("GET", "streams", "=5"), "'=5' is no value"),
        (("GET", "streams", "after=null"), "'after' is null, which no query can have"),
        (("PUT", "streams/s", "segments=1", "segments=2"), "'segments' is given twice"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_bad_word_is_named_before_anything_is_called(
    strandline: Callable[..., Any], words: tuple[str, ...], said: str
) -> None:
    done = strandline("api", *words)
    assert (done.code, done.out) == (2, "") and said in done.err


def test_a_refused_value_is_named_by_the_controller(served: Any, strandline: Callable[..., Any]) -> None:
    done = strandline("api", "PATCH", f"streams/{served.stream()}", "min_writers=many")
    assert (done.code, done.out) == (1, "") and "min_writers" in done.err
    again = strandline("api", "GET", "nothing", "--json")
    assert json.loads(again.err)["command"] == "api"
