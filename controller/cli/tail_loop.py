"""What `strandline tail` does: clock first, then end offsets, then a report; and whether the reports hold.

A report (T, P) means that whatever was appended before T lies below P. The ends are read an interval after the clock
showed T, since a broker shows an append only when its replicas have it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol

from controller.cli.client import ControllerClient
from controller.operators.wording import compact
from controller.terminal import Failure, remark, say
from strandline.client.calls import describe, tail
from strandline.errors import PositionWentBack, Refused, StrandlineError, StreamSealed, TimeWentBack, UnknownSegment
from strandline.logs import LogReader, Position


class TailedLog(Protocol):
    """The end of a log, and what is known of its times."""

    def ends(self) -> Position:
        """The end of every segment as it is now, segments that were added meanwhile included."""
        ...

    def warning(self) -> str | None:
        """Why the stream's time may not be that of the log's records, if so."""
        ...

    def older(self, reported: Position, time_ms: int, ends: Position) -> list[str]:
        """The segments in which something older than a reported time stands at or past the reported position."""
        ...


class TailedReader:
    """A log whose appends are stamped before they are there, by their writers' clocks, as those of an embedded log."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader

    def ends(self) -> Position:
        return self._reader.end_offsets()

    def warning(self) -> str | None:
        return None

    def older(self, reported: Position, time_ms: int, ends: Position) -> list[str]:
        found = []
        for segment, end in ends.items():
            start = reported.get(segment, 0)
            if start < end and any(each.appended_at < time_ms for each in self._reader.rows(segment, start, start + 1)):
                found.append(segment)
        return found


@dataclass(slots=True)
class Tail:
    """Reports until it is told to end."""

    client: ControllerClient
    log: TailedLog
    stream: str
    reporter: str
    interval_ms: int
    once: bool
    as_json: bool
    _away: str | None = None
    _warned_of: set[str] = field(default_factory=set)
    _last: tuple[int, Position] | None = None

    def run(self) -> None:
        clock = self._first_clock()
        warning = self.log.warning()
        if warning is not None:
            self._warn(warning)
        if not self.as_json:
            say(f"{self.reporter} reports to {self.stream} every {self.interval_ms} ms; Ctrl-C ends it")
        while not self.once or self._last is None:
            time.sleep(self.interval_ms / 1000)
            clock = self._round(clock)

    def _first_clock(self) -> int:
        clock = self.client.ask(describe(self.stream)).clock
        if clock is None:
            raise Failure(f"{self.client.controller} does not show its clock: is it a controller?")
        return clock

    def _round(self, clock: int) -> int:
        """Reports once; returns the clock to report with next. An older one is never wrong, so where the report
        failed it stays."""
        try:
            ends = self.log.ends()
            answer = self.client.ask(tail(self.stream, self.reporter, clock, ends))
        except Refused as error:
            raise Failure(self._explain(error)) from None
        except StrandlineError as error:
            self._report_away(self.client.explain(error))
            return clock
        self._report_away(None)
        if self.as_json:
            say(compact({"time": clock, "position": ends, **answer.json}))
        self._read_back(ends)
        self._last = (clock, ends)
        return clock if answer.clock is None else answer.clock

    def _read_back(self, ends: Position) -> None:
        """Whether anything that has come since is older than the report before said it could be."""
        if self._last is None:
            return
        reported_time, reported = self._last
        try:
            older = self.log.older(reported, reported_time, ends)
            if not set(older) - self._warned_of:
                return
            skew_ms = self.client.run(describe(self.stream)).config.clock_skew_ms
            older = self.log.older(reported, reported_time - skew_ms, ends) if skew_ms else older
        except StrandlineError as error:
            self._report_away(self.client.explain(error))
            return
        for segment in older:
            if segment not in self._warned_of:
                self._warned_of.add(segment)
                self._warn(
                    f"segment {segment} got a record that is older than what was reported before: its broker's clock "
                    f"is behind by more than clock_skew_ms, which is {skew_ms}, or its replicas by more than "
                    f"--interval-ms; raise them, or marks are up to that much too early"
                )

    def _explain(self, error: Refused) -> str:
        match error:
            case TimeWentBack():
                return f"another tail reports as {self.reporter!r}: give this one a name with --reporter"
            case UnknownSegment(segment=segment):
                return (
                    f"the stream has no segment {segment!r}, which the log has: create the stream with open segments, "
                    f"or scale it"
                )
            case PositionWentBack():
                return f"{error}; if the log was made again, make the stream again as well"
            case StreamSealed():
                return f"{error}: there is nothing more to tail"
            case _:
                return self.client.explain(error)

    def _report_away(self, away: str | None) -> None:
        """Tells once when it goes away, and once when it is back."""
        if away is not None and self._away is None:
            self._warn(away)
        elif away is None and self._away is not None:
            self._warn("it reports again")
        self._away = away

    def _warn(self, text: str) -> None:
        remark(f"strandline tail: {text}")
