"""What was heard of a run so far, and the lines that tell of it."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from strandline.core.aggregate import Holder
from strandline_demo.messages import (
    Emitted,
    Left,
    Progress,
    Registered,
    Rested,
    Returned,
    Vanished,
    Wrote,
)
from strandline_demo.processes import Heard
from strandline_demo.truth import Emission

SILENT_FROM_MS: Final = 1_500  # a writer that was heard later than this is not called silent


class Observed:
    """Collects messages. `emissions` are the windows by query, `outage` is when the offline writer was away."""

    def __init__(self) -> None:
        self.emissions: defaultdict[str, list[Emission]] = defaultdict(list)
        self.left: set[str] = set()
        self.outage: tuple[int, int] | None = None
        self._written: dict[str, int] = {}
        self._rested: set[str] = set()
        self._vanished_ms = 0
        self._latest: dict[str, Progress] = {}
        self._dropped: defaultdict[str, int] = defaultdict(int)

    def take(self, heard: Heard) -> str | None:
        """Takes a message; returns a line where it is worth one."""
        match heard:
            case Wrote(writer, total):
                self._written[writer] = total
            case Emitted(query, at_ms, windows):
                self.emissions[query] += [Emission(start, count, at_ms) for start, count in windows]
            case Progress(query):
                self._latest[query] = heard
                self._dropped[query] += heard.rows_dropped
            case _:
                return self._take_writer(heard)
        return None

    def _take_writer(self, heard: Heard) -> str | None:
        match heard:
            case Rested(writer):
                self._rested.add(writer)
                return f"{writer}: says that it is idle; time goes on without it"
            case Registered(writer) if writer in self._rested:
                return f"{writer}: registers again, and will write"
            case Vanished(writer, at_ms):
                self._vanished_ms = at_ms
                return f"{writer}: is gone without a word, and collects its events where no one sees them"
            case Returned(writer, at_ms, backlog):
                self.outage = (self._vanished_ms, at_ms)
                return f"{writer}: is back, writes a backlog of {backlog} events, then notes its time"
            case Left(writer, skipped):
                self.left.add(writer)
                late = f"; {skipped} events from before it registered were left out" if skipped else ""
                return f"{writer}: closes{late}"
            case _:
                return None

    def summary(self, now_ms: int, holder: str) -> str:
        """How things stand. `holder` is who holds time back."""
        written = f"{sum(self._written.values()):,}".replace(",", " ")
        lags = "   ".join(f"{query} {self._lag(query, now_ms)}" for query in sorted(self._latest))
        return f"{written:>7} events   {lags or 'no batch yet'}   {holder}"

    def _lag(self, query: str, now_ms: int) -> str:
        watermark_ms = self._latest[query].watermark_ms
        if watermark_ms <= 0:
            return "has no watermark yet"
        dropped = self._dropped[query]
        tail = f", {dropped} rows dropped" if dropped else ""
        return f"{max(0, now_ms - watermark_ms) / 1000:4.1f} s behind{tail}"


def describe_holder(holder: Holder | None) -> str:
    """Who holds time back, in the controller's words."""
    if holder is None:
        return "nobody holds time back"
    if holder.writer is None:
        return "not all writers have noted yet"
    silent_ms = holder.last_heard_ms_ago or 0
    silent = f" (silent for {silent_ms / 1000:.0f} s)" if silent_ms >= SILENT_FROM_MS else ""
    return f"{holder.writer} holds time back{silent}"
