"""The errors of Strandline: one root, a stable code each, and the offending value in every sentence.

    StrandlineError
    ├── Refused                      understood and turned down; nothing changed
    │   ├── Conflict                 the call and the stored state disagree
    │   │   ├── TimeWentBack         time_went_back
    │   │   ├── PositionWentBack     position_went_back
    │   │   ├── Fenced               fenced
    │   │   ├── StreamSealed         stream_sealed
    │   │   ├── StreamExists         stream_exists
    │   │   └── WrongDomain          wrong_domain
    │   ├── Missing                  what the call names is not there
    │   │   ├── UnknownStream        unknown_stream
    │   │   ├── UnknownWriter        unknown_writer
    │   │   ├── UnknownGroup         unknown_group
    │   │   └── UnknownReader        unknown_reader
    │   ├── Invalid                  the call can never succeed as it stands
    │   │   ├── BadJson              bad_json
    │   │   ├── TooLarge             too_large
    │   │   ├── TooMany              too_many
    │   │   ├── InvalidName          invalid_name
    │   │   ├── InvalidConfig        invalid_config
    │   │   ├── InvalidNote          invalid_note
    │   │   ├── InvalidScale         invalid_scale
    │   │   ├── UnknownSegment       unknown_segment
    │   │   ├── UnknownSeq           unknown_seq
    │   │   ├── BeyondFinalOffset    beyond_final_offset
    │   │   └── TimeTooFarAhead      time_too_far_ahead
    │   └── Denied
    │       ├── Unauthenticated      unauthenticated
    │       └── Forbidden            forbidden
    ├── Unavailable                  nothing is known to be wrong with the call: try again
    │   ├── Overloaded               overloaded
    │   └── StoreUnavailable         store_unavailable
    └── RuleBroken                   a caller of the pure core broke a rule that it documents
        ├── WatermarkWentBack        watermark_went_back
        ├── InputDone                input_done
        ├── UnknownInput             unknown_input
        └── QueueFull                queue_full

Each is a keyword-only dataclass, so its fields can go over the wire and come back, and it pickles.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar


def _rebuild(kind: type[StrandlineError], values: dict[str, Any]) -> StrandlineError:
    return kind(**values)


class StrandlineError(Exception):
    """The root. `code` is stable, `detail` is a sentence for people, `values` are the fields by name."""

    code: ClassVar[str] = "error"

    @property
    def detail(self) -> str:
        return type(self).__name__

    @property
    def values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]  # every leaf is a dataclass

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.values)


class Refused(StrandlineError):
    """The call was understood and turned down; nothing changed."""


class Conflict(Refused):
    """The call and the stored state disagree."""


@dataclass(kw_only=True, eq=False)
class TimeWentBack(Conflict):
    code: ClassVar[str] = "time_went_back"
    writer: str
    key: str
    time: int
    stored_time: int

    @property
    def detail(self) -> str:
        key = f" for key {self.key!r}" if self.key else ""
        return (
            f"writer {self.writer!r} noted {self.time}{key}, but has noted {self.stored_time} before: "
            f"note {self.stored_time} or later"
        )


@dataclass(kw_only=True, eq=False)
class PositionWentBack(Conflict):
    code: ClassVar[str] = "position_went_back"
    writer: str
    segment: str
    offset: int
    stored_offset: int

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} noted offset {self.offset} in segment {self.segment!r}, but has noted "
            f"{self.stored_offset} before: note {self.stored_offset} or more, or leave the segment out"
        )


@dataclass(kw_only=True, eq=False)
class Fenced(Conflict):
    """The epoch is not the newest one. `newest` is null where that registration has ended."""

    code: ClassVar[str] = "fenced"
    name: str
    epoch: int
    newest: int | None

    @property
    def detail(self) -> str:
        now = f"the newest is {self.newest}" if self.newest is not None else "that registration has ended"
        return f"{self.name!r} called with epoch {self.epoch}, but {now}: register again and use the epoch it gives"


@dataclass(kw_only=True, eq=False)
class StreamSealed(Conflict):
    code: ClassVar[str] = "stream_sealed"
    stream: str

    @property
    def detail(self) -> str:
        return f"stream {self.stream!r} is sealed: it takes no more writers, notes or changes"


@dataclass(kw_only=True, eq=False)
class StreamExists(Conflict):
    code: ClassVar[str] = "stream_exists"
    stream: str
    differs: str

    @property
    def detail(self) -> str:
        return (
            f"stream {self.stream!r} exists with other {self.differs}: "
            f"create it with the same {self.differs}, or take another name"
        )


@dataclass(kw_only=True, eq=False)
class WrongDomain(Conflict):
    code: ClassVar[str] = "wrong_domain"
    stream: str
    time_domain: str
    call: str

    @property
    def detail(self) -> str:
        return f"stream {self.stream!r} is in the {self.time_domain} time domain, which has no {self.call}"


class Missing(Refused):
    """What the call names is not there."""


@dataclass(kw_only=True, eq=False)
class UnknownStream(Missing):
    code: ClassVar[str] = "unknown_stream"
    stream: str

    @property
    def detail(self) -> str:
        return f'there is no stream {self.stream!r}: create it with PUT /v1/streams/{self.stream} {{"segments": 1}}'


@dataclass(kw_only=True, eq=False)
class UnknownWriter(Missing):
    code: ClassVar[str] = "unknown_writer"
    stream: str
    writer: str

    @property
    def detail(self) -> str:
        return (
            f"stream {self.stream!r} knows no writer {self.writer!r}: "
            f"it appears when it registers or notes a time for the first time"
        )


@dataclass(kw_only=True, eq=False)
class UnknownGroup(Missing):
    code: ClassVar[str] = "unknown_group"
    group: str

    @property
    def detail(self) -> str:
        return (
            f"there is no reader group {self.group!r}: create it with "
            f'PUT /v1/reader-groups/{self.group} {{"streams": […]}}'
        )


@dataclass(kw_only=True, eq=False)
class UnknownReader(Missing):
    code: ClassVar[str] = "unknown_reader"
    group: str
    reader: str

    @property
    def detail(self) -> str:
        return (
            f"reader group {self.group!r} knows no reader {self.reader!r}: "
            f"register it with PUT /v1/reader-groups/{self.group}/readers/{self.reader}"
        )


class Invalid(Refused):
    """The call can never succeed as it stands."""


@dataclass(kw_only=True, eq=False)
class BadJson(Invalid):
    code: ClassVar[str] = "bad_json"
    reason: str

    @property
    def detail(self) -> str:
        return f"the body is not the JSON that was expected: {self.reason}"


@dataclass(kw_only=True, eq=False)
class TooLarge(Invalid):
    code: ClassVar[str] = "too_large"
    limit: int

    @property
    def detail(self) -> str:
        return f"the body is larger than {self.limit} bytes: send less at a time"


@dataclass(kw_only=True, eq=False)
class TooMany(Invalid):
    code: ClassVar[str] = "too_many"
    what: str
    count: int
    limit: int

    @property
    def detail(self) -> str:
        return f"{self.count} {self.what} are more than the limit of {self.limit}"


@dataclass(kw_only=True, eq=False)
class InvalidName(Invalid):
    code: ClassVar[str] = "invalid_name"
    what: str
    name: str

    @property
    def detail(self) -> str:
        return (
            f"{self.what} name {self.name[:80]!r} is not allowed: 1 to 249 of A-Z a-z 0-9 . _ - "
            f"and the first a letter or digit"
        )


@dataclass(kw_only=True, eq=False)
class InvalidConfig(Invalid):
    code: ClassVar[str] = "invalid_config"
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"{self.name} cannot be {self.value!r}: {self.wanted}"


@dataclass(kw_only=True, eq=False)
class InvalidNote(Invalid):
    code: ClassVar[str] = "invalid_note"
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"{self.name} of a note cannot be {self.value!r}: {self.wanted}"


@dataclass(kw_only=True, eq=False)
class InvalidScale(Invalid):
    code: ClassVar[str] = "invalid_scale"
    segment: str | None
    reason: str

    @property
    def detail(self) -> str:
        where = f"segment {self.segment!r}: " if self.segment is not None else ""
        return f"{where}{self.reason}"


@dataclass(kw_only=True, eq=False)
class UnknownSegment(Invalid):
    code: ClassVar[str] = "unknown_segment"
    segment: str
    known: Sequence[str] = ()

    @property
    def detail(self) -> str:
        known = f"; it has {', '.join(self.known)}" if self.known else ""
        return f"the stream has no segment {self.segment!r}{known}"


@dataclass(kw_only=True, eq=False)
class UnknownSeq(Invalid):
    code: ClassVar[str] = "unknown_seq"
    key: str
    seq: int
    newest: int

    @property
    def detail(self) -> str:
        return f"there is no mark {self.seq} for key {self.key!r} yet: the newest is {self.newest}"


@dataclass(kw_only=True, eq=False)
class BeyondFinalOffset(Invalid):
    code: ClassVar[str] = "beyond_final_offset"
    segment: str
    offset: int
    final_offset: int

    @property
    def detail(self) -> str:
        return (
            f"offset {self.offset} lies beyond segment {self.segment!r}, which is sealed at {self.final_offset}: "
            f"go on in its successors"
        )


@dataclass(kw_only=True, eq=False)
class TimeTooFarAhead(Invalid):
    code: ClassVar[str] = "time_too_far_ahead"
    key: str
    time: int
    clock: int
    max_ahead_ms: int

    @property
    def detail(self) -> str:
        return (
            f"time {self.time} is {self.time - self.clock} ms ahead of the clock ({self.clock}), "
            f"more than max_ahead_ms = {self.max_ahead_ms}: times are whole milliseconds; "
            f"where they are meant to run ahead, set the stream's max_ahead_ms higher or to null"
        )


class Denied(Refused):
    """The caller may not do this."""


@dataclass(kw_only=True, eq=False)
class Unauthenticated(Denied):
    code: ClassVar[str] = "unauthenticated"
    reason: str

    @property
    def detail(self) -> str:
        return f"{self.reason}: send a token as Authorization: Bearer …"


@dataclass(kw_only=True, eq=False)
class Forbidden(Denied):
    code: ClassVar[str] = "forbidden"
    role: str
    call: str

    @property
    def detail(self) -> str:
        return f"a token with the role {self.role!r} may not {self.call}"


class Unavailable(StrandlineError):
    """Nothing is known to be wrong with the call: try it again later."""


@dataclass(kw_only=True, eq=False)
class Overloaded(Unavailable):
    code: ClassVar[str] = "overloaded"
    waiting: int
    limit: int

    @property
    def detail(self) -> str:
        return f"{self.waiting} notes are waiting to be stored, the limit is {self.limit}: try again shortly"


@dataclass(kw_only=True, eq=False)
class StoreUnavailable(Unavailable):
    code: ClassVar[str] = "store_unavailable"
    reason: str

    @property
    def detail(self) -> str:
        return f"the store did not take the change ({self.reason}): nothing was changed, try again"


class RuleBroken(StrandlineError):
    """A caller of the pure core broke a rule that it documents."""


@dataclass(kw_only=True, eq=False)
class WatermarkWentBack(RuleBroken):
    code: ClassVar[str] = "watermark_went_back"
    input: Hashable
    key: str
    value: int
    previous: int

    @property
    def detail(self) -> str:
        return (
            f"input {self.input!r} gave {self.value} for key {self.key!r} after {self.previous}: "
            f"each of its values must be greater than the one before"
        )


@dataclass(kw_only=True, eq=False)
class InputDone(RuleBroken):
    code: ClassVar[str] = "input_done"
    input: Hashable
    call: str

    @property
    def detail(self) -> str:
        return f"{self.call} on input {self.input!r}, which is done: nothing may follow"


@dataclass(kw_only=True, eq=False)
class UnknownInput(RuleBroken):
    code: ClassVar[str] = "unknown_input"
    input: Hashable
    known: Sequence[Hashable]

    @property
    def detail(self) -> str:
        more = ", …" if len(self.known) > 10 else ""
        return f"there is no input {self.input!r}: known are {', '.join(map(repr, self.known[:10]))}{more}"


@dataclass(kw_only=True, eq=False)
class QueueFull(RuleBroken):
    code: ClassVar[str] = "queue_full"
    capacity: int

    @property
    def detail(self) -> str:
        return f"{self.capacity} items are under way already: complete one before the next"


@dataclass(kw_only=True, eq=False)
class UnknownTicket(RuleBroken):
    code: ClassVar[str] = "unknown_ticket"
    number: int

    @property
    def detail(self) -> str:
        return f"no item is under way with ticket {self.number}: complete each one once, in its queue"
