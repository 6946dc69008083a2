"""Calls that were understood and turned down: they disagree with what is stored, name what is not there, or are
not allowed to this caller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from strandline.errors.base import StrandlineError


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
class GroupExists(Conflict):
    code: ClassVar[str] = "group_exists"
    group: str
    differs: Sequence[str]

    @property
    def detail(self) -> str:
        return (
            f"reader group {self.group!r} exists with other settings ({', '.join(self.differs)}): "
            f"change them with PATCH, create it with the same settings, or take another name"
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
    """The token is known, and not for this. `needs` is the role that the call takes; `stream`, if any, is one that the
    token's pattern would have to allow ("*": every one); `writer`, if any, is one that the token does not speak for,
    since it is bound to the writers that fit `writers`."""

    code: ClassVar[str] = "forbidden"
    role: str
    call: str
    pattern: str | None = None
    needs: str | None = None
    stream: str | None = None
    writer: str | None = None
    writers: str | None = None

    @property
    def detail(self) -> str:
        if self.writer is not None:
            bound = f"a token bound to the writers {self.writers!r} may not {self.call} for {self.writer!r}"
            return f"{bound}: that takes a token made with a --writer that fits the name, or without --writer"
        pattern = f" and the pattern {self.pattern!r}" if self.pattern is not None else ""
        wanted = [f"the role {str(self.needs)!r}"] if self.needs is not None else []
        if self.stream is not None:
            wanted.append("the pattern '*'" if self.stream == "*" else f"a pattern that allows {self.stream!r}")
        needs = f": that takes {' and '.join(wanted)}" if wanted else ""
        return f"a token with the role {str(self.role)!r}{pattern} may not {self.call}{needs}"
