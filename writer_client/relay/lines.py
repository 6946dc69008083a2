"""What the relay writes to standard error: others name what stands there, so it is bounded."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from typing import Final

from strandline.redaction import visible

LINE_CHARACTERS: Final = 1_000
LINES: Final = 100  # in a minute
MINUTE_S: Final = 60.0


def shown(text: object, most: int = LINE_CHARACTERS) -> str:
    """What others sent, and what a library says of it: cut, and without characters that a terminal would obey."""
    given = str(text)
    return visible(given[:most]) + ("…" if len(given) > most else "")


class Lines:
    """Writes one line a subject and minute, and at most LINES of them; what is left out is counted."""

    def __init__(self, write: Callable[[str], object], now: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._now = now
        self._began = now()
        self._left_out: dict[Hashable, int] = {}  # by subject of this minute, the lines that were left out
        self._before: dict[Hashable, int] = {}  # the same of the last minute with a line
        self._others = 0  # lines of subjects that had no room

    def say(self, subject: Hashable, text: str) -> None:
        now = self._now()
        if now - self._began >= MINUTE_S:
            if self._others:
                self._write(f"strandline relay: {self._others} more lines were left out: there were more than {LINES}")
            self._began, self._before, self._left_out, self._others = now, self._left_out, {}, 0
        if subject in self._left_out:
            self._left_out[subject] += 1
        elif len(self._left_out) >= LINES:
            self._others += 1
        else:
            more = self._before.get(subject, 0)
            self._left_out[subject] = 0
            self._write(
                shown(f"strandline relay: {text}") + (f" ({more} more such lines were left out)" if more else "")
            )
