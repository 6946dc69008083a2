"""The log for operators: one line for each event, with its fields. `controller.records.log_lines` formats them."""

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
