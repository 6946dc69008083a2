"""Our clients among several controllers: they learn the owner of a stream, go to it, and come back when it is away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from strandline.client import calls
from strandline.client.calls import Call
from strandline.client.http import AsyncConnection, Connection
from strandline.core.note import Note
from tests.forwarding.conftest import STREAM, Cluster, Make, RealController

pytestmark = pytest.mark.full


class Client:
    """A client of either kind, to be used in the same way."""

    def __init__(self, kind: str, *controllers: RealController) -> None:
        addresses = [each.url for each in controllers]
        self._runner = asyncio.Runner() if kind == "async" else None
        self._connection = Connection(addresses) if self._runner is None else AsyncConnection(addresses)

    def run(self, call: Call[Any]) -> Any:
        made = self._connection.run(call)
        return made if self._runner is None else self._runner.run(made)

    def note(self, moment: int) -> list[int]:
        noted = self.run(calls.note("s", Note(writer="w", times={"": moment}, position={"0": moment})))
        return [mark.time for mark in noted.marks]

    def close(self) -> None:
        closed = self._connection.close()
        if self._runner is not None:
            self._runner.run(closed)  # type: ignore[arg-type]  # a coroutine of the async kind
            self._runner.close()


@pytest.fixture(params=["sync", "async"])
def client(request: pytest.FixtureRequest, three: list[RealController]) -> Iterator[Client]:
    """It knows the first two controllers."""
    client = Client(request.param, *three[:2])
    yield client
    client.close()


@pytest.fixture
def three(cluster: Cluster, make: Make) -> list[RealController]:
    """Clients may call each of them; all have the stream `s`, and the third one owns it."""
    made = [make(id_, for_clients=True) for id_ in (1, 2, 3)]
    for each in made:
        assert each.ask("PUT", "/v1/streams/s", STREAM).status_code == 201
    cluster.give("s", 3)
    return made


def answered(controller: RealController) -> int:
    """How many answers a controller has given, its own or others'."""
    return sum(controller.app.state.controller.counts.responses.values())


def test_calls_go_straight_to_the_owner_after_one_pass(client: Client, three: list[RealController]) -> None:
    first, second, third = three
    assert client.note(1) == [1]
    before = answered(first) + answered(second)
    assert client.note(2) == [2]
    assert client.run(calls.time_window("s", {"0": 2})).lower == 2
    assert answered(first) + answered(second) == before
    assert [mark["time"] for mark in third.ask("GET", "/v1/streams/s/marks").json()["marks"]] == [1, 2]


def test_calls_follow_a_stream_that_was_handed_over(
    client: Client, three: list[RealController], cluster: Cluster
) -> None:
    client.note(1)
    cluster.give("s", 2)
    assert client.note(2) == [2]  # passed on by the former owner
    before = answered(three[2])
    assert client.note(3) == [3]
    assert answered(three[2]) == before


def test_calls_go_by_the_list_when_the_owner_is_gone(
    client: Client, three: list[RealController], cluster: Cluster
) -> None:
    client.note(1)
    three[2].stop()
    cluster.give("s", 2, seen_by={1, 2})
    assert client.note(2) == [2]
    assert client.note(3) == [3]


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_client_that_moves_to_another_store_is_answered(kind: str, three: list[RealController], make: Make) -> None:
    """Its fence is that of a stream of the same name. The other store is served by one controller alone."""
    alone = make(4, alone=True)
    assert alone.ask("PUT", "/v1/streams/s", STREAM).status_code == 201
    three[2].directory.fence = 2**40
    client = Client(kind, three[2], alone)
    assert client.note(1) == [1]
    three[2].stop()
    assert client.note(2) == [2]
    client.close()
