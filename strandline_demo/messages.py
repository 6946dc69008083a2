"""What the processes of the demo tell the one that started them: a JSON object a line, on their standard output."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Ready:
    """Spark runs both queries."""


@dataclass(frozen=True, slots=True)
class Registered:
    """A writer registered. `floor` is the time from which on its events are not late; null: any."""

    writer: str
    floor: int | None


@dataclass(frozen=True, slots=True)
class Wrote:
    """How many events a writer has written by now, and appended last."""

    writer: str
    total: int


@dataclass(frozen=True, slots=True)
class Rested:
    """A writer said that it is idle."""

    writer: str


@dataclass(frozen=True, slots=True)
class Vanished:
    """A writer goes without a word, at its last sign of life."""

    writer: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Returned:
    """A writer that had gone is about to write what it collected."""

    writer: str
    at_ms: int
    backlog: int


@dataclass(frozen=True, slots=True)
class Left:
    """A writer closed. `skipped` events of it would have come below its floor and were not written."""

    writer: str
    skipped: int


@dataclass(frozen=True, slots=True)
class Emitted:
    """Windows that a query's sink got: the start and the count of each."""

    query: str
    at_ms: int
    windows: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """A batch of a query: when it began, with which watermark, and the rows that Spark dropped in it."""

    query: str
    batch: int
    at_ms: int
    watermark_ms: int
    rows_dropped: int


@dataclass(frozen=True, slots=True)
class Drained:
    """Both queries have read the sealed stream to its end; these are all their batches."""

    progress: tuple[Progress, ...]


Message: TypeAlias = Ready | Registered | Wrote | Rested | Vanished | Returned | Left | Emitted | Progress | Drained

_KINDS: Final = {
    kind.__name__: kind
    for kind in (Ready, Registered, Wrote, Rested, Vanished, Returned, Left, Emitted, Progress, Drained)
}


def to_line(message: Message) -> str:
    """The message as one line, without its end."""
    return json.dumps({"kind": type(message).__name__, **asdict(message)}, separators=(",", ":"))


def from_line(line: str) -> Message:
    """The message in a line. Raises ValueError for a line that holds none."""
    try:
        fields = json.loads(line)
        kind = _KINDS[fields.pop("kind")]
        if kind is Emitted:
            fields["windows"] = tuple((start, count) for start, count in fields["windows"])
        if kind is Drained:
            fields["progress"] = tuple(Progress(**each) for each in fields["progress"])
        return kind(**fields)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{line[:200]!r} is no message of the demo: {error}") from error
