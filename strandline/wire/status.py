"""How streams, reader groups and the controller are, as a client gets it. The same rules as in `streams.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strandline.core.aggregate import Holder
from strandline.core.config import TimeDomain
from strandline.wire.fields import Fields
from strandline.wire.streams import holder_from_wire


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyStatus:
    """A time key of a stream. `time` is what readers are told, `resting` the same of a stream at rest. The newest mark
    leaves out `excluded_writers` writers, the first of which are `excluded`. `trouble` is `stuck`, `held`, `incomplete`
    or null; a newer controller may know more."""

    time: int | None
    resting: int | None
    lag_ms: int | None
    mark_seq: int
    marked_at: int | None
    excluded: tuple[str, ...]
    excluded_writers: int
    writers: Mapping[str, int]
    trouble: str | None
    since: int | None

    @property
    def complete(self) -> bool:
        return self.excluded_writers == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStatus:
    """A stream, as it was at `seen_at`. `trouble` is the worst of its keys. Notes, late notes and refusals are counted
    since the controller started."""

    stream: str
    seen_at: int
    trouble: str | None
    since: int | None
    sealed: bool
    time_domain: TimeDomain
    lag_ms: int | None
    segments: int
    writers: Mapping[str, int]
    last_heard_at: int | None
    notes: int
    late_notes: int
    refusals: Mapping[str, int]
    held_by: Mapping[str, Holder | None]
    keys: Mapping[str, KeyStatus]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """A reader group, as it was at `seen_at`."""

    group: str
    seen_at: int
    streams: tuple[str, ...]
    readers: int
    lag_ms: int | None
    backlog: bool
    backlog_threshold_ms: int | None
    watermarks: Mapping[str, int | None]
    held_by: Mapping[str, str | None]
    complete: bool
    idle: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatus:
    """The controller: its version, since when it serves its store, and why it is not ready, where it is not."""

    version: str
    since: int
    ready: bool
    reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusPage:
    """A page of streams with their reader groups, and numbers over all streams: how many are in which `trouble`, and
    `counts`. `unread` streams have no status, for the problem whose code is there. `next` is the name after which to go
    on, null where there is no more."""

    at: int
    controller: ControllerStatus
    trouble: Mapping[str, int]
    counts: Mapping[str, int]
    streams: tuple[StreamStatus, ...]
    next: str | None
    unread: Mapping[str, str]
    groups: tuple[GroupStatus, ...]


def status_from_wire(value: object, where: str = "the answer") -> StatusPage:
    given = Fields(value, where)
    return StatusPage(
        at=given.number("at"),
        controller=given.read("controller", _controller),
        trouble=given.numbers("trouble"),
        counts=given.numbers("counts"),
        streams=given.list("streams", _stream),
        next=given.text_or_none("next"),
        unread=given.by_name("unread", lambda code, _: str(code)),
        groups=given.list("groups", _group),
    )


def _stream(value: object, where: str) -> StreamStatus:
    given = Fields(value, where)
    return StreamStatus(
        stream=given.text("stream"),
        seen_at=given.number("seen_at"),
        trouble=given.text_or_none("trouble"),
        since=given.number_or_none("since"),
        sealed=given.flag("sealed"),
        time_domain=TimeDomain(given.text("time_domain")),
        lag_ms=given.number_or_none("lag_ms"),
        segments=given.number("segments"),
        writers=given.numbers("writers"),
        last_heard_at=given.number_or_none("last_heard_at"),
        notes=given.number("notes"),
        late_notes=given.number("late_notes"),
        refusals=given.numbers("refusals"),
        held_by=given.by_name("held_by", _holder_or_none),
        keys=given.by_name("keys", _key),
    )


def _key(value: object, where: str) -> KeyStatus:
    given = Fields(value, where)
    return KeyStatus(
        time=given.number_or_none("time"),
        resting=given.number_or_none("resting"),
        lag_ms=given.number_or_none("lag_ms"),
        mark_seq=given.number("mark_seq"),
        marked_at=given.number_or_none("marked_at"),
        excluded=given.texts("excluded"),
        excluded_writers=given.number("excluded_writers"),
        writers=given.numbers("writers"),
        trouble=given.text_or_none("trouble"),
        since=given.number_or_none("since"),
    )


def _holder_or_none(value: object, where: str) -> Holder | None:
    return holder_from_wire(value, where) if value is not None else None


def _group(value: object, where: str) -> GroupStatus:
    given = Fields(value, where)
    return GroupStatus(
        group=given.text("group"),
        seen_at=given.number("seen_at"),
        streams=given.texts("streams"),
        readers=given.number("readers"),
        lag_ms=given.number_or_none("lag_ms"),
        backlog=given.flag("backlog"),
        backlog_threshold_ms=given.number_or_none("backlog_threshold_ms"),
        watermarks=given.numbers_or_none("watermarks"),
        held_by=given.texts_or_none("held_by"),
        complete=given.flag("complete"),
        idle=given.texts("idle"),
    )


def _controller(value: object, where: str) -> ControllerStatus:
    given = Fields(value, where)
    return ControllerStatus(
        version=given.text("version"),
        since=given.number("since"),
        ready=given.flag("ready"),
        reason=given.text_or_none("reason"),
    )
