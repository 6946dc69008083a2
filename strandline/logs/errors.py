"""The errors of logs. Only NotAcknowledged and LogUndecided may leave a part of an append in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from strandline.errors import Conflict, Invalid, Missing, StrandlineError, Unavailable, Undecided

if TYPE_CHECKING:
    from strandline.logs import Event


class LogMissing(Missing):
    says = "there is no log at {path!r}: create it with SqliteLog.create, or give the path it is at"
    path: str


class TopicMissing(Missing):
    says = "Kafka at {servers} has no topic {topic!r}: create it, or name another"
    topic: str
    servers: str


class LogExists(Conflict):
    path: str
    segments: tuple[str, ...]

    @property
    def detail(self) -> str:
        return (
            f"a log with other segments is at {self.path!r} already; it began with "
            f"{', '.join(self.segments)}: open it as it is, or create yours elsewhere"
        )


class LogFenced(Conflict):
    """Another producer, such as a restarted process, has taken over this one's transactional id, or Kafka has ended a
    transaction that took longer than `transaction.timeout.ms`. This one has ended."""

    says = (
        "another producer with the transactional id {transactional_id!r} has taken over, or a transaction took longer "
        "than transaction.timeout.ms; what this one had not committed is aborted: end this writer, and give each its "
        "own id"
    )
    transactional_id: str


class LogSealed(Conflict):
    says = "every segment of the log {path!r} is sealed: nothing can be appended to it any more"
    path: str


class SegmentSealed(Conflict):
    says = "segment {segment!r} is sealed at {final_offset}: append by key, or name one of its successors"
    segment: str
    final_offset: int


class TransactionOver(Conflict):
    says = "this transaction was {outcome} already: begin another"
    outcome: str


class TransactionUnderWay(Conflict):
    says = "{call} has to wait until the open transaction is over: commit or abort it first"
    call: str


class RangeAbandoned(Conflict):
    says = (
        "the rest of offsets {start} to {end} of segment {segment!r} cannot be read, since this reader of topic "
        "{topic!r} has begun another range: read one after the other, or open a reader for each"
    )
    topic: str
    segment: str
    start: int
    end: int


class InvalidSetting(Invalid):
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"the setting {self.name!r} of a log cannot be {str(self.value)[:80]!r}: {self.wanted}"


class InvalidEvent(Invalid):
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"{self.name} of an event cannot be {str(self.value)[:80]!r}: {self.wanted}"


class NotALog(Invalid):
    says = "{path!r} is not a Strandline log: {reason}"
    path: str
    reason: str


class LogVersion(Invalid):
    says = (
        "the log {path!r} has format version {version}, this release reads {known}: use the release that wrote "
        "it, or a newer one"
    )
    path: str
    version: int
    known: int


class NotInLog(Invalid):
    """The log does not hold the whole range. Reading raises this, at the latest where a part is missing. `first` is the
    first offset that the segment still has, where the range begins before it."""

    segment: str
    start: int
    end: int
    found: int
    wanted: str = "ask for no more"
    first: int | None = None

    @property
    def detail(self) -> str:
        return (
            f"offsets {self.start} to {self.end} of segment {self.segment!r} were asked for, and "
            f"{self.found} of these {max(0, self.end - self.start)} events are there: {self.wanted}"
        )


class LogBusy(Unavailable):
    says = (
        "other writers held the log {path!r} for {waited_ms} ms: nothing was written, try again, and append more "
        "events at a time"
    )
    path: str
    waited_ms: int


class LogUnavailable(Unavailable):
    says = "the log {path!r} failed ({reason}): nothing was changed"
    path: str
    reason: str


class LogCorrupt(StrandlineError):
    """An event of the log cannot be read. Reading again does not help."""

    says = (
        "event {offset} of segment {segment!r} in the log {path!r} cannot be read: restore the log from a backup, or "
        "truncate it behind that event"
    )
    path: str
    segment: str
    offset: int


class NotAcknowledged(Undecided):
    """Earlier appends failed; some of their events may be in the log nevertheless.

    `events` are the events, to append again or to give up, if they are not too many. It is raised once.
    """

    says = (
        "{count} events for the log {path!r} were not acknowledged ({reason}): they count as never appended; "
        "append them again, or give them up, before you note a time above theirs"
    )
    path: str
    count: int
    reason: str
    events: tuple[Event, ...] = ()


class LogUndecided(Undecided):
    """A commit was sent, and it is not known yet whether it was carried out."""

    says = (
        "the log {path!r} got the commit and did not answer ({reason}): whether it was carried out is not "
        "known yet; flush() asks again"
    )
    path: str
    reason: str
