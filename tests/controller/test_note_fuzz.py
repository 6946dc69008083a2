"""Notes that are nearly right: whatever is done to one, it is taken or refused, and refused it changes nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

WRITERS = "/v1/streams/s/writers"
REFUSED = (400, 409, 413, 422)

NUMBERS: st.SearchStrategy[Any] = st.sampled_from(
    [
        0,
        1,
        -1,
        5,
        2**53 - 1,
        2**53,
        -(2**53),
        2**63,
        2**64,
        10**30,
        0.0,
        -0.0,
        1.5,
        1e308,
        True,
        False,
        None,
        "1",
        "",
        [],
    ]
)
NAMES = st.sampled_from(
    ["a", "0", "", ".", "-", "a" * 249, "a" * 250, "a\x00", "\x1b[2J", "ä", "a/b", "a b", "\u202e", "\ud800"]
)
NOTES = st.fixed_dictionaries(
    {"writer": NAMES, "position": st.dictionaries(NAMES, NUMBERS, max_size=2)},
    optional={
        "time": NUMBERS,
        "times": st.dictionaries(NAMES, NUMBERS, max_size=2),
        "epoch": NUMBERS,
        "newest": NUMBERS | st.dictionaries(NAMES, NUMBERS, max_size=2),
        "stream": NAMES,
    },
)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, in_process: Any) -> Any:
    with in_process(tmp_path_factory.mktemp("notes") / "store.db") as controller:
        controller.call("PUT", "/v1/streams/s", {"segments": 1, "mark_interval_ms": 0, "max_ahead_ms": None})
        controller.note("a", 5, {"0": 1})
        yield controller


def state(controller: Any) -> Any:
    return controller.call("GET", "/v1/streams/s"), controller.call("GET", f"{WRITERS}?limit=1000"), controller.marks()


@settings(max_examples=100)
@given(note=NOTES, path=st.sampled_from(["/v1/streams/s/notes", "/v1/notes"]), many=st.booleans())
def test_odd_values_are_taken_or_refused_and_refused_they_change_nothing(
    shared: Any, note: dict[str, Any], path: str, many: bool
) -> None:
    before = state(shared)

    answer = shared.request("POST", path, content=json.dumps({"notes": [note]} if many else note).encode())

    problem = answer.json()
    if answer.status_code == 200 and many:
        (problem,) = problem["results"]
    assert answer.status_code == 200 or answer.status_code in REFUSED, answer.text
    if "code" in problem:
        assert problem["status"] in (404, *REFUSED) and problem["detail"]
        assert state(shared) == before
