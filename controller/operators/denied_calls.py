"""Logs calls that were refused for a missing token or missing rights, at a limited rate.

The rate is for each code and not for each caller, since addresses and tokens can be made up. Denied calls are in no
journal: who has no right to a stream must not write into what others read about it.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from functools import partial
from typing import Any, Final

from controller.clock import Clock
from controller.operator_log import RateLimit, log_event
from strandline.errors import Denied

DENIALS_REFILL_MS: Final = 10_000  # between two lines about refused calls, after a burst; those left out are counted

DENIALS_BURST_LINES: Final = 20  # of each code at once, 401, 403 and 421; then one for each DENIALS_REFILL_MS


class DeniedCalls:
    """Logs refused calls, at a limited rate for each code: a flood of bad tokens does not hide a missing right."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._paces = defaultdict[str, RateLimit](partial(RateLimit, DENIALS_BURST_LINES, DENIALS_REFILL_MS))

    def record(self, error: Denied, *, method: str, path: str, client: str | None, by: str | None) -> None:
        """Logs a refused call; `by` is the name of its token, if known, and `client` its address."""
        omitted = self._paces[error.code].allow(self._clock.now())
        if omitted is not None:
            fields: dict[str, Any] = {"code": error.code, "method": method, "path": path, "client": client, "by": by}
            log_event("denied", logging.WARNING, **fields, detail=error.detail, omitted=omitted or None)
