"""Nothing is known to be wrong with the call: it may work later."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar

from strandline.errors.base import StrandlineError


class Unavailable(StrandlineError):
    """Nothing is known to be wrong with the call: try it again later."""


@dataclass(kw_only=True, eq=False)
class Overloaded(Unavailable):
    """There are as many as may be of `what`."""

    code: ClassVar[str] = "overloaded"
    waiting: int
    limit: int
    what: str = "calls are waiting to be stored"

    @property
    def detail(self) -> str:
        return f"{self.waiting} {self.what}, the limit is {self.limit}: try again shortly"


@dataclass(kw_only=True, eq=False)
class StreamLoading(Unavailable):
    """A stream with very much in it is being loaded, as after a restart. Nothing was changed."""

    code: ClassVar[str] = "stream_loading"
    stream: str

    @property
    def detail(self) -> str:
        return f"the stream {self.stream!r} is still being loaded from the store: nothing was changed, try again"


@dataclass(kw_only=True, eq=False)
class StoreUnavailable(Unavailable):
    """The store cannot be used; `since` is the controller's time from which on that is so, where it is known."""

    code: ClassVar[str] = "store_unavailable"
    reason: str
    since: int | None = None

    @property
    def detail(self) -> str:
        since = f", since {_moment(self.since)}" if self.since is not None else ""
        return f"the store cannot be used just now ({self.reason}{since}): nothing was changed, try again"


def _moment(milliseconds: int) -> str:
    """A time of the controller's clock as people read it; as it is where that is no date."""
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
