"""What a member tells whoever observes it: for the log, and for counting. No rule depends on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from controller.cluster.records import ControllerRow


@dataclass(frozen=True, slots=True)
class LeaseLost:
    """The member may serve nothing until it has begun anew."""

    shards: int  # that it owned


@dataclass(frozen=True, slots=True)
class StartedOver:
    """The member has a lease again."""

    shards: int  # that it owns at once


@dataclass(frozen=True, slots=True)
class ShardsTaken:
    """Shards that nobody had are the member's."""

    shards: int
    ended: Mapping[str, int]  # of these, those of controllers that have ended, by their names


@dataclass(frozen=True, slots=True)
class ShardsReleased:
    """The member gave shards to the others."""

    shards: int


@dataclass(frozen=True, slots=True)
class OtherEnded:
    """The member ended a controller that stood still for a whole lease."""

    row: ControllerRow


@dataclass(frozen=True, slots=True)
class AddressShared:
    """Another controller has the address of this one: calls can reach only one of them."""

    row: ControllerRow


@dataclass(frozen=True, slots=True)
class Drained:
    """The member has handed everything over, and has ended its row."""


MemberEvent: TypeAlias = LeaseLost | StartedOver | ShardsTaken | ShardsReleased | OtherEnded | AddressShared | Drained
