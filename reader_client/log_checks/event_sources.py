"""Events with their times, out of a topic, an embedded log, or files: for commands that look at what is there.

Each source can be read again from its beginning, up to where it ended when it was opened. Nothing is changed.
"""

from __future__ import annotations

import csv
import gzip
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from pathlib import Path
from typing import Any, Final, TextIO

from reader_client.log_checks.assessment import Arrival
from strandline.core.time_units import MICROSECONDS_FROM, SECONDS_END, Unit, milliseconds, unit_of
from strandline.extras import needing
from strandline.limits import TIME_BOUND_MS
from strandline.logs import LogReader, StoredEvent
from strandline.logs.places import KafkaTopic, Place

ASSESS_PORTION_EVENTS: Final = 200_000  # of a log, in memory at once, over all segments
ASSESS_LEAST_PORTION_EVENTS: Final = 100  # of one segment
ASSESS_PARQUET_ROWS: Final = 10_000  # in memory at once
ASSESS_LINE_CHARACTERS: Final = 16 * 1024 * 1024  # of a line of JSON
ASSESS_ROWS_SHOWN: Final = 20  # of these; --json has all

# A number times the first of these, divided by the second, is in milliseconds.
UNITS: Final = {"s": (1_000, 1), "ms": (1, 1), "us": (1, 1_000), "ns": (1, 1_000_000)}
FORMATS: Final = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")
WHOLE: Final = "."  # the name of a field that stands for a whole value which is no object


class CheckFailed(Exception):
    """A log or file cannot be checked, for a reason that its user can remove."""


class NoTime(Exception):
    """An event has no time where it should be."""


@dataclass(frozen=True, slots=True)
class EventFields:
    """Where an event has what is needed: names of fields, with dots between where they are nested. "." is the whole
    value, if that is no object. None: not there."""

    time: str | None
    arrived: str | None = None
    partition: str | None = None
    unit: str = "ms"
    writer: str | None = None

    def time_in(self, row: Mapping[str, Any], field: str) -> int:
        """A time in milliseconds: from a number, in the unit, or from a date. Raises NoTime."""
        value = _in(row, field)
        if isinstance(value, str):
            value = _number_or_date(value, field)
        if isinstance(value, datetime):
            return milliseconds(field, value if value.tzinfo is not None else value.replace(tzinfo=UTC))
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise NoTime(f"field {field!r} is {str(value)[:80]!r}, which is no time")
        times, by = UNITS[self.unit]
        if not -TIME_BOUND_MS * by < value * times < TIME_BOUND_MS * by:  # also no number at all, such as NaN
            raise NoTime(f"field {field!r} is {str(value)[:80]}, which is no time in {self.unit}{self._advice(value)}")
        return Unit(self.unit).milliseconds(value)

    def arrival(self, row: Mapping[str, Any], partition: str, at: int | None) -> Arrival:
        """An event of these values; what no field has is as given, its time and its arrival as `at`. Raises NoTime."""
        time = at if self.time is None else self.time_in(row, self.time)
        if time is None:
            raise NoTime("no field has its time")
        return Arrival(
            partition if self.partition is None else str(_in(row, self.partition)),
            time,
            at if self.arrived is None else self.time_in(row, self.arrived),
            None if self.writer is None else _writer_in(row, self.writer),
        )

    def of(self, event: StoredEvent) -> Arrival:
        """An event of a log: where no field says otherwise, it came as it was appended. Raises NoTime."""
        named = self.time or self.arrived or self.partition or self.writer
        return self.arrival(_object_of(event.value or b"") if named else {}, event.segment, event.appended_at)

    def looks_like(self, oldest: int | None, newest: int | None) -> Unit | None:
        """The unit that times of a field look like, from their milliseconds, if they were read in another one."""
        if oldest is None or newest is None or self.time is None:
            return None
        times, by = UNITS[self.unit]
        return self._other_unit(oldest * by // times, newest * by // times)

    def _advice(self, value: float) -> str:
        unit = self._other_unit(value, value) if isinstance(value, int) else None
        return "" if unit is None else f": it looks like {unit.word}, use --unit {unit}"

    def _other_unit(self, least: int, greatest: int) -> Unit | None:
        unit = unit_of(least, greatest)
        if unit is None and least >= SECONDS_END and greatest <= MICROSECONDS_FROM:
            unit = Unit.MILLISECONDS
        return None if unit == self.unit else unit


BY_PRODUCERS: Final = (
    "the order of its partitions, and how long results wait, rest on the clocks of its producers, which give records "
    "their times (CreateTime): one whose clock is wrong makes the figures wrong"
)


class Source(ABC):
    """Events in order of arrival. Those without a time are left out, and counted."""

    rests_on = ""  # what the order of arrival depends on, if that may be untrue
    offsets: int | None = None  # that it reads, if that is known

    def __init__(self, fields: EventFields, most: int | None) -> None:
        """Of at most so many events."""
        self._fields = fields
        self._most = most
        self.unreadable = 0
        self.unreadable_example = ""

    @abstractmethod
    def arrivals(self) -> Iterator[Arrival]:
        """All events, from the first one."""

    def _skip(self, error: NoTime, where: str) -> None:
        self.unreadable += 1
        self.unreadable_example = f"{where}: {error}"


class LogSource(Source):
    """A log: each segment is a partition. Segments are merged by the time of their appends, as the log has it. Of more
    than `most` events, the newest ones."""

    def __init__(self, log: Place, fields: EventFields, most: int | None) -> None:
        super().__init__(fields, most)
        self._log = log
        if isinstance(log, KafkaTopic) and log.timestamp_type() == "CreateTime":
            self.rests_on = BY_PRODUCERS
        heads = log.head()
        with closing(log.open_reader()) as reader:
            self._ends = reader.end_offsets()
        share = None if most is None else max(1, most // max(1, len(self._ends)))
        self._starts = {
            segment: max(heads.get(segment, 0), 0 if share is None else end - share)
            for segment, end in self._ends.items()
        }
        self.offsets = sum(self._ends.values()) - sum(self._starts.values())

    def arrivals(self) -> Iterator[Arrival]:
        with closing(self._log.open_reader()) as reader:  # each reading has its own, since two may go on at once
            by_segment = [self._segment(reader, segment) for segment in self._ends]
            yield from merge(*by_segment, key=lambda each: each.arrived or 0)

    def _segment(self, reader: LogReader, segment: str) -> Iterator[Arrival]:
        """In portions, since a reader of Kafka goes through one range at a time."""
        end = self._ends[segment]
        rows = max(ASSESS_LEAST_PORTION_EVENTS, ASSESS_PORTION_EVENTS // len(self._ends))
        for start in range(self._starts[segment], end, rows):
            found = []
            for event in reader.rows(segment, start, min(end, start + rows)):
                try:
                    found.append(self._fields.of(event))
                except NoTime as error:
                    self._skip(error, f"segment {segment}, offset {event.offset}")
            yield from found


class FileSource(Source):
    """Files of JSON (an object a line), CSV or Parquet, one after the other: their rows in order of arrival. Of more
    than `most` events, the first ones."""

    def __init__(self, paths: Sequence[Path], fields: EventFields, most: int | None) -> None:
        super().__init__(fields, most)
        for path in paths:
            if _format(path) not in FORMATS:
                raise CheckFailed(
                    f"{path} is of no known format: its name ends with one of {', '.join(FORMATS)}, or .gz"
                )
        if fields.time is None:
            raise CheckFailed("name the field that has the time: --field")
        self._paths = paths

    def arrivals(self) -> Iterator[Arrival]:
        rows = ((path, line, row) for path in self._paths for line, row in enumerate(_rows(path), start=1))
        for path, line, row in islice(rows, self._most):
            try:
                yield self._fields.arrival(row, "", None)
            except NoTime as error:
                self._skip(error, f"{path}, row {line}")


# -- values --------------------------------------------------------------------------------------------------------


def _in(row: Mapping[str, Any], field: str) -> Any:
    """A field's value. Raises NoTime if there is none."""
    if field in row:
        return row[field]
    value: Any = row
    for name in field.split("."):
        if not isinstance(value, Mapping) or name not in value:
            raise NoTime(f"there is no field {field!r}; {_instead(row)}")
        value = value[name]
    return value


def _writer_in(row: Mapping[str, Any], field: str) -> str | None:
    try:
        return str(_in(row, field))
    except NoTime:
        return None


def _instead(row: Mapping[str, Any]) -> str:
    if not row:
        return "it is no JSON object with fields"
    if list(row) == [WHOLE]:
        return f"the value is {str(row[WHOLE])[:80]}, and no object: if that is its time, the field is {WHOLE!r}"
    return f"there are {', '.join(map(str, list(row)[:10]))}"


def _number_or_date(text: str, field: str) -> Any:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise NoTime(f"field {field!r} is {text[:80]!r}, which is no time") from None


def _object_of(value: bytes | str) -> Mapping[str, Any]:
    """A JSON value as a row. Raises NoTime for what is no JSON."""
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        raise NoTime(f"the value begins with {value[:40]!r}, which is no JSON") from None
    return found if isinstance(found, dict) else {WHOLE: found}


# -- files ---------------------------------------------------------------------------------------------------------


def _format(path: Path) -> str:
    suffixes = [each.lower() for each in path.suffixes]
    return suffixes[-2] if len(suffixes) > 1 and suffixes[-1] == ".gz" else (suffixes or [""])[-1]


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a file, a few at a time in memory. A line that is no JSON is a row without fields."""
    try:
        if _format(path) == ".parquet":
            yield from _parquet_rows(path)
            return
        opened = gzip.open if path.suffix.lower() == ".gz" else open
        with opened(path, "rt", encoding="utf-8", newline="") as lines:
            if _format(path) == ".csv":
                yield from csv.DictReader(lines)
            else:
                yield from map(_json_row, filter(str.strip, _bounded(lines, path)))
    except (OSError, ValueError, EOFError, NotImplementedError, csv.Error) as error:  # also what Parquet raises
        raise CheckFailed(f"{path} cannot be read: {error}") from None


def _bounded(lines: TextIO, path: Path) -> Iterator[str]:
    while line := lines.readline(ASSESS_LINE_CHARACTERS):
        if len(line) == ASSESS_LINE_CHARACTERS:
            raise CheckFailed(
                f"{path} has a line of more than {ASSESS_LINE_CHARACTERS} characters: give each object a line"
            )
        yield line


def _json_row(line: str) -> Mapping[str, Any]:
    try:
        return _object_of(line)
    except NoTime:
        return {}


def _parquet_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    with needing("reading Parquet"):
        from pyarrow.parquet import ParquetFile
    with ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=ASSESS_PARQUET_ROWS):
            yield from batch.to_pylist()
