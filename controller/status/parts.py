"""The status of many streams and groups that several controllers serve: who is asked for what, and all the answers.

Pure functions. A part is what one controller tells. What it cannot tell is named in it, with the code of a problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from controller.cluster.records import ControllerRow, Kind
from controller.status.stream_status import GroupStatus, StreamStatus

STATUS_PART_NAMES: Final = 4_000  # of streams and groups, in one call to another controller


class Nearby(Enum):
    """Who serves a stream or group, if it is no other controller."""

    HERE = auto()
    NOBODY = auto()  # it is on its way from one controller to another, or its controller was ended


Serving: TypeAlias = ControllerRow | Nearby


class PartAsked(NamedTuple):
    """Of which streams and groups one controller is asked."""

    streams: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPart:
    """What one controller tells. What was asked for and is not in it does not exist."""

    streams: Sequence[StreamStatus] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    groups: Sequence[GroupStatus] = ()
    unread_groups: Mapping[str, str] = field(default_factory=dict)


def divided(served: Iterable[tuple[Kind, str, Serving]]) -> list[tuple[Serving, PartAsked]]:
    """Who is asked for what: each controller once, or again for each STATUS_PART_NAMES names. Names stay in order."""
    of_each: dict[Serving, list[tuple[Kind, str]]] = {}
    for kind, name, controller in served:
        of_each.setdefault(controller, []).append((kind, name))
    return [
        (controller, _asked(named[first : first + STATUS_PART_NAMES]))
        for controller, named in of_each.items()
        for first in range(0, len(named), STATUS_PART_NAMES)
    ]


def _asked(named: Sequence[tuple[Kind, str]]) -> PartAsked:
    streams = tuple([name for kind, name in named if kind is Kind.STREAM])
    return PartAsked(streams, tuple([name for kind, name in named if kind is Kind.GROUP]))


def untold(asked: PartAsked, code: str) -> StatusPart:
    """The part of a controller that told nothing."""
    return StatusPart(unread=dict.fromkeys(asked.streams, code), unread_groups=dict.fromkeys(asked.groups, code))


def together(parts: Sequence[StatusPart]) -> StatusPart:
    """One part with everything."""
    return StatusPart(
        streams=list(chain.from_iterable(each.streams for each in parts)),
        unread={name: code for each in parts for name, code in each.unread.items()},
        groups=list(chain.from_iterable(each.groups for each in parts)),
        unread_groups={name: code for each in parts for name, code in each.unread_groups.items()},
    )


def in_order(names: Iterable[str], streams: Iterable[StreamStatus]) -> tuple[StreamStatus, ...]:
    """Streams in the order of these names."""
    by_name = {each.name: each for each in streams}
    return tuple([by_name[name] for name in names if name in by_name])
