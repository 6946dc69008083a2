"""Sends what a query's listener hears on to the controller, from a thread of its own.

Spark calls listeners one after the other, and one that waits for an answer holds all of them back. And a batch that was
the last one for a while must be told of, however long the controller is away: so it is tried until it is told, or until
something newer about the same thing takes its place.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from typing import Final

from strandline.errors import Refused, StrandlineError, TooMany
from strandline.limits import REPORT_PAUSE_MS, REPORTS_WAITING

_log = logging.getLogger(__name__)

Send = Callable[[], None]


class ReportSender:
    """The newest errand for each subject, done in turn by one thread, which ends when it is closed."""

    def __init__(self, name: str) -> None:
        self._errands: Final[dict[Hashable, Send]] = {}
        self._changed = threading.Condition()
        self._busy = False
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, subject: Hashable, send: Send) -> None:
        """Sends soon; takes the place of what waits for the same subject. Raises TooMany."""
        with self._changed:
            if subject not in self._errands and len(self._errands) >= REPORTS_WAITING:
                raise TooMany(what="reports waiting to be sent", count=len(self._errands) + 1, limit=REPORTS_WAITING)
            self._errands[subject] = send
            self._changed.notify_all()

    def settle(self, timeout_s: float) -> bool:
        """Waits until all is sent; whether it is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._errands and not self._busy, timeout_s)

    def close(self) -> None:
        """Ends the thread, with what it is at; what waits is left."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._errands or self._closed)
                if self._closed:
                    return
                subject = next(iter(self._errands))
                send = self._errands.pop(subject)
                self._busy = True
            again = not self._sent(send)
            with self._changed:
                self._busy = False
                if again:
                    self._errands.setdefault(subject, send)
                    self._changed.wait_for(lambda: self._closed, REPORT_PAUSE_MS / 1000)
                self._changed.notify_all()

    def _sent(self, send: Send) -> bool:
        try:
            send()
        except Refused as error:  # no waiting mends it
            _log.error("the controller refused what a query had to tell: %s", error)
        except StrandlineError as error:
            _log.warning("what a query has to tell is not told yet, and is tried again: %s", error)
            return False
        except Exception:
            _log.exception("what a query had to tell could not be told")
        return True
