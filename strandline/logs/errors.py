"""The errors of logs. Only NotAcknowledged and LogUndecided may leave a part of an append in the log.

StrandlineError
├── Refused
│   ├── Missing
│   │   ├── LogMissing           log_missing
│   │   └── TopicMissing         topic_missing
│   ├── Conflict
│   │   ├── LogExists            log_exists
│   │   ├── LogFenced            log_fenced
│   │   ├── LogSealed            log_sealed
│   │   ├── SegmentSealed        segment_sealed
│   │   ├── TransactionOver      transaction_over
│   │   └── TransactionUnderWay  transaction_under_way
│   └── Invalid
│       ├── InvalidEvent         invalid_event
│       ├── InvalidSetting       invalid_setting
│       ├── NotALog              not_a_log
│       ├── LogVersion           log_version
│       └── NotInLog             not_in_log
├── Unavailable
│   ├── LogBusy                  log_busy
│   └── LogUnavailable           log_unavailable
├── LogCorrupt                   log_corrupt
└── Undecided
    ├── NotAcknowledged          not_acknowledged
    └── LogUndecided             log_undecided
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from strandline.errors import Conflict, Invalid, Missing, StrandlineError, Unavailable, Undecided

if TYPE_CHECKING:
    from strandline.logs import Event


@dataclass(kw_only=True, eq=False)
class LogMissing(Missing):
    code: ClassVar[str] = "log_missing"
    path: str

    @property
    def detail(self) -> str:
        return f"there is no log at {self.path!r}: create it with SqliteLog.create, or give the path it is at"


@dataclass(kw_only=True, eq=False)
class TopicMissing(Missing):
    code: ClassVar[str] = "topic_missing"
    topic: str
    servers: str

    @property
    def detail(self) -> str:
        return f"Kafka at {self.servers} has no topic {self.topic!r}: create it, or name another"


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
class LogFenced(Conflict):
    """Another producer, such as a restarted process, has taken over this one's transactional id. This one has ended."""

    code: ClassVar[str] = "log_fenced"
    transactional_id: str

    @property
    def detail(self) -> str:
        return (
            f"another producer with the transactional id {self.transactional_id!r} has taken over, and what this one "
            f"had not committed is aborted: end this writer, or give each its own id"
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
class TransactionUnderWay(Conflict):
    code: ClassVar[str] = "transaction_under_way"
    call: str

    @property
    def detail(self) -> str:
        return f"{self.call} has to wait until the open transaction is over: commit or abort it first"


@dataclass(kw_only=True, eq=False)
class InvalidSetting(Invalid):
    code: ClassVar[str] = "invalid_setting"
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"the setting {self.name!r} of a log cannot be {str(self.value)[:80]!r}: {self.wanted}"


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
    """The log does not hold the whole range. It never returns a part of it instead."""

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
        return f"the log at {self.path!r} failed ({self.reason}): nothing was written"


@dataclass(kw_only=True, eq=False)
class LogCorrupt(StrandlineError):
    """An event of the log cannot be read. Reading again does not help."""

    code: ClassVar[str] = "log_corrupt"
    path: str
    segment: str
    offset: int

    @property
    def detail(self) -> str:
        return (
            f"event {self.offset} of segment {self.segment!r} in the log at {self.path!r} cannot be read: "
            f"`strandline check --log` names all damaged events"
        )


@dataclass(kw_only=True, eq=False)
class NotAcknowledged(Undecided):
    """Earlier appends failed; some of their events may be in the log nevertheless.

    `events` are the events, to append again or to give up, if they are not too many. It is raised once.
    """

    code: ClassVar[str] = "not_acknowledged"
    path: str
    count: int
    reason: str
    events: tuple[Event, ...] = ()

    @property
    def detail(self) -> str:
        return (
            f"{self.count} events for the log at {self.path!r} were not acknowledged ({self.reason}): they count as "
            f"never appended; append them again, or give them up, before you note a time above theirs"
        )


@dataclass(kw_only=True, eq=False)
class LogUndecided(Undecided):
    """A commit was sent, and it is not known yet whether it was carried out."""

    code: ClassVar[str] = "log_undecided"
    path: str
    reason: str

    @property
    def detail(self) -> str:
        return (
            f"the log at {self.path!r} was told to commit and did not answer ({self.reason}): whether it was carried "
            f"out is not known yet; flush() asks again"
        )
