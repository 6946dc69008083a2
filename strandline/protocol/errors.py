"""The errors that calls over HTTP add to `strandline.errors`.

StrandlineError
├── Refused
│   ├── Missing
│   │   └── UnknownPath          not_found
│   ├── Invalid
│   │   ├── MethodNotAllowed     method_not_allowed
│   │   ├── BadRequest           bad_request
│   │   ├── UrlTooLong           url_too_long
│   │   ├── HeadersTooLarge      headers_too_large
│   │   └── WrongMediaType       wrong_media_type
│   └── Denied
│       ├── WrongHost            wrong_host
│       └── ForeignOrigin        foreign_origin
├── Unavailable
│   ├── ControllerAway           controller_away
│   └── RequestTooSlow           request_too_slow
├── Undecided                    whether the call was carried out is not known
│   ├── OutcomeUnknown           outcome_unknown
│   ├── StoreUndecided           store_undecided
│   └── InternalFailure          internal_failure
├── RuleBroken
│   └── UsedAfterFork            used_after_fork
└── UnexpectedAnswer             unexpected_answer
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from strandline.errors import Denied, Invalid, Missing, Refused, RuleBroken, StrandlineError, Unavailable


@dataclass(kw_only=True, eq=False)
class UnknownPath(Missing):
    code: ClassVar[str] = "not_found"
    path: str = ""

    @property
    def detail(self) -> str:
        return f"there is nothing at {self.path!r}: the paths are listed at /docs and in /openapi.json"


@dataclass(kw_only=True, eq=False)
class MethodNotAllowed(Invalid):
    code: ClassVar[str] = "method_not_allowed"
    method: str = ""
    path: str = ""
    allowed: Sequence[str] = ()

    @property
    def detail(self) -> str:
        allowed = f": use {' or '.join(self.allowed)}" if self.allowed else ""
        return f"{self.path!r} takes no {self.method or 'such method'}{allowed}"


@dataclass(kw_only=True, eq=False)
class BadRequest(Invalid):
    """What was sent is no HTTP request, or not one that can be answered. The connection is closed after it."""

    code: ClassVar[str] = "bad_request"
    reason: str

    @property
    def detail(self) -> str:
        return f"this is no HTTP/1.1 request that can be answered: {self.reason}"


@dataclass(kw_only=True, eq=False)
class UrlTooLong(Invalid):
    code: ClassVar[str] = "url_too_long"
    limit: int

    @property
    def detail(self) -> str:
        return f"the URL is longer than {self.limit} bytes: send less in the query"


@dataclass(kw_only=True, eq=False)
class HeadersTooLarge(Invalid):
    """`what` names the bound: the headers together, their number, or a single one."""

    code: ClassVar[str] = "headers_too_large"
    what: str
    limit: int

    @property
    def detail(self) -> str:
        return f"there are more than {self.limit} {self.what}: send fewer or shorter headers"


@dataclass(kw_only=True, eq=False)
class WrongMediaType(Invalid):
    """`given` is what `Content-Type` says, null where there is none."""

    code: ClassVar[str] = "wrong_media_type"
    given: str | None

    @property
    def detail(self) -> str:
        given = f"the body came as {self.given!r}" if self.given is not None else "the body came without Content-Type"
        return f"{given}, and bodies are JSON: add the header Content-Type: application/json"


@dataclass(kw_only=True, eq=False)
class WrongHost(Denied):
    """The request was sent to a name that this controller does not answer to: `Host` says which."""

    code: ClassVar[str] = "wrong_host"
    host: str

    @property
    def detail(self) -> str:
        return (
            f"this controller does not answer to the host {self.host!r}: call it by the address that it listens on; "
            f"where that name is its own, serve with --allowed-host {self.host} (STRANDLINE_ALLOWED_HOST)"
        )


@dataclass(kw_only=True, eq=False)
class ForeignOrigin(Denied):
    """A browser sent the request for a page that is not the controller's own. `origin` is what `Origin` says, `site`
    what `Sec-Fetch-Site` says, `host` where the request was sent to."""

    code: ClassVar[str] = "foreign_origin"
    origin: str | None
    site: str | None
    host: str

    @property
    def detail(self) -> str:
        page = f"a page of {self.origin!r}" if self.origin is not None else f"a page that is {self.site!r}"
        return (
            f"{page} may change nothing at {self.host!r}: the controller's own pages may, and programs that are no "
            f"browsers; a proxy in front has to pass on Host, or name it in X-Forwarded-Host"
        )


@dataclass(kw_only=True, eq=False)
class RequestTooSlow(Unavailable):
    """The request did not arrive in time; nothing of it was carried out."""

    code: ClassVar[str] = "request_too_slow"
    what: str
    limit_s: int

    @property
    def detail(self) -> str:
        return f"{self.what} did not arrive within {self.limit_s} seconds: nothing was changed, send the request again"


@dataclass(kw_only=True, eq=False)
class ControllerAway(Unavailable):
    """The controller was not reached: nothing of the call got there, and nothing was changed."""

    code: ClassVar[str] = "controller_away"
    controller: str
    reason: str
    tried_ms: int

    @property
    def detail(self) -> str:
        return (
            f"the controller at {self.controller!r} was not reached in {self.tried_ms} ms ({self.reason}): "
            f"nothing was changed; check the address, and that it runs, and call again"
        )


class Undecided(StrandlineError):
    """The call may have been carried out, or not: it is not known which."""


def says_nothing_changed(error: BaseException) -> bool:
    """Whether a call that failed with this was certainly not carried out."""
    return isinstance(error, Refused | Unavailable)


@dataclass(kw_only=True, eq=False)
class OutcomeUnknown(Undecided):
    """The call was sent, and no answer came back. `repeatable` says whether making it again is harmless."""

    code: ClassVar[str] = "outcome_unknown"
    call: str
    reason: str
    tried_ms: int
    repeatable: bool

    @property
    def detail(self) -> str:
        advice = "making the call again is harmless" if self.repeatable else "look before you call again"
        return (
            f"{self.call} was sent, but no answer came back in {self.tried_ms} ms ({self.reason}): "
            f"whether it was carried out is not known; {advice}"
        )


@dataclass(kw_only=True, eq=False)
class StoreUndecided(Undecided):
    """The controller told its store to commit, and the store did not say whether it did."""

    code: ClassVar[str] = "store_undecided"
    reason: str

    @property
    def detail(self) -> str:
        return (
            f"the store was told to keep this and did not answer ({self.reason}): whether it was carried out is not "
            f"known; making a call again that is harmless to repeat, as a note is, settles it"
        )


@dataclass(kw_only=True, eq=False)
class InternalFailure(Undecided):
    """The controller broke while it worked on the call."""

    code: ClassVar[str] = "internal_error"
    reason: str = "unnamed"

    @property
    def detail(self) -> str:
        return f"the controller failed inside ({self.reason}): its log says more"


@dataclass(kw_only=True, eq=False)
class UnexpectedAnswer(StrandlineError):
    """An answer that this release does not understand: another release's, or not a controller's at all.

    With a status from 400 to 499 the call was turned down; with another one it may have been carried out.
    """

    code: ClassVar[str] = "unexpected_answer"
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
class UsedAfterFork(RuleBroken):
    """A forked process has neither the threads nor the connections of the one that it was forked from."""

    code: ClassVar[str] = "used_after_fork"
    what: str
    made_in: int
    used_in: int

    @property
    def detail(self) -> str:
        return (
            f"{self.what} was made in process {self.made_in}, and process {self.used_in} was forked from that one: "
            f"make another one in the process that uses it"
        )
