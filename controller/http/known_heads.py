"""Heads of requests that had direct answers. Writers send the same ones again and again, on any connection. So they are
parsed and checked once, and then found by their bytes."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, TypeAlias

from controller.http.direct import DirectCall
from controller.limits import KNOWN_HEADS

END_OF_HEAD: Final = b"\r\n\r\n"
Door: TypeAlias = tuple[object, object]  # the address of this controller that was called, and the scheme


class KnownHead(NamedTuple):
    """What a head says."""

    scope: dict[str, Any]  # of a request with this head, once it was let in
    call: DirectCall
    body_bytes: int


class KnownHeads:
    """The heads that a controller knows, by the door at which they came. If there are too many, all are forgotten."""

    def __init__(self, most: int = KNOWN_HEADS) -> None:
        self._most = most
        self._at: dict[Door, dict[bytes, KnownHead]] = {}

    def at(self, door: Door) -> dict[bytes, KnownHead]:
        """Those that came at a door; the same object each time. Callers only read it."""
        return self._at.setdefault(door, {})

    def remember(self, door: Door, head: bytes, known: KnownHead) -> None:
        heads = self.at(door)
        if len(heads) >= self._most:
            heads.clear()
        heads[head] = known
