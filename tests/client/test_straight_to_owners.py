"""Requests that go straight to the owner of a stream, over real sockets, sync and async alike."""

from __future__ import annotations

import json
from typing import Any

import pytest

from strandline.client.calls import Call, ask
from strandline.errors import NotOwner
from strandline.wire.problems import to_problem
from tests.client.conftest import QUICK, Flavour

NOT_OWNER = json.dumps(to_problem(NotOwner(stream="s", reason="it has moved"))).encode()


def call(path: str = "/v1/streams/s") -> Call[object]:
    return ask("GET", path, json.loads)


def other_stream() -> Call[object]:
    return call("/v1/streams/t")


def lines(server: Any) -> list[str]:
    return [each.line.split()[1] for each in server.received]


def test_after_one_pass_calls_go_straight_to_the_owner(flavour: Flavour, scripted: Any, other: Any) -> None:
    scripted.then(scripted.answer(200, b'"passed"', Strandline_Owner=other.url))
    other.then(other.answer(200, b'"straight"', Strandline_Owner=other.url))
    found = flavour.run(scripted.url, call, call, call, other_stream, patience=QUICK)
    assert found == ["passed", "straight", "straight", "passed"]
    assert lines(scripted) == ["/v1/streams/s", "/v1/streams/t"]


def test_the_greatest_fence_of_a_stream_goes_with_its_calls(flavour: Flavour, scripted: Any) -> None:
    fences = iter([5, 7, 7])
    for fence in fences:
        scripted.then(scripted.answer(200, b"1", Strandline_Fence=str(fence)))
    flavour.run(scripted.url, call, call, call, other_stream, patience=QUICK)
    assert [each.headers.get("strandline-fence") for each in scripted.received] == [None, "5", "7", None]


def test_the_token_goes_to_the_owner_too(flavour: Flavour, scripted: Any, other: Any) -> None:
    scripted.then(scripted.answer(200, b"1", Strandline_Owner=other.url))
    other.then(other.answer(200, b"1"))
    flavour.run(scripted.url, call, call, token="strandline_x", patience=QUICK)
    assert other.received[0].headers["authorization"] == "Bearer strandline_x"


def test_an_owner_that_is_not_reached_is_passed_over_without_a_pause(
    flavour: Flavour, scripted: Any, closed_port: str
) -> None:
    scripted.then(scripted.answer(200, b'"passed"', Strandline_Owner=closed_port))
    found = flavour.run(scripted.url, call, call, call, other_stream, patience=QUICK)
    assert found == ["passed"] * 4


def test_an_owner_that_breaks_off_is_not_tried_again_at_once(flavour: Flavour, scripted: Any, other: Any) -> None:
    scripted.then(scripted.answer(200, b'"passed"', Strandline_Owner=other.url))
    other.then(other.hang_up)
    assert flavour.run(scripted.url, call, call, call, other_stream, patience=QUICK) == ["passed"] * 4
    assert len(other.received) == 1


@pytest.mark.parametrize("status", [502, 503, 504])
def test_an_owner_that_cannot_serve_is_left_for_the_next_attempt(
    flavour: Flavour, scripted: Any, other: Any, status: int
) -> None:
    scripted.then(scripted.answer(200, b'"passed"', Strandline_Owner=other.url))
    other.then(other.answer(status, NOT_OWNER if status == 503 else b""), other.answer(200, b'"straight"'))
    assert flavour.run(scripted.url, call, call, call, patience=QUICK) == ["passed", "passed", "straight"]


def test_an_owner_among_the_addresses_is_asked_once_in_an_attempt(flavour: Flavour, scripted: Any, other: Any) -> None:
    scripted.then(scripted.answer(200, b'"passed"', Strandline_Owner=other.url))
    other.then(other.hang_up)
    found = flavour.run([scripted.url, other.url], call, call, call, patience=QUICK)
    assert found == ["passed"] * 3
    assert (len(scripted.received), len(other.received)) == (3, 1)


def test_a_refusal_of_the_owner_is_the_answer(flavour: Flavour, scripted: Any, other: Any) -> None:
    scripted.then(scripted.answer(200, b'"passed"', Strandline_Owner=other.url))
    other.then(other.answer(409, b'{"code": "stream_exists", "stream": "s"}'))

    def refused() -> Call[object]:
        with pytest.raises(Exception, match="stream"):
            yield from call()
        return "refused"

    assert flavour.run(scripted.url, call, refused, patience=QUICK) == ["passed", "refused"]
    assert len(scripted.received) == 1
