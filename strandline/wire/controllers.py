"""The controllers that serve a store."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta


class ControllerState(StrEnum):
    """Whether a controller is there."""

    SERVING = "serving"
    AWAY = "away"  # it has not recorded that it serves for five seconds: it was killed, or cannot reach the store
    ENDED = "ended"  # in order


class ControllerReply(msgspec.Struct, frozen=True, kw_only=True):
    """A controller, as the store has it."""

    name: Annotated[str, Meta(description="its host, and its process there")]
    version: str
    state: Annotated[ControllerState, Meta(description="away once it was not seen for five seconds without an end")]
    since: Annotated[int, Meta(description="when it began to serve")]
    seen_at: Annotated[
        int,
        Meta(description="when it last recorded that it serves, which it does once a second, or that it ends"),
    ]


class ControllersReply(msgspec.Struct, frozen=True, kw_only=True):
    """The controllers of the store. One that ended in order is listed for an hour; one that is away until another one
    takes its place, or for a day."""

    at: Annotated[int, Meta(description="the clock of the controller that answers")]
    controllers: tuple[ControllerReply, ...]

    @property
    def states(self) -> Counter[str]:
        """How many are in each state."""
        return Counter(each.state.value for each in self.controllers)
