"""Whether a controller answers, and whether it can serve."""

from __future__ import annotations

from typing import Literal

import msgspec


class Health(msgspec.Struct, frozen=True):
    """The process answers."""

    status: Literal["ok"] = "ok"


class ClockReply(msgspec.Struct, frozen=True, kw_only=True):
    """The state of the controller's clock, and by how much the clock that it follows is ahead: 0, or less."""

    state: str
    host_ahead_ms: int


class ReadyReply(msgspec.Struct, frozen=True, kw_only=True):
    """The store is reachable and its schema current."""

    status: Literal["ready"] = "ready"
    clock: ClockReply
