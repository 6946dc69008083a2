"""The controllers that serve a store."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta


class ControllerReply(msgspec.Struct, frozen=True, kw_only=True):
    """A controller, as the store has it."""

    name: Annotated[str, Meta(description="its host, and its process there")]
    version: str
    since: Annotated[int, Meta(description="when it began to serve")]
    seen_at: Annotated[int, Meta(description="when it last recorded that it serves, which it does once a second")]


class ControllersReply(msgspec.Struct, frozen=True, kw_only=True):
    """The controllers of the store."""

    controllers: tuple[ControllerReply, ...]
