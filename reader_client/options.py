"""The options of an `EventReader`, and its count of late events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias, TypedDict, TypeVar

from reader_client.backlog import GroupBacklog
from reader_client.event_windows import EventWindows
from reader_client.items import EventItem, EventTime, ReaderState, ReadingDomain
from strandline.core.checks import check_time, check_whole
from strandline.core.incomplete import OnIncomplete
from strandline.core.note import DEFAULT_KEY, check_key
from strandline.core.time_units import Unit, milliseconds
from strandline.errors import InvalidConfig
from strandline.logs import StoredEvent

REPORT_DEFAULT_MS: Final = 250  # between two reports of a reader's positions
LATE_WRITERS: Final = 1_000  # whose late events are counted by name
FUNCTIONS: Final = {
    "event_time": "a function from an event to its time",
    "writer_of": "a function from an event to its writer's name",
    "on_late": "a function that takes a late EventItem",
    "recall": "a function from a stream and a segment to the state that was saved of it",
}

Given = TypeVar("Given")

WriterOf: TypeAlias = Callable[[StoredEvent], str | None]
Recall: TypeAlias = Callable[[str, str], ReaderState | None]  # returns the saved state of a stream's segment


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """See `EventReader`."""

    time_domain: str = ReadingDomain.PROCESSING
    event_time: EventTime | Mapping[str, EventTime] | None = None
    time_unit: str | Mapping[str, str | None] | None = None
    max_event_time_lag_ms: int | Mapping[str, int] = 0
    ordered: bool = True
    order_key: str = DEFAULT_KEY
    acknowledge: bool = False
    report_ms: int = REPORT_DEFAULT_MS
    writer_of: WriterOf | Mapping[str, WriterOf] | None = None
    on_late: Callable[[EventItem], object] | None = None
    backlog: GroupBacklog | None = None
    windows: EventWindows[Any] | None = None
    recall: Recall | None = None
    by_stream: bool = False
    on_incomplete: str = OnIncomplete.GO_ON

    def __post_init__(self) -> None:
        if self.time_domain not in list(ReadingDomain):
            wanted = ", ".join(f'"{each}"' for each in ReadingDomain)
            raise InvalidConfig(name="time_domain", value=self.time_domain, wanted=wanted)
        units = self.time_unit
        for unit in units.values() if isinstance(units, Mapping) else [units]:
            if unit is not None and unit not in list(Unit):
                raise InvalidConfig(name="time_unit", value=unit, wanted=", ".join(f'"{each}"' for each in Unit))
        check_key(self.order_key)
        check_whole("report_ms", self.report_ms, least=1)
        lags = self.max_event_time_lag_ms
        for lag in lags.values() if isinstance(lags, Mapping) else [lags]:
            check_whole("max_event_time_lag_ms", lag, least=0)
        for name, wanted in FUNCTIONS.items():
            given: object = getattr(self, name)
            for each in given.values() if isinstance(given, Mapping) else [given]:
                if each is not None and not callable(each):
                    raise InvalidConfig(name=name, value=each, wanted=wanted)
        for name, kind in (("backlog", GroupBacklog), ("windows", EventWindows)):
            value: object = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise InvalidConfig(name=name, value=value, wanted=f"{kind.__name__}(…)")
        if self.on_incomplete not in list(OnIncomplete):
            wanted = ", ".join(f'"{each}"' for each in OnIncomplete)
            raise InvalidConfig(name="on_incomplete", value=self.on_incomplete, wanted=wanted)
        if self.on_incomplete != OnIncomplete.GO_ON and not self.follows_time:
            wanted = f'"event" or "ingestion", so that there is a watermark for on_incomplete="{self.on_incomplete}"'
            raise InvalidConfig(name="time_domain", value=self.time_domain, wanted=wanted)
        if self.recall is not None and self.windows is None:
            raise InvalidConfig(
                name="windows", value=None, wanted="the windows into which the recalled state is loaded"
            )
        if self.on_late is not None and self.event_time is None and self.time_domain != ReadingDomain.INGESTION:
            wanted = "a function from an event to its time, which on_late needs to find late events"
            raise InvalidConfig(name="event_time", value=None, wanted=wanted)

    @property
    def follows_time(self) -> bool:
        """Whether the reader yields watermarks, or finds late events."""
        return self.time_domain != ReadingDomain.PROCESSING or self.event_time is not None


class OptionsGiven(TypedDict, total=False):
    """`Options` as keyword arguments."""

    time_domain: str
    event_time: EventTime | Mapping[str, EventTime] | None
    time_unit: str | Mapping[str, str | None] | None
    max_event_time_lag_ms: int | Mapping[str, int]
    ordered: bool
    order_key: str
    acknowledge: bool
    report_ms: int
    writer_of: WriterOf | Mapping[str, WriterOf] | None
    on_late: Callable[[EventItem], object] | None
    backlog: GroupBacklog | None
    windows: EventWindows[Any] | None
    recall: Recall | None
    by_stream: bool
    on_incomplete: str


@dataclass(slots=True)
class LateEvents:
    """How many late events a reader has read: in total, and by writer if it has `writer_of`. Beyond LATE_WRITERS
    names, events of further writers are only in the total."""

    total: int = 0
    by_writer: Counter[str] = field(default_factory=Counter)

    def count(self, writer: str | None) -> None:
        self.total += 1
        if writer is not None and (writer in self.by_writer or len(self.by_writer) < LATE_WRITERS):
            self.by_writer[writer] += 1


def event_milliseconds(time: object, unit: str | None) -> int:
    """A time that `event_time` gave, in milliseconds. Raises InvalidConfig."""
    if unit is None and type(time) is int:
        return check_time("event_time", time)
    if isinstance(time, datetime):
        return milliseconds("event_time", time)
    if unit is not None and isinstance(time, int | float | Decimal) and not isinstance(time, bool):
        with suppress(ValueError, OverflowError):  # no number, or an infinite one
            return check_time("event_time", Unit(unit).milliseconds(time))
    wanted = (
        'whole milliseconds; with time_unit="s" seconds, also with a fraction; or a datetime with a time zone, such '
    )
    raise InvalidConfig(
        name="event_time", value=time, wanted=f"{wanted}as datetime.fromisoformat(text) makes of a text"
    )


def by_stream(name: str, given: Given | Mapping[str, Given], streams: Collection[str]) -> dict[str, Given]:
    """An option's value for each stream: the same for all, or each its own. Raises InvalidConfig for a mapping of other
    streams."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(streams, given)
    if set(given) != set(streams):
        wanted = f"one value for all streams, or one for each of {sorted(streams)}"
        raise InvalidConfig(name=name, value=sorted(given), wanted=wanted)
    return dict(given)
