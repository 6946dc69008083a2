"""Every error of Strandline: one root, and for each error a stable code, its HTTP status and a sentence.

An error is declared by its fields and its sentence: `says`, in which {name} is a field, or `detail` where the sentence
depends on the values. Its code is the name of its class, its status that of its family. An error without a place in
`wire/problems.py` never goes over HTTP. The errors of logs, clients and Spark are in `errors.py` of their packages.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import Field, dataclass, fields
from datetime import UTC, datetime
from itertools import islice
from typing import Any, ClassVar, Final, dataclass_transform


def _rebuild(kind: type[Declared], values: dict[str, Any]) -> Declared:
    return kind(**values)


# What is said of a missing package. No index has this project: a clone is what there is.
NOT_INSTALLED: Final = "not installed: pip install '.[{extra}]' in a clone of Strandline"


def not_installed(extra: str) -> str:
    """The end of a sentence about a package that comes with an extra."""
    return NOT_INSTALLED.format(extra=extra)


def _shown(value: Any) -> str:
    """A value that a caller gave, with the words of JSON, in which most of them come."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else repr(value)


@dataclass_transform(kw_only_default=True, eq_default=False)
class Declared(Exception):
    """An exception that is declared by its fields and its sentence. `detail` is the sentence, `values` are the fields.

    A subclass is a dataclass with keyword arguments, so that it can go over the wire and back, and pickles. One without
    a sentence is a family.
    """

    says: ClassVar[str] = ""
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(kw_only=True, eq=False)(cls)

    @classmethod
    def is_family(cls) -> bool:
        """Whether it only groups errors, and none is raised of it."""
        return cls is Declared or not {"says", "detail"} & vars(cls).keys()

    @property
    def detail(self) -> str:
        return self.says.format_map(self.values) if self.says else type(self).__name__

    @property
    def values(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __str__(self) -> str:
        return self.detail

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.values)


class StrandlineError(Declared):
    """The root of what a call may raise. `code` is stable."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if not cls.is_family() and "code" not in vars(cls):
            cls.code = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()


class ExtraMissing(StrandlineError, ImportError):
    """A package that something needs is not installed."""

    says = "{wanted} needs {package}, which is " + NOT_INSTALLED
    wanted: str
    package: str
    extra: str


class Refused(StrandlineError):
    """The call was understood and refused; nothing changed."""


class Conflict(Refused):
    """The call and the stored state disagree."""

    status = 409


class TimeWentBack(Conflict):
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


class PositionWentBack(Conflict):
    """`writer` is the name of a writer, or of a reader of a group."""

    says = (
        "{writer!r} gave offset {offset} in segment {segment!r}, but has given {stored_offset} before: give "
        "{stored_offset} or more, or leave the segment out"
    )
    writer: str
    segment: str
    offset: int
    stored_offset: int


class Fenced(Conflict):
    """The epoch is not the newest one. `newest` is null where that registration has ended, and equals `epoch` where
    another reader has taken over a segment."""

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
                f"{self.name!r} has epoch {self.newest} by now, and this process has {self.epoch}: if another process "
                f"has registered the name, give each one of its own, or end one; then start this one again"
            )
        if self.newest == self.epoch:
            return f"{called} for a segment that another reader has taken over: leave it to that one"
        return f"{called}, but the newest is {self.newest}: register again and use the epoch it gives"


class StreamSealed(Conflict):
    says = "stream {stream!r} is sealed: it takes no more writers, notes or changes"
    stream: str


class StreamExists(Conflict):
    says = "stream {stream!r} exists with other {differs}: create it with the same {differs}, or take another name"
    stream: str
    differs: str


class StreamRecreated(Conflict):
    """What was known of a stream is of an earlier one of its name. `identity` is that of the earlier one, `present` of
    the one that is there now, and `group` names the reader group that began to read the earlier one, if one did."""

    stream: str
    identity: str
    present: str
    group: str | None = None

    @property
    def detail(self) -> str:
        if self.group is None:
            return (
                f"stream {self.stream!r} was deleted and created again since you last used it, or the position is of "
                f"another stream (identity {self.present} now, {self.identity} given). Begin anew in the present stream"
            )
        return (
            f"stream {self.stream!r} was deleted and created again since reader group {self.group!r} began to read it, "
            f"so the group's positions in it do not count: take it out of the group's streams, and add it again, which "
            f"fences its readers and keeps the positions in the others, or delete the group and create it again"
        )


class GroupExists(Conflict):
    group: str
    differs: Sequence[str]

    @property
    def detail(self) -> str:
        return (
            f"reader group {self.group!r} exists with other settings ({', '.join(self.differs)}): "
            f"change them with PATCH, create it with the same settings, or take another name"
        )


class WrongDomain(Conflict):
    says = "stream {stream!r} is in the {time_domain} time domain, which has no {call}"
    stream: str
    time_domain: str
    call: str


class Missing(Refused):
    """Something that the call names does not exist."""

    status = 404


class UnknownStream(Missing):
    """`group` names the reader group that reads the stream, if the call is about one."""

    stream: str
    group: str | None = None

    @property
    def detail(self) -> str:
        if self.group is None:
            return f'there is no stream {self.stream!r}: create it with PUT /v1/streams/{self.stream} {{"segments": 1}}'
        return (
            f"reader group {self.group!r} reads stream {self.stream!r}, which was deleted: take it out of the group's "
            f"streams, which keeps the positions in the others, or delete the group"
        )


class UnknownWriter(Missing):
    says = "stream {stream!r} has no writer {writer!r}: it appears when it registers or notes a time for the first time"
    stream: str
    writer: str


class UnknownGroup(Missing):
    says = 'there is no reader group {group!r}: create it with PUT /v1/reader-groups/{group} {{"streams": […]}}'
    group: str


class UnknownReader(Missing):
    says = (
        "reader group {group!r} has no reader {reader!r}, or no longer, after a day of silence: register it with PUT "
        "/v1/reader-groups/{group}/readers/{reader}; with positions in the body it continues from there"
    )
    group: str
    reader: str


class Denied(Refused):
    """The caller may not do this."""

    status = 403


class Unauthenticated(Denied):
    status = 401
    says = "{reason}: send a token as Authorization: Bearer …"
    reason: str


class Forbidden(Denied):
    """The token is known, but does not allow the call. `needs` is the role that the call requires; `stream`, if any, is
    one that the token's pattern must allow ("*": every stream); `writer`, if any, is one for which the token may not
    call, because it is bound to the writers that fit `writers`."""

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

    status = 422


class BadJson(Invalid):
    status = 400
    says = "the body is not the JSON that was expected: {reason}"
    reason: str


class TooLarge(Invalid):
    status = 413
    says = "the body is larger than {limit} bytes: send less at a time"
    limit: int


class TooMany(Invalid):
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


class InvalidName(Invalid):
    what: str
    name: str

    @property
    def detail(self) -> str:
        return (
            f"{self.what} name {repr(self.name)[:82]} is not allowed: a text, 1 to 249 of A-Z a-z 0-9 . _ - "
            f"and the first a letter or digit"
        )


class InvalidConfig(Invalid):
    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"{self.name} cannot be {_shown(self.value)}: {self.wanted}"


class InvalidParameter(Invalid):
    """A value in the query of the URL, or in a header that the call reads, is not valid."""

    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"the parameter {self.name} cannot be {_shown(self.value)}: {self.wanted}"


class InvalidNote(Invalid):
    """A field of a note is not valid, or a position, a time or another value that a call is about."""

    name: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"{self.name} cannot be {_shown(self.value)}: {self.wanted}"


class InvalidScale(Invalid):
    segment: str | None
    reason: str

    @property
    def detail(self) -> str:
        where = f"segment {self.segment!r}" if self.segment is not None else "the segments cannot be changed like this"
        return f"{where}: {self.reason}"


class UnknownSegment(Invalid):
    """`known` are the segments that there are; of more than ten, the first eleven."""

    segment: str
    known: Sequence[str] = ()

    @classmethod
    def among(cls, known: Iterable[str], segment: str) -> UnknownSegment:
        return cls(segment=segment, known=tuple(islice(known, 11)))

    @property
    def detail(self) -> str:
        more = ", …" if len(self.known) > 10 else ""
        known = f"; it has {', '.join(self.known[:10])}{more}" if self.known else ""
        return f"the stream has no segment {self.segment!r}{known}"


class UnknownSeq(Invalid):
    says = "there is no mark {seq} for key {key!r} yet: the newest is {newest}"
    key: str
    seq: int
    newest: int


class BeyondFinalOffset(Invalid):
    says = (
        "offset {offset} lies beyond segment {segment!r}, which is sealed at {final_offset}: go on in its successors, "
        "or, if the stream is sealed, it was sealed below its last event"
    )
    segment: str
    offset: int
    final_offset: int


class TimeTooFarAhead(Invalid):
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

    status = 503


class Overloaded(Unavailable):
    """The bound of `what` is reached."""

    says = "{waiting} {what}, the limit is {limit}: try again shortly"
    waiting: int
    limit: int
    what: str = "calls are waiting to be stored"


class WritersLeftOut(Unavailable):
    """A reader that is not to go on without a writer has come to a mark that leaves writers out. `complete` is the time
    of the last complete mark that it passed."""

    stream: str
    writers: str
    time: int
    complete: int | None = None

    @property
    def detail(self) -> str:
        reached = "none before it is complete" if self.complete is None else f"the last complete is {self.complete}"
        return (
            f"mark {self.time} of stream {self.stream!r} leaves out {self.writers}, and {reached}: windows that close "
            "may lack their events. Start again when marks are complete, which loses nothing, or choose to wait for "
            "these writers or to go on without them"
        )


class StreamLoading(Unavailable):
    """A very large stream is being loaded, as after a restart. Nothing was changed."""

    says = "the stream {stream!r} is still being loaded from the store: nothing was changed, try again"
    stream: str


class StoreUnavailable(Unavailable):
    """The store cannot be used; `since` is the controller's time at which that began, if known."""

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


class StoreCorrupt(StrandlineError):
    """A row of a stream or a reader group in the store is missing, or cannot be read. Calls that depend on it are
    refused, all others are served. Waiting does not help. The stream or the group can still be deleted."""

    stream: str | None = None
    group: str | None = None
    table: str | None = None
    row: str | None = None
    reason: str

    @property
    def detail(self) -> str:
        whose = f"stream {self.stream!r}" if self.stream is not None else "the store"
        whose = f"reader group {self.group!r}" if self.group is not None else whose
        where = f", in the table {self.table!r}" if self.table is not None else ""
        which = f" the row with {self.row}" if self.row is not None else ""
        return (
            f"{whose} cannot be read{where}{which}: {self.reason}. What depends on it is refused, all else is served: "
            f"`strandline check` names all that cannot be read; restore a backup, or delete it and begin again"
        )


class RuleBroken(StrandlineError):
    """A caller broke a documented rule."""


class WatermarkWentBack(RuleBroken):
    says = (
        "input {input!r} gave {value} for key {key!r} after {previous}: each of its values must be greater than the "
        "one before"
    )
    input: Hashable
    key: str
    value: int
    previous: int


class InputDone(RuleBroken):
    says = "{call} on input {input!r}, which is done: nothing may follow"
    input: Hashable
    call: str


class UnknownInput(RuleBroken):
    input: Hashable
    known: Sequence[Hashable]

    @property
    def detail(self) -> str:
        more = ", …" if len(self.known) > 10 else ""
        return f"there is no input {self.input!r}: known are {', '.join(map(repr, self.known[:10]))}{more}"


class QueueFull(RuleBroken):
    says = "{capacity} items are under way already: complete one before the next"
    capacity: int


class UnknownTicket(RuleBroken):
    says = "no item is under way with ticket {number}: complete each one once, in its queue"
    number: int


class UnknownPath(Missing):
    code = "not_found"
    path: str = ""

    @property
    def detail(self) -> str:
        if self.path.startswith("/v1/v1/"):
            return f"there is nothing at {self.path!r}: leave /v1 out of the controller's address"
        return f"there is nothing at {self.path!r}: the paths are listed at /docs and in /openapi.json"


class MethodNotAllowed(Invalid):
    status = 405
    method: str = ""
    path: str = ""
    allowed: Sequence[str] = ()

    @property
    def detail(self) -> str:
        allowed = f": use {' or '.join(self.allowed)}" if self.allowed else ""
        return f"{self.path!r} takes no {self.method or 'such method'}{allowed}"


class BadRequest(Invalid):
    """The bytes sent are not an HTTP request, or not one that can be answered. The connection is closed after it."""

    status = 400
    says = "this is not an HTTP/1.1 request that can be answered: {reason}"
    reason: str


class WrongMediaType(Invalid):
    """`given` is the value of `Content-Type`, null without one."""

    status = 415
    given: str | None

    @property
    def detail(self) -> str:
        given = f"the body came as {self.given!r}" if self.given is not None else "the body came without Content-Type"
        return f"{given}, but bodies are JSON: add the header Content-Type: application/json"


class WrongHost(Denied):
    """The request was sent to a host name (`Host`) that this controller does not answer to."""

    status = 421
    says = (
        "this controller does not answer to the host {host!r}: call it by the address that it listens on; if the "
        "controller has that name, serve with --allowed-host {host} (STRANDLINE_ALLOWED_HOST)"
    )
    host: str


class ForeignOrigin(Denied):
    """A browser sent the request for a page that is not the controller's own. `origin` is the value of `Origin`, `site`
    that of `Sec-Fetch-Site`, `host` the host to which the request was sent."""

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


class ControllerAway(Unavailable):
    """The controller was not reached: it received no part of the call, and nothing was changed."""

    says = (
        "the controller at {controller!r} was not reached in {tried_ms} ms ({reason}): nothing was changed; check "
        "the address and that the controller runs, then call again"
    )
    controller: str
    reason: str
    tried_ms: int


class Undecided(StrandlineError):
    """It is not known whether the call was carried out."""

    status = 504


def says_nothing_changed(error: BaseException) -> bool:
    """Whether a call that failed with this error was certainly not carried out."""
    return isinstance(error, Refused | Unavailable)


class OutcomeUnknown(Undecided):
    """The call was sent, and no answer came back. `repeatable` says whether making it again is harmless."""

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


class StoreUndecided(Undecided):
    """The controller told its store to commit, and the store did not answer."""

    says = (
        "the store got the commit and did not answer ({reason}): whether the call was carried out is open; "
        "if it is harmless to repeat, as a note is, make it again"
    )
    reason: str


class InternalFailure(Undecided):
    """The controller failed while it worked on the call."""

    code = "internal_error"
    status = 500
    says = "the controller failed inside ({reason}): see its log"
    reason: str = "unnamed"


class UnexpectedAnswer(StrandlineError):
    """An answer that this release does not understand: from another release, or not from a controller.

    With a status from 400 to 499 the call was refused; with another one it may have been carried out.
    """

    status = 502
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


class AnswerTooLarge(StrandlineError):
    """An answer of more bytes than a client takes. A call that changes something may have been carried out."""

    status = 502
    says = "the answer to {call} is larger than {limit} bytes: ask for less at a time"
    call: str
    limit: int


class TimeNotReached(StrandlineError):
    """A caller waited until everything older than a time is there, and it is not. `reached` is how far time came."""

    status = 504
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


class UsedAfterFork(RuleBroken):
    """A forked process has neither the threads nor the connections of its parent."""

    says = (
        "{what} was made in process {made_in}, and process {used_in} was forked from that one: make another one in "
        "the process that uses it"
    )
    what: str
    made_in: int
    used_in: int
