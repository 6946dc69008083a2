"""Calls that can never succeed as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from strandline.errors.refused import Refused


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
    setting: str | None = None  # of the stream, which sets the limit

    @property
    def detail(self) -> str:
        text = f"{self.count} {self.what} are more than the limit of {self.limit}"
        if self.setting is not None:
            text += f", which the stream's {self.setting} sets: close writers that are done, or raise it with PATCH"
        return text


@dataclass(kw_only=True, eq=False)
class InvalidName(Invalid):
    code: ClassVar[str] = "invalid_name"
    what: str
    name: str

    @property
    def detail(self) -> str:
        return (
            f"{self.what} name {repr(self.name)[:82]} is not allowed: 1 to 249 of A-Z a-z 0-9 . _ - "
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
class InvalidParameter(Invalid):
    """What stands behind the `?` of a call, or in a header that the call reads."""

    code: ClassVar[str] = "invalid_parameter"
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"the parameter {self.name} cannot be {self.value!r}: {self.wanted}"


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
        where = f"segment {self.segment!r}" if self.segment is not None else "the segments cannot be changed like this"
        return f"{where}: {self.reason}"


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
