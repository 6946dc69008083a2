"""Sends the reports of a query's listener to the controller, from a thread of its own.

Spark calls listeners one after the other, so one that waits for an answer delays all of them. A report may be the last
one for a while, so it is repeated until it is sent, or until a newer one on the same subject replaces it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from typing import Final

from strandline.errors import Refused, StrandlineError, TooMany
from strandline.paced_log import PacedLog

REPORT_PAUSE_MS: Final = 500  # between attempts to report to the controller what a query has read, or its time

REPORTS_WAITING: Final = 1_024  # queries whose newest report is still to be sent

_log = logging.getLogger(__name__)

Send = Callable[[], None]


class ReportSender:
    """Sends the newest report of each subject, in turn, in one thread."""

    def __init__(self, name: str) -> None:
        self._waiting: Final[dict[Hashable, Send]] = {}
        self._paced = PacedLog(__name__)
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, subject: Hashable, send: Send) -> None:
        """Sends a report soon. It replaces a waiting one of the same subject. Raises TooMany."""
        with self._changed:
            if subject not in self._waiting and len(self._waiting) >= REPORTS_WAITING:
                raise TooMany(what="reports waiting to be sent", count=len(self._waiting) + 1, limit=REPORTS_WAITING)
            self._waiting[subject] = send
            self._changed.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Waits until all reports are sent. Returns False on timeout."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout_s)

    def close(self) -> None:
        """Ends the thread after its current report; drops waiting ones."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                subject = next(iter(self._waiting))
                send = self._waiting.pop(subject)
                self._busy = True
            again = not self._sent(subject, send)
            with self._changed:
                self._busy = False
                if again:
                    self._waiting.setdefault(subject, send)
                    self._changed.wait_for(lambda: self._closed, REPORT_PAUSE_MS / 1000)
                self._changed.notify_all()

    def _sent(self, subject: Hashable, send: Send) -> bool:
        try:
            send()
        except Refused as error:  # it would be refused again
            _log.error("the controller refused a query's report: %s", error)
        except StrandlineError as error:
            reason = error.__cause__ or error
            self._paced.warn(str(subject), f"a query's report could not be sent, and is repeated: {reason}")
            return False
        except Exception:
            _log.exception("a query's report failed")
        return True
