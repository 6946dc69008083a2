"""The log for operators: one line for each event, with its fields. `controller.operators.log_lines` formats them."""

from __future__ import annotations

import logging
from contextvars import ContextVar
from typing import Any, Final

LOGGER: Final = logging.getLogger("strandline")

# The id of the request that is being answered, None outside of any.
REQUEST_ID: Final[ContextVar[bytes | None]] = ContextVar("request_id", default=None)


def request_id() -> str | None:
    """The id of the request that is being answered."""
    given = REQUEST_ID.get()
    return None if given is None else given.decode("ascii")


def log_event(
    event: str,
    level: int = logging.INFO,
    *,
    error: BaseException | None = None,
    traceback: bool = True,
    **fields: Any,
) -> None:
    """Logs one line. Leaves out fields that are None; a field `request_id` replaces that of the current request. An
    error comes with its traceback, or else in the line alone."""
    if LOGGER.isEnabledFor(level):
        given = {name: value for name, value in fields.items() if value is not None}
        if error is not None and not traceback:
            given["error"] = f"{type(error).__name__}: {error}"
        LOGGER.log(level, event, exc_info=error if traceback else None, extra={"event": event, "fields": given})


class RateLimit:
    """Limits how many events of one kind are recorded: a burst, and then one for each interval. Counts the others."""

    __slots__ = ("_burst", "_filled_at", "_refill_ms", "_room", "omitted")

    def __init__(self, burst: int, refill_ms: int) -> None:
        """Lets `burst` in at once, and then one for each `refill_ms`."""
        self.omitted = 0  # since the last event that was let in
        self._burst = self._room = burst
        self._refill_ms = refill_ms
        self._filled_at = 0  # set once an event comes: until then there is room for all

    def allow(self, now: int) -> int | None:
        """How many events were left out before this one; None if this one is left out too."""
        filled = max(0, now - self._filled_at) // self._refill_ms
        self._room = min(self._burst, self._room + filled)
        self._filled_at = now if self._room == self._burst else self._filled_at + filled * self._refill_ms
        if not self._room:
            self.omitted += 1
            return None
        self._room -= 1
        omitted, self.omitted = self.omitted, 0
        return omitted
