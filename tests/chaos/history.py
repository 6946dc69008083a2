"""What a run records: every call with its times and its outcome, the events of every log, and what clients said.

All times are seconds of one monotonic clock, that of the harness. A history is a list of records, in any order, and is
kept as one JSON document a line.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, get_args


@dataclass(frozen=True, slots=True)
class Answered:
    """A whole answer came back. `clock` is the controller's, from the header."""

    status: int
    clock: int | None
    body: Any = None
    retry_after: bool = False


@dataclass(frozen=True, slots=True)
class NotSent:
    """Nothing of the call left this process."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The call was sent, and no whole answer came back: it was carried out, or not, or will be."""

    reason: str = ""


Outcome: TypeAlias = Answered | NotSent | Unknown


@dataclass(frozen=True, slots=True)
class Call:
    """One HTTP request."""

    client: str
    began: float
    ended: float
    method: str
    path: str
    query: Mapping[str, str]
    body: Any
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream that the load uses. `segments` as it was created with; `timeout_ms` is `writer_timeout_ms`."""

    name: str
    segments: tuple[str, ...]
    domain: str = "event"
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """An event of a log. `at` is when the append had ended; null where nobody measured it."""

    stream: str
    segment: str
    offset: int
    writer: str
    times: Mapping[str, int]
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Window:
    """A time window that one of our readers told. `cached`: it may come from marks that the reader keeps."""

    reader: str
    began: float
    ended: float
    stream: str
    key: str
    position: Mapping[str, int]
    lower: int | None
    upper: int | None
    complete: bool
    mark_seq: int | None
    cached: bool


@dataclass(frozen=True, slots=True)
class Said:
    """What one of our clients told its program, beside answers: `code` is that of an error."""

    client: str
    stream: str
    at: float
    kind: str  # refused, late, raised, fenced
    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """An event that an EventReader handed out, in the order of `number`."""

    reader: str
    number: int
    at: float
    stream: str
    segment: str
    offset: int
    time: int
    writer: str
    late: bool


@dataclass(frozen=True, slots=True)
class Watermark:
    """A watermark item that an EventReader handed out, in the order of `number`."""

    reader: str
    number: int
    time: int


@dataclass(frozen=True, slots=True)
class Outage:
    """From `began` to `ended` nobody served, or nobody could: the controller or its store was down or paused."""

    began: float
    ended: float
    fault: str


@dataclass(frozen=True, slots=True)
class Several:
    """So many controllers serve one store, and each call goes to any of them."""

    controllers: int


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault. While it is `blind`, a controller that answers may not be able to look what others have written."""

    fault: str
    began: float
    ended: float
    blind: bool


@dataclass(frozen=True, slots=True)
class Lost:
    """The store failed over between the two moments. What became durable meanwhile may be gone, and what was told of
    the store meanwhile may be of a history that is gone."""

    began: float
    ended: float


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a run. `stuck` names what did not move on although all faults were over."""

    at: float
    stuck: tuple[str, ...] = field(default_factory=tuple)


Record: TypeAlias = (
    Call | Stream | Appended | Window | Said | Delivered | Watermark | Outage | Several | Struck | Lost | Ended
)

_RECORDS = {kind.__name__: kind for kind in get_args(Record)}
_OUTCOMES = {kind.__name__: kind for kind in (Answered, NotSent, Unknown)}


def write_history(path: Path, records: Iterable[Record]) -> None:
    with path.open("w") as file:
        for record in records:
            fields = {each.name: getattr(record, each.name) for each in dataclasses.fields(record)}
            if isinstance(record, Call):
                fields["outcome"] = {"is": type(record.outcome).__name__, **dataclasses.asdict(record.outcome)}
            file.write(json.dumps({"is": type(record).__name__, **fields}, default=dict) + "\n")


def read_history(path: Path) -> list[Record]:
    found: list[Record] = []
    with path.open() as file:
        for line in file:
            fields = json.loads(line)
            kind = _RECORDS[fields.pop("is")]
            if kind is Call:
                outcome = fields["outcome"]
                fields["outcome"] = _OUTCOMES[outcome.pop("is")](**outcome)
            for name in ("segments", "stuck"):
                if name in fields:
                    fields[name] = tuple(fields[name])
            found.append(kind(**fields))
    return found
