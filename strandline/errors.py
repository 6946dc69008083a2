"""Every error of Strandline: one root, and for each error a stable code, its HTTP status and a sentence.

An error is a dataclass with keyword arguments, so that it can go over the wire and back, and pickles. An error has no
status if no call over HTTP can raise it. The errors of logs, clients and Spark are in `errors.py` of their packages.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, ClassVar


def _rebuild(kind: type[StrandlineError], values: dict[str, Any]) -> StrandlineError:
    return kind(**values)


def _shown(value: Any) -> str:
    """A value that a caller gave, with the words of JSON, in which most of them come."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


class StrandlineError(Exception):
    """The root. `code` is stable, `detail` is a sentence for people, `values` are the fields by name."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

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
    """The call was understood and refused; nothing changed."""


class Conflict(Refused):
    """The call and the stored state disagree."""


@dataclass(kw_only=True, eq=False)
class TimeWentBack(Conflict):
    code: ClassVar[str] = "time_went_back"
    status: ClassVar[int] = 409
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
    status: ClassVar[int] = 409
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
    """The epoch is not the newest one. `newest` is null where that registration has ended, and equals `epoch` where
    another reader has taken over a segment."""

    code: ClassVar[str] = "fenced"
    status: ClassVar[int] = 409
    name: str
    epoch: int
    newest: int | None

    @property
    def detail(self) -> str:
        called = f"{self.name!r} called with epoch {self.epoch}"
        if self.newest is None:
            return f"{called}, but that registration has ended: register again and use the epoch it gives"
        if self.newest > self.epoch:
            return (
                f"another process has registered the name {self.name!r}, with epoch {self.newest} after "
                f"{self.epoch}: give each process a name of its own, or end one"
            )
        if self.newest == self.epoch:
            return f"{called} for a segment that another reader has taken over: leave it to that one"
        return f"{called}, but the newest is {self.newest}: register again and use the epoch it gives"


@dataclass(kw_only=True, eq=False)
class StreamSealed(Conflict):
    code: ClassVar[str] = "stream_sealed"
    status: ClassVar[int] = 409
    stream: str

    @property
    def detail(self) -> str:
        return f"stream {self.stream!r} is sealed: it takes no more writers, notes or changes"


@dataclass(kw_only=True, eq=False)
class StreamExists(Conflict):
    code: ClassVar[str] = "stream_exists"
    status: ClassVar[int] = 409
    stream: str
    differs: str

    @property
    def detail(self) -> str:
        return (
            f"stream {self.stream!r} exists with other {self.differs}: "
            f"create it with the same {self.differs}, or take another name"
        )


@dataclass(kw_only=True, eq=False)
class StreamRecreated(Conflict):
    """What was known of a stream is of an earlier one of its name. `identity` is that of the earlier one, `present` of
    the one that is there now, and `group` names the reader group that began to read the earlier one, if one did."""

    code: ClassVar[str] = "stream_recreated"
    status: ClassVar[int] = 409
    stream: str
    identity: str
    present: str
    group: str | None = None

    @property
    def detail(self) -> str:
        if self.group is None:
            return (
                f"stream {self.stream!r} has the identity {self.present}, and {self.identity} is meant: it was deleted "
                f"and created again, or the position is of another stream. Begin anew in the present stream"
            )
        return (
            f"stream {self.stream!r} was deleted and created again since reader group {self.group!r} began to read it, "
            f"so the group's positions do not count: delete the group and create it again"
        )


@dataclass(kw_only=True, eq=False)
class GroupExists(Conflict):
    code: ClassVar[str] = "group_exists"
    status: ClassVar[int] = 409
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
    status: ClassVar[int] = 409
    stream: str
    time_domain: str
    call: str

    @property
    def detail(self) -> str:
        return f"stream {self.stream!r} is in the {self.time_domain} time domain, which has no {self.call}"


class Missing(Refused):
    """Something that the call names does not exist."""


@dataclass(kw_only=True, eq=False)
class UnknownStream(Missing):
    code: ClassVar[str] = "unknown_stream"
    status: ClassVar[int] = 404
    stream: str

    @property
    def detail(self) -> str:
        return f'there is no stream {self.stream!r}: create it with PUT /v1/streams/{self.stream} {{"segments": 1}}'


@dataclass(kw_only=True, eq=False)
class UnknownWriter(Missing):
    code: ClassVar[str] = "unknown_writer"
    status: ClassVar[int] = 404
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
    status: ClassVar[int] = 404
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
    status: ClassVar[int] = 404
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
    status: ClassVar[int] = 401
    reason: str

    @property
    def detail(self) -> str:
        return f"{self.reason}: send a token as Authorization: Bearer …"


@dataclass(kw_only=True, eq=False)
class Forbidden(Denied):
    """The token is known, but does not allow the call. `needs` is the role that the call requires; `stream`, if any, is
    one that the token's pattern must allow ("*": every stream); `writer`, if any, is one for which the token may not
    call, because it is bound to the writers that fit `writers`."""

    code: ClassVar[str] = "forbidden"
    status: ClassVar[int] = 403
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


class Invalid(Refused):
    """The call can never succeed in this form."""


@dataclass(kw_only=True, eq=False)
class BadJson(Invalid):
    code: ClassVar[str] = "bad_json"
    status: ClassVar[int] = 400
    reason: str

    @property
    def detail(self) -> str:
        return f"the body is not the JSON that was expected: {self.reason}"


@dataclass(kw_only=True, eq=False)
class TooLarge(Invalid):
    code: ClassVar[str] = "too_large"
    status: ClassVar[int] = 413
    limit: int

    @property
    def detail(self) -> str:
        return f"the body is larger than {self.limit} bytes: send less at a time"


@dataclass(kw_only=True, eq=False)
class TooMany(Invalid):
    code: ClassVar[str] = "too_many"
    status: ClassVar[int] = 422
    what: str
    count: int
    limit: int
    setting: str | None = None  # the stream's setting that is the limit

    @property
    def detail(self) -> str:
        text = f"{self.count} {self.what} are more than the limit of {self.limit}"
        if self.setting is not None:
            text += f", which the stream's {self.setting} sets: close writers that are done, or raise it with PATCH"
        return text


@dataclass(kw_only=True, eq=False)
class InvalidName(Invalid):
    code: ClassVar[str] = "invalid_name"
    status: ClassVar[int] = 422
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
    status: ClassVar[int] = 422
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"{self.name} cannot be {_shown(self.value)}: {self.wanted}"


@dataclass(kw_only=True, eq=False)
class InvalidParameter(Invalid):
    """A value in the query of the URL, or in a header that the call reads, is not valid."""

    code: ClassVar[str] = "invalid_parameter"
    status: ClassVar[int] = 422
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"the parameter {self.name} cannot be {_shown(self.value)}: {self.wanted}"


@dataclass(kw_only=True, eq=False)
class InvalidNote(Invalid):
    code: ClassVar[str] = "invalid_note"
    status: ClassVar[int] = 422
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"{self.name} of a note cannot be {_shown(self.value)}: {self.wanted}"


@dataclass(kw_only=True, eq=False)
class InvalidScale(Invalid):
    code: ClassVar[str] = "invalid_scale"
    status: ClassVar[int] = 422
    segment: str | None
    reason: str

    @property
    def detail(self) -> str:
        where = f"segment {self.segment!r}" if self.segment is not None else "the segments cannot be changed like this"
        return f"{where}: {self.reason}"


@dataclass(kw_only=True, eq=False)
class UnknownSegment(Invalid):
    code: ClassVar[str] = "unknown_segment"
    status: ClassVar[int] = 422
    segment: str
    known: Sequence[str] = ()

    @property
    def detail(self) -> str:
        known = f"; it has {', '.join(self.known)}" if self.known else ""
        return f"the stream has no segment {self.segment!r}{known}"


@dataclass(kw_only=True, eq=False)
class UnknownSeq(Invalid):
    code: ClassVar[str] = "unknown_seq"
    status: ClassVar[int] = 422
    key: str
    seq: int
    newest: int

    @property
    def detail(self) -> str:
        return f"there is no mark {self.seq} for key {self.key!r} yet: the newest is {self.newest}"


@dataclass(kw_only=True, eq=False)
class BeyondFinalOffset(Invalid):
    code: ClassVar[str] = "beyond_final_offset"
    status: ClassVar[int] = 422
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
    status: ClassVar[int] = 422
    key: str
    time: int
    clock: int
    max_ahead_ms: int

    @property
    def detail(self) -> str:
        return (
            f"time {self.time} is {self.time - self.clock} ms ahead of the clock ({self.clock}), "
            f"more than max_ahead_ms = {self.max_ahead_ms}: times are whole milliseconds; "
            f"if they are meant to run ahead, set the stream's max_ahead_ms higher or to null"
        )


class Unavailable(StrandlineError):
    """The call could not be carried out now, and nothing is known to be wrong with it: try it again later."""


@dataclass(kw_only=True, eq=False)
class Overloaded(Unavailable):
    """The bound of `what` is reached."""

    code: ClassVar[str] = "overloaded"
    status: ClassVar[int] = 503
    waiting: int
    limit: int
    what: str = "calls are waiting to be stored"

    @property
    def detail(self) -> str:
        return f"{self.waiting} {self.what}, the limit is {self.limit}: try again shortly"


@dataclass(kw_only=True, eq=False)
class StreamLoading(Unavailable):
    """A very large stream is being loaded, as after a restart. Nothing was changed."""

    code: ClassVar[str] = "stream_loading"
    status: ClassVar[int] = 503
    stream: str

    @property
    def detail(self) -> str:
        return f"the stream {self.stream!r} is still being loaded from the store: nothing was changed, try again"


@dataclass(kw_only=True, eq=False)
class StoreUnavailable(Unavailable):
    """The store cannot be used; `since` is the controller's time at which that began, if known."""

    code: ClassVar[str] = "store_unavailable"
    status: ClassVar[int] = 503
    reason: str
    since: int | None = None

    @property
    def detail(self) -> str:
        since = f", since {_moment(self.since)}" if self.since is not None else ""
        return f"the store cannot be used just now ({self.reason}{since}): nothing was changed, try again"


def _moment(milliseconds: int) -> str:
    """A time of the controller's clock as a date; the number itself if that is no valid date."""
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)


@dataclass(kw_only=True, eq=False)
class UnknownController(Missing):
    """No controller that serves the store has this name. `controllers` are those that do."""

    code: ClassVar[str] = "unknown_controller"
    status: ClassVar[int] = 404
    controller: str
    controllers: Sequence[str]

    @property
    def detail(self) -> str:
        return (
            f"there is no controller {self.controller!r}: those that serve the store are {', '.join(self.controllers)}"
        )


@dataclass(kw_only=True, eq=False)
class LastController(Conflict):
    """Nobody would serve the store if this controller was drained."""

    code: ClassVar[str] = "last_controller"
    status: ClassVar[int] = 409
    controller: str

    @property
    def detail(self) -> str:
        return (
            f"controller {self.controller!r} is the last one that serves the store: nobody would take over what it "
            f"serves; start another one first, or drain it with `force`"
        )


@dataclass(kw_only=True, eq=False)
class ServesAlone(Conflict):
    """A controller that serves a store alone cannot be drained."""

    code: ClassVar[str] = "serves_alone"
    status: ClassVar[int] = 409

    @property
    def detail(self) -> str:
        return (
            "this controller serves its store alone, so there is no other one to hand it over to: end its process with "
            "SIGTERM, which loses nothing; several controllers need PostgreSQL and `strandline serve --name`"
        )


@dataclass(kw_only=True, eq=False)
class ControllerNotReached(Unavailable):
    """A call for one controller could not be passed on to it."""

    code: ClassVar[str] = "controller_not_reached"
    status: ClassVar[int] = 503
    controller: str
    reason: str

    @property
    def detail(self) -> str:
        return (
            f"controller {self.controller!r} cannot be called just now ({self.reason}): nothing was changed, try again"
        )


@dataclass(kw_only=True, eq=False)
class NotOwner(Unavailable):
    """Of several controllers on one store, the one that serves this stream or reader group was not found or reached in
    time. Nothing was changed."""

    code: ClassVar[str] = "not_owner"
    status: ClassVar[int] = 503
    stream: str | None = None
    group: str | None = None
    reason: str

    @property
    def detail(self) -> str:
        whose = f"stream {self.stream!r}" if self.stream is not None else "this call"
        whose = f"reader group {self.group!r}" if self.group is not None else whose
        return f"no controller takes calls for {whose} just now ({self.reason}): nothing was changed, try again"


@dataclass(kw_only=True, eq=False)
class StreamAway(Unavailable):
    """Of several controllers on one store, the one that serves a stream of a reader group was not reached in time. What
    a reader has reported stands, and is harmless to repeat. Nothing else was changed."""

    code: ClassVar[str] = "stream_away"
    status: ClassVar[int] = 503
    stream: str
    reason: str

    @property
    def detail(self) -> str:
        return (
            f"the controller that serves stream {self.stream!r}, which the reader group reads, cannot be asked just "
            f"now ({self.reason}): a report stands, nothing else was changed, try again"
        )


@dataclass(kw_only=True, eq=False)
class StoreCorrupt(StrandlineError):
    """A row of a stream or a reader group in the store is missing, or differs from what was written. Calls that depend
    on it are refused, all others are served. Waiting does not help."""

    code: ClassVar[str] = "store_corrupt"
    status: ClassVar[int] = 500
    stream: str | None = None
    group: str | None = None
    table: str | None = None
    row: str | None = None
    reason: str

    @property
    def detail(self) -> str:
        whose = f"stream {self.stream!r}" if self.stream is not None else "the store"
        whose = f"reader group {self.group!r}" if self.group is not None else whose
        where = f" in the table {self.table!r}" if self.table is not None else ""
        which = f", the row with {self.row}" if self.row is not None else ""
        return (
            f"{whose} is damaged{where}{which}: {self.reason}. Nothing that depends on it is served: "
            f"`strandline check` names everything that is damaged; restore it from a backup"
        )


class RuleBroken(StrandlineError):
    """A caller broke a documented rule."""


@dataclass(kw_only=True, eq=False)
class WatermarkWentBack(RuleBroken):
    code: ClassVar[str] = "watermark_went_back"
    status: ClassVar[int] = 500
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
    status: ClassVar[int] = 500
    input: Hashable
    call: str

    @property
    def detail(self) -> str:
        return f"{self.call} on input {self.input!r}, which is done: nothing may follow"


@dataclass(kw_only=True, eq=False)
class UnknownInput(RuleBroken):
    code: ClassVar[str] = "unknown_input"
    status: ClassVar[int] = 500
    input: Hashable
    known: Sequence[Hashable]

    @property
    def detail(self) -> str:
        more = ", …" if len(self.known) > 10 else ""
        return f"there is no input {self.input!r}: known are {', '.join(map(repr, self.known[:10]))}{more}"


@dataclass(kw_only=True, eq=False)
class QueueFull(RuleBroken):
    code: ClassVar[str] = "queue_full"
    status: ClassVar[int] = 500
    capacity: int

    @property
    def detail(self) -> str:
        return f"{self.capacity} items are under way already: complete one before the next"


@dataclass(kw_only=True, eq=False)
class UnknownTicket(RuleBroken):
    code: ClassVar[str] = "unknown_ticket"
    status: ClassVar[int] = 500
    number: int

    @property
    def detail(self) -> str:
        return f"no item is under way with ticket {self.number}: complete each one once, in its queue"


@dataclass(kw_only=True, eq=False)
class UnknownPath(Missing):
    code: ClassVar[str] = "not_found"
    status: ClassVar[int] = 404
    path: str = ""

    @property
    def detail(self) -> str:
        return f"there is nothing at {self.path!r}: the paths are listed at /docs and in /openapi.json"


@dataclass(kw_only=True, eq=False)
class MethodNotAllowed(Invalid):
    code: ClassVar[str] = "method_not_allowed"
    status: ClassVar[int] = 405
    method: str = ""
    path: str = ""
    allowed: Sequence[str] = ()

    @property
    def detail(self) -> str:
        allowed = f": use {' or '.join(self.allowed)}" if self.allowed else ""
        return f"{self.path!r} takes no {self.method or 'such method'}{allowed}"


@dataclass(kw_only=True, eq=False)
class BadRequest(Invalid):
    """The bytes sent are not an HTTP request, or not one that can be answered. The connection is closed after it."""

    code: ClassVar[str] = "bad_request"
    status: ClassVar[int] = 400
    reason: str

    @property
    def detail(self) -> str:
        return f"this is not an HTTP/1.1 request that can be answered: {self.reason}"


@dataclass(kw_only=True, eq=False)
class WrongMediaType(Invalid):
    """`given` is the value of `Content-Type`, null without one."""

    code: ClassVar[str] = "wrong_media_type"
    status: ClassVar[int] = 415
    given: str | None

    @property
    def detail(self) -> str:
        given = f"the body came as {self.given!r}" if self.given is not None else "the body came without Content-Type"
        return f"{given}, but bodies are JSON: add the header Content-Type: application/json"


@dataclass(kw_only=True, eq=False)
class WrongHost(Denied):
    """The request was sent to a host name (`Host`) that this controller does not answer to."""

    code: ClassVar[str] = "wrong_host"
    status: ClassVar[int] = 421
    host: str

    @property
    def detail(self) -> str:
        return (
            f"this controller does not answer to the host {self.host!r}: call it by the address that it listens on; "
            f"if the controller has that name, serve with --allowed-host {self.host} (STRANDLINE_ALLOWED_HOST)"
        )


@dataclass(kw_only=True, eq=False)
class ForeignOrigin(Denied):
    """A browser sent the request for a page that is not the controller's own. `origin` is the value of `Origin`, `site`
    that of `Sec-Fetch-Site`, `host` the host to which the request was sent."""

    code: ClassVar[str] = "foreign_origin"
    status: ClassVar[int] = 403
    origin: str | None
    site: str | None
    host: str

    @property
    def detail(self) -> str:
        page = f"a page of {self.origin!r}" if self.origin is not None else f"a page that is {self.site!r}"
        return (
            f"{page} may change nothing at {self.host!r}: only the controller's own pages may, and programs other than "
            f"browsers; a proxy in front must pass on Host, or name it in X-Forwarded-Host"
        )


@dataclass(kw_only=True, eq=False)
class ControllerAway(Unavailable):
    """The controller was not reached: it received no part of the call, and nothing was changed."""

    code: ClassVar[str] = "controller_away"
    status: ClassVar[int] = 503
    controller: str
    reason: str
    tried_ms: int

    @property
    def detail(self) -> str:
        return (
            f"the controller at {self.controller!r} was not reached in {self.tried_ms} ms ({self.reason}): "
            f"nothing was changed; check the address and that the controller runs, then call again"
        )


class Undecided(StrandlineError):
    """It is not known whether the call was carried out."""


def says_nothing_changed(error: BaseException) -> bool:
    """Whether a call that failed with this error was certainly not carried out."""
    return isinstance(error, Refused | Unavailable)


@dataclass(kw_only=True, eq=False)
class OutcomeUnknown(Undecided):
    """The call was sent, and no answer came back. `repeatable` says whether making it again is harmless."""

    code: ClassVar[str] = "outcome_unknown"
    status: ClassVar[int] = 504
    call: str
    reason: str
    tried_ms: int
    repeatable: bool

    @property
    def detail(self) -> str:
        advice = "making the call again is harmless" if self.repeatable else "find out before you call again"
        return (
            f"{self.call} was sent, but no answer came back in {self.tried_ms} ms ({self.reason}): "
            f"whether it was carried out is not known; {advice}"
        )


@dataclass(kw_only=True, eq=False)
class StoreUndecided(Undecided):
    """The controller told its store to commit, and the store did not answer."""

    code: ClassVar[str] = "store_undecided"
    status: ClassVar[int] = 504
    reason: str

    @property
    def detail(self) -> str:
        return (
            f"the store was told to commit and did not answer ({self.reason}): whether the call was carried out is not "
            f"known; if it is harmless to repeat, as a note is, make it again"
        )


@dataclass(kw_only=True, eq=False)
class OwnerUndecided(Undecided):
    """A controller passed the call on to the one that serves the stream or reader group, which did not answer."""

    code: ClassVar[str] = "owner_undecided"
    status: ClassVar[int] = 504
    stream: str | None = None
    group: str | None = None
    reason: str

    @property
    def detail(self) -> str:
        whose = f"stream {self.stream!r}" if self.stream is not None else "this call"
        whose = f"reader group {self.group!r}" if self.group is not None else whose
        return (
            f"the controller that serves {whose} got the call and did not answer ({self.reason}): whether the call was "
            f"carried out is not known; if it is harmless to repeat, as a note is, make it again"
        )


@dataclass(kw_only=True, eq=False)
class InternalFailure(Undecided):
    """The controller failed while it worked on the call."""

    code: ClassVar[str] = "internal_error"
    status: ClassVar[int] = 500
    reason: str = "unnamed"

    @property
    def detail(self) -> str:
        return f"the controller failed inside ({self.reason}): its log says more"


@dataclass(kw_only=True, eq=False)
class UnexpectedAnswer(StrandlineError):
    """An answer that this release does not understand: from another release, or not from a controller.

    With a status from 400 to 499 the call was refused; with another one it may have been carried out.
    """

    code: ClassVar[str] = "unexpected_answer"
    status: ClassVar[int] = 502
    call: str | None
    answer_status: int | None
    answer_code: str | None
    reason: str

    @property
    def detail(self) -> str:
        call = self.call if self.call is not None else "a call"
        status = f" with status {self.answer_status}" if self.answer_status is not None else ""
        code = f" and code {self.answer_code!r}" if self.answer_code is not None else ""
        return f"the answer to {call}{status}{code} was not understood: {self.reason}"


@dataclass(kw_only=True, eq=False)
class TimeNotReached(StrandlineError):
    """A caller waited until everything older than a time is there, and it is not. `reached` is how far time came."""

    code: ClassVar[str] = "time_not_reached"
    status: ClassVar[int] = 504
    stream: str
    key: str
    time: int
    reached: int | None
    waited_ms: int
    holder: str | None = None
    excluded: Sequence[str] = ()
    sealed: bool = False

    @property
    def detail(self) -> str:
        key = f" in key {self.key!r}" if self.key else ""
        where = f"stream {self.stream!r}{key} was to have everything older than {self.time}"
        if self.excluded or self.sealed:
            more = f" and {len(self.excluded) - 10} more" if len(self.excluded) > 10 else ""
            without = f"{', '.join(self.excluded[:10])}{more}"
            ended = "which is sealed now" if self.sealed else f"also after {self.waited_ms} ms"
            return (
                f"{where}, but what it has is without {without}, {ended}: bring them back, or allow it to be incomplete"
            )
        come = "has no time yet" if self.reached is None else f"has come to {self.reached}"
        held = f"; {self.holder!r} holds it back" if self.holder is not None else ""
        return f"{where}, but {come} after {self.waited_ms} ms{held}"


@dataclass(kw_only=True, eq=False)
class UsedAfterFork(RuleBroken):
    """A forked process has neither the threads nor the connections of its parent."""

    code: ClassVar[str] = "used_after_fork"
    status: ClassVar[int] = 500
    what: str
    made_in: int
    used_in: int

    @property
    def detail(self) -> str:
        return (
            f"{self.what} was made in process {self.made_in}, and process {self.used_in} was forked from that one: "
            f"make another one in the process that uses it"
        )
