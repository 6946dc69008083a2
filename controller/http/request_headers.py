"""The headers of a request, by name."""

from __future__ import annotations

from starlette.types import Scope


def sent_headers(scope: Scope) -> dict[bytes, bytes]:
    """The headers of a request by name. Those that decide something occur once: `browser_gate.py` sees to it."""
    given = scope["headers"]
    known: tuple[object, dict[bytes, bytes]] | None = scope.get("strandline.headers")
    if known is None or known[0] is not given:  # a copy of a scope may have headers of its own
        known = scope["strandline.headers"] = given, dict(given)
    return known[1]
