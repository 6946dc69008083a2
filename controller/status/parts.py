"""The status of many streams and groups that several controllers serve: who is asked for what, and all the answers.

Pure functions. A part is what one controller answers. What it cannot answer is named in it, with the code of a problem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from itertools import chain
from typing import Final, NamedTuple, TypeAlias

from controller.cluster.records import ControllerRow, Kind
from strandline.wire.status import StatusPart, StreamStatus

NAMED_CHARACTERS: Final = 7_500  # of the streams or groups that one call names, in its path


class Nearby(Enum):
    """Who serves a stream or group, if it is no other controller."""

    HERE = auto()
    NOBODY = auto()  # it is on its way from one controller to another, or its controller was ended


Serving: TypeAlias = ControllerRow | Nearby


class PartAsked(NamedTuple):
    """Of which streams and groups one controller is asked."""

    streams: Sequence[str] = ()
    groups: Sequence[str] = ()

    def calls(self) -> list[PartAsked]:
        """The same in calls that have room for all of their names."""
        streams = [PartAsked(streams=names) for names in in_calls(self.streams)]
        return [*streams, *(PartAsked(groups=names) for names in in_calls(self.groups))]


def in_calls(names: Iterable[str]) -> list[list[str]]:
    """Names, as many in a call as there is room for in its path."""
    calls, room = list[list[str]](), 0
    for name in names:
        needed = len(name) + len("&stream=")
        if needed > room:
            calls.append([])
            room = NAMED_CHARACTERS
        calls[-1].append(name)
        room -= needed
    return calls


def divided(served: Iterable[tuple[Kind, str, Serving]]) -> Mapping[Serving, PartAsked]:
    """Who is asked for what. Names stay in order."""
    asked: dict[Serving, tuple[list[str], list[str]]] = {}
    for kind, name, controller in served:
        streams, groups = asked.setdefault(controller, ([], []))
        (streams if kind is Kind.STREAM else groups).append(name)
    return {controller: PartAsked(*names) for controller, names in asked.items()}


def unread(asked: PartAsked, code: str) -> StatusPart:
    """The part of a controller that answers nothing."""
    names, groups = dict.fromkeys(asked.streams, code), dict.fromkeys(asked.groups, code)
    return StatusPart(streams=(), unread=names, groups=(), unread_groups=groups)


def together(parts: Sequence[StatusPart]) -> StatusPart:
    """One part with everything."""
    return StatusPart(
        streams=tuple(chain.from_iterable(each.streams for each in parts)),
        unread={name: code for each in parts for name, code in each.unread.items()},
        groups=tuple(chain.from_iterable(each.groups for each in parts)),
        unread_groups={name: code for each in parts for name, code in each.unread_groups.items()},
    )


def in_order(names: Iterable[str], streams: Iterable[StreamStatus]) -> tuple[StreamStatus, ...]:
    """Streams in the order of these names."""
    by_name = {each.stream: each for each in streams}
    return tuple([by_name[name] for name in names if name in by_name])
