"""The errors of logs. None of them leaves part of an append behind.

StrandlineError
├── Refused
│   ├── Missing
│   │   └── LogMissing           log_missing
│   ├── Conflict
│   │   ├── LogExists            log_exists
│   │   ├── LogSealed            log_sealed
│   │   ├── SegmentSealed        segment_sealed
│   │   └── TransactionOver      transaction_over
│   └── Invalid
│       ├── InvalidEvent         invalid_event
│       ├── NotALog              not_a_log
│       ├── LogVersion           log_version
│       └── NotInLog             not_in_log
└── Unavailable
    ├── LogBusy                  log_busy
    └── LogUnavailable           log_unavailable
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from strandline.errors import Conflict, Invalid, Missing, Unavailable


@dataclass(kw_only=True, eq=False)
class LogMissing(Missing):
    code: ClassVar[str] = "log_missing"
    path: str

    @property
    def detail(self) -> str:
        return f"there is no log at {self.path!r}: create it with SqliteLog.create, or give the path it is at"


@dataclass(kw_only=True, eq=False)
class LogExists(Conflict):
    code: ClassVar[str] = "log_exists"
    path: str
    segments: tuple[str, ...]

    @property
    def detail(self) -> str:
        return (
            f"a log with other segments is at {self.path!r} already; it began with "
            f"{', '.join(self.segments)}: open it as it is, or create yours elsewhere"
        )


@dataclass(kw_only=True, eq=False)
class LogSealed(Conflict):
    code: ClassVar[str] = "log_sealed"
    path: str

    @property
    def detail(self) -> str:
        return f"every segment of the log at {self.path!r} is sealed: nothing can be appended to it any more"


@dataclass(kw_only=True, eq=False)
class SegmentSealed(Conflict):
    code: ClassVar[str] = "segment_sealed"
    segment: str
    final_offset: int

    @property
    def detail(self) -> str:
        return (
            f"segment {self.segment!r} is sealed at {self.final_offset}: append by key, or name one of its successors"
        )


@dataclass(kw_only=True, eq=False)
class TransactionOver(Conflict):
    code: ClassVar[str] = "transaction_over"
    outcome: str

    @property
    def detail(self) -> str:
        return f"this transaction was {self.outcome} already: begin another"


@dataclass(kw_only=True, eq=False)
class InvalidEvent(Invalid):
    code: ClassVar[str] = "invalid_event"
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"{self.name} of an event cannot be {str(self.value)[:80]!r}: {self.wanted}"


@dataclass(kw_only=True, eq=False)
class NotALog(Invalid):
    code: ClassVar[str] = "not_a_log"
    path: str
    reason: str

    @property
    def detail(self) -> str:
        return f"{self.path!r} is not a Strandline log: {self.reason}"


@dataclass(kw_only=True, eq=False)
class LogVersion(Invalid):
    code: ClassVar[str] = "log_version"
    path: str
    version: int
    known: int

    @property
    def detail(self) -> str:
        return (
            f"the log at {self.path!r} has format version {self.version}, this release knows {self.known}: "
            f"use the release that wrote it, or a newer one"
        )


@dataclass(kw_only=True, eq=False)
class NotInLog(Invalid):
    """The log does not hold that range: never an empty answer instead."""

    code: ClassVar[str] = "not_in_log"
    segment: str
    start: int
    end: int
    found: int

    @property
    def detail(self) -> str:
        return (
            f"offsets {self.start} to {self.end} of segment {self.segment!r} were asked for, and "
            f"{self.found} of these {max(0, self.end - self.start)} events are there: ask for no more"
        )


@dataclass(kw_only=True, eq=False)
class LogBusy(Unavailable):
    code: ClassVar[str] = "log_busy"
    path: str
    waited_ms: int

    @property
    def detail(self) -> str:
        return (
            f"other writers held the log at {self.path!r} for {self.waited_ms} ms: nothing was written, "
            f"try again, and append more events at a time"
        )


@dataclass(kw_only=True, eq=False)
class LogUnavailable(Unavailable):
    code: ClassVar[str] = "log_unavailable"
    path: str
    reason: str

    @property
    def detail(self) -> str:
        return f"the log at {self.path!r} did not do it ({self.reason}): nothing was written"
