"""Which shard a stream or a group belongs to, and how many shards a controller is to have.

Nobody has to agree on who is alive: a controller takes what is free, up to its fair share by what it last saw, and the
store decides. This is even to two shards, and a controller that joins or leaves moves no more than it must.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from zlib import crc32

from controller.cluster.records import Kind


def shard_of(kind: Kind, name: str, shards: int) -> int:
    """The shard of a stream or a reader group, in a store with so many shards. It never changes."""
    return crc32(f"{kind}/{name}".encode()) % shards


def fair_share(shards: int, controllers: int) -> int:
    """The most shards that one of so many controllers keeps."""
    return -(-shards // controllers)


def shards_to_take(free: Collection[int], owned: int, share: int, place: int, controllers: int) -> tuple[int, ...]:
    """The free shards to ask for, in order. Controllers with different places begin at different ones, so that two
    that look at once seldom ask for the same."""
    ordered = sorted(free)
    start = len(ordered) * place // controllers
    return tuple(sorted([*ordered[start:], *ordered[:start]][: max(0, share - owned)]))


def shards_to_hand_over(owned: Sequence[int], share: int, most: int) -> tuple[int, ...]:
    """The shards that go to others now: what is beyond the share, but not more than `most` at once."""
    return tuple(sorted(owned)[share:][:most])
