"""The controllers that serve a store."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta


class ControllerState(StrEnum):
    LIVE = "live"
    DRAINING = "draining"  # it hands everything over to the others, and ends
    NO_LEASE = "no_lease"  # it cannot reach the store in time, and serves nothing
    LOST = "lost"  # it was killed, or cut off from the store: it fell silent, and others took over what it served
    ENDED = "ended"  # a while ago, and no controller has its name since


class ControllerReply(msgspec.Struct, frozen=True, kw_only=True):
    """A controller, as the one that was asked sees it. One that serves a store alone has no name, address or shards."""

    name: str | None
    address: Annotated[str | None, Meta(description="where the other controllers reach it")]
    client_address: Annotated[str | None, Meta(description="where clients may call it directly")]
    version: str
    since: Annotated[int, Meta(description="when it began to serve, or restarted after it had lost its lease")]
    state: Annotated[ControllerState, Meta(description="`no_lease` says only the controller that was asked, of itself")]
    shards: Annotated[int | None, Meta(description="how many it owns; a shard has some of the streams and groups")]
    beat_age_ms: Annotated[
        int | None,
        Meta(description="how long ago its last sign of life in the store was seen; two a second are sent"),
    ]


class ControllersReply(msgspec.Struct, frozen=True, kw_only=True):
    """All controllers of the store, and some that ended while the one that was asked was there."""

    asked: Annotated[str | None, Meta(description="the name of the controller that answers")]
    controllers: tuple[ControllerReply, ...]


class DrainReply(msgspec.Struct, frozen=True, kw_only=True):
    """A controller that has begun to hand everything over, or had begun before."""

    controller: str
    state: ControllerState = ControllerState.DRAINING
