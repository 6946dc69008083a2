"""What forwarding hears of the owners of streams, with real controllers on one PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from controller.cluster.actions import CallRoute, Hold, PassOn, Refusal, Refuse, Serve
from controller.cluster.member import FREE_SHARDS_CHECK_MS
from controller.cluster.records import LEASE_MS, Kind
from controller.joint.ownership import Ownership
from tests.joint.nodes import Node, Nodes, nodes

pytestmark = pytest.mark.full

STREAMS = [f"s{number}" for number in range(12)]


def play(url: str, scene: Callable[[Nodes], Awaitable[None]]) -> None:
    async def whole() -> None:
        async with nodes(url) as all_nodes:
            await scene(all_nodes)

    asyncio.run(whole())


def seen_by(node: Node) -> Ownership:
    ownership = Ownership(node.host.monotonic)
    ownership.follow(node.driver)
    return ownership


async def settled(ownership: Ownership, kind: Kind, name: str) -> CallRoute:
    """The route once the owner is known."""
    while isinstance(route := ownership.route(kind, name), Hold):
        assert await ownership.changed(route.until)
    return route


def test_before_a_controller_begins_every_call_is_refused(postgres_url: str) -> None:
    async def scene(_: Nodes) -> None:
        node = Node(postgres_url, "one")
        without = Ownership(node.host.monotonic)
        for ownership in (without, seen_by(node)):
            assert ownership.route(Kind.STREAM, "s0") == Refuse(Refusal.NOT_SERVING)
            assert ownership.me == 0
        without.refresh()
        assert not await without.changed(node.host.monotonic() + 1)
        await node.crash()

    play(postgres_url, scene)


def test_a_call_is_served_by_its_owner_and_passed_on_by_the_other(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        one, two = await all_nodes.start("one", "two")
        await all_nodes.until_even()
        for kind in Kind:
            for stream in STREAMS:
                routes = {node.name: seen_by(node).route(kind, stream) for node in (one, two)}
                (owner,) = (node for node in (one, two) if isinstance(routes[node.name], Serve))
                other = two if owner is one else one
                passed = await settled(seen_by(other), kind, stream)
                assert isinstance(passed, PassOn) and passed.to.address == f"http://{owner.name}"
                refused = seen_by(other).route(kind, stream, passed_on_to=other.member.id)
                assert refused == Refuse(Refusal.NOT_OWNER)
                assert isinstance(seen_by(owner).route(kind, stream, passed_on_to=owner.member.id), Serve)

    play(postgres_url, scene)


def test_a_call_waits_for_a_shard_whose_tenure_has_not_begun(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        node = Node(postgres_url, "one")
        ownership = seen_by(node)
        found: list[type] = []
        starting = asyncio.create_task(node.start())
        while not node.owns("s0"):
            found.append(type(ownership.route(Kind.STREAM, "s0")))
            assert await ownership.changed(node.host.monotonic() + LEASE_MS)
        assert Serve not in found and Hold in found
        assert isinstance(ownership.route(Kind.STREAM, "s0"), Serve)
        await starting
        await node.crash()

    play(postgres_url, scene)


def test_a_paused_controller_refuses_until_it_has_begun_anew(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        (one,) = await all_nodes.start("one")
        await all_nodes.until_even()
        ownership, before = seen_by(one), one.member.id
        one.host.paused_ms += LEASE_MS
        assert ownership.route(Kind.STREAM, "s0") == Refuse(Refusal.NOT_SERVING)
        await all_nodes.until(lambda: one.owns("s0"))
        assert isinstance(ownership.route(Kind.STREAM, "s0"), Serve) and ownership.me != before

    play(postgres_url, scene)


def test_a_refresh_brings_the_next_beat_forward(postgres_url: str) -> None:
    async def scene(all_nodes: Nodes) -> None:
        (one,) = await all_nodes.start("one")
        await all_nodes.until_even()
        ownership = seen_by(one)
        ownership.refresh()
        due = one.member.next_due()
        assert due is None or due <= one.host.monotonic() + FREE_SHARDS_CHECK_MS

    play(postgres_url, scene)
