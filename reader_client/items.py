"""The items of an `EventReader`: events, with watermarks in between. And its saved state."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, TypeAlias

from reader_client.event_windows import LeftOut
from strandline.core.checks import check_time
from strandline.core.note import check_key, check_position
from strandline.core.order import SegmentRef
from strandline.core.plain import from_plain
from strandline.core.time_units import Number, as_datetime
from strandline.errors import Invalid, InvalidConfig
from strandline.logs import StoredEvent
from strandline.logs.durable import sync
from strandline.names import check_name

Time: TypeAlias = Number | datetime  # a number in milliseconds, or in the reader's `time_unit`
Times: TypeAlias = Time | Mapping[str, Time]
EventTime: TypeAlias = Callable[[StoredEvent], Times]


class ReadingDomain(StrEnum):
    """The time domain of a reader. In `PROCESSING` there are no watermark items."""

    PROCESSING = "processing"
    INGESTION = "ingestion"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class EventItem:
    """An event of a stream, with its times by key if the reader has `event_time`.

    `late` has the keys in which the event was older, when it was read, than its stream's lower bound or, without
    `by_stream`, than the watermark of all streams.
    """

    stream: str
    event: StoredEvent
    times: Mapping[str, int]
    late: tuple[str, ...] = ()

    @property
    def time(self) -> int | None:
        """Its time in the default key."""
        return self.times.get("")

    @property
    def time_at(self) -> datetime | None:
        """`time` as a datetime in UTC."""
        return as_datetime(self.time)

    @property
    def place(self) -> SegmentRef:
        """The stream and the segment that it is in."""
        return self.stream, self.event.segment

    @property
    def is_late(self) -> bool:
        return bool(self.late)

    @property
    def is_event(self) -> Literal[True]:
        return True

    @property
    def is_watermark(self) -> Literal[False]:
        return False

    @property
    def is_idle(self) -> Literal[False]:
        return False

    @property
    def watermark(self) -> None:
        """None, since this is an event."""


@dataclass(frozen=True, slots=True)
class WatermarkItem:
    """No event older than `watermark` follows, in the time key `key`. A reader's watermarks of a key strictly rise.

    With `by_stream` it is the watermark of `stream`; otherwise `stream` is None, and it is that of all streams that are
    not idle. `left_out` has the writers without which that is true, since marks left them out, each with the time up to
    which its events are there nevertheless (None: none of them); for `EventWindows.advance`.
    """

    watermark: int
    key: str = ""
    stream: str | None = None
    left_out: LeftOut = field(default_factory=dict, hash=False)

    @property
    def watermark_at(self) -> datetime | None:
        """`watermark` as a datetime in UTC."""
        return as_datetime(self.watermark)

    @property
    def complete(self) -> bool:
        """Whether marks left no writer out."""
        return not self.left_out

    @property
    def is_event(self) -> Literal[False]:
        return False

    @property
    def is_idle(self) -> Literal[False]:
        return False

    @property
    def is_watermark(self) -> Literal[True]:
        return True

    @property
    def event(self) -> None:
        """None, since this is a watermark."""


@dataclass(frozen=True, slots=True)
class IdleItem:
    """A stream is idle: others need not wait for it, in any key, until its next event or watermark. `ended`: the stream
    has no more events."""

    stream: str
    ended: bool = False

    @property
    def is_event(self) -> Literal[False]:
        return False

    @property
    def is_watermark(self) -> Literal[False]:
        return False

    @property
    def is_idle(self) -> Literal[True]:
        return True

    @property
    def event(self) -> None:
        """None, since this is no event."""

    @property
    def watermark(self) -> None:
        """None, since this is no watermark."""


Item: TypeAlias = EventItem | WatermarkItem | IdleItem


@dataclass(frozen=True, slots=True)
class Closing:
    """What closes windows: a watermark, None at the end of all streams, and whom it leaves out."""

    watermark: int | None
    left_out: Mapping[str, int | None]

    def __post_init__(self) -> None:
        for time in (self.watermark, *self.left_out.values()):
            if time is not None:
                check_time("closing", time)


@dataclass(frozen=True, slots=True)
class ReaderState:
    """The saved state of a reader, from which another one can continue.

        reader.save().write("count.state")      # and for the next reader: state=ReaderState.read("count.state")

    It has the positions by stream and segment, the watermarks by key, the events of the open windows if there are any
    (see `EventWindows.save`), and with `by_stream` the watermarks of each stream by key. `identities` is of which
    streams that is: a stream that is created again under its name is another one. `group` names the group, which keeps
    how far it has read: another group cannot go on from this state. `time_key`, where the windows are those of
    `reader.windows(…)`, is the key of their times and of their watermark, and `closing` what closes some of them: they
    may have been handed out, and come again.
    """

    positions: Mapping[str, Mapping[str, int]]
    watermarks: Mapping[str, int]
    windows: Mapping[str, Any] | None = None
    by_stream: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    identities: Mapping[str, str] = field(default_factory=dict)
    group: str | None = None
    time_key: str | None = None
    closing: Closing | None = None

    def __post_init__(self) -> None:
        if self.group is not None:
            check_name("group", self.group)
        if self.time_key is not None:
            check_key(self.time_key)
        for stream, position in self.positions.items():
            check_name("stream", stream)
            check_position(position)
        for stream in self.by_stream:
            check_name("stream", stream)
        for watermarks in (self.watermarks, *self.by_stream.values()):
            for key, watermark in watermarks.items():
                check_time("watermark", watermark)
                check_key(key)
        for stream, identity in self.identities.items():
            check_name("stream", stream)
            if not isinstance(identity, str):
                raise InvalidConfig(name="identities", value=identity, wanted="the identity of each stream")
        windows: object = self.windows
        if windows is not None and not (isinstance(windows, Mapping) and "events" in windows):
            raise InvalidConfig(name="windows", value=windows, wanted="the result of EventWindows.save()")

    @property
    def settled(self) -> Mapping[str, Mapping[str, int]]:
        """The positions that a group may settle. In a segment with events in open windows this is one less than was
        read, so that some reader acquires the segment and loads them, even if no event remains to be read."""
        events = () if self.windows is None else self.windows["events"]
        parts = {from_plain(part) for part, *_ in events}
        return {
            stream: {
                segment: max(0, offset - 1) if (stream, segment) in parts else offset
                for segment, offset in position.items()
            }
            for stream, position in self.positions.items()
        }

    def to_json(self) -> str:
        fields: dict[str, object] = {"positions": self.positions, "watermarks": self.watermarks}
        if self.windows is not None:
            fields["windows"] = self.windows
        if self.by_stream:
            fields["by_stream"] = self.by_stream
        if self.identities:
            fields["identities"] = self.identities
        if self.group is not None:
            fields["group"] = self.group
        if self.time_key is not None:
            fields["time_key"] = self.time_key
        if self.closing is not None:
            fields["closing"] = [self.closing.watermark, self.closing.left_out]
        return json.dumps(fields)

    @classmethod
    def from_json(cls, text: str | bytes) -> ReaderState:
        """Reads the text of `to_json`. Raises InvalidConfig for any other."""
        wanted = "the result of ReaderState.to_json()"
        try:
            fields = json.loads(text)
            if "closing" in fields:
                fields["closing"] = Closing(*fields["closing"])
            state = cls(**fields)
            _ = state.settled  # reads the places of the events in open windows
        except (ValueError, Invalid) as error:
            wanted += f": {error}"
        except (TypeError, AttributeError, RecursionError):  # other fields, or values of other types
            pass
        else:
            return state
        value: object = text  # a program may give None
        raise InvalidConfig(name="state", value=value[:80] if isinstance(value, str | bytes) else value, wanted=wanted)

    def write(self, path: str | Path) -> None:
        """Writes the state to a file in one step: if the process is killed, the file has this state or the last one."""
        new = _new_file(path)
        with new.open("w", encoding="utf-8") as file:
            file.write(self.to_json())
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        sync(Path(path).parent)

    @classmethod
    def read(cls, path: str | Path) -> ReaderState | None:
        """Reads a file from `write`; returns None if there is no file. Raises InvalidConfig for any other content."""
        try:
            return cls.from_json(Path(path).read_bytes())
        except FileNotFoundError:
            return None
        except InvalidConfig as error:
            wanted = (
                f"{error.wanted}. Restore the file; or remove it, and the reader goes on at its group's positions, "
                f"without the earlier events of open windows"
            )
            raise InvalidConfig(name=f"the state in {str(path)!r}", value=error.value, wanted=wanted) from None


def check_place(path: str | Path) -> None:
    """Raises InvalidConfig where no state can be written, before anything is read."""
    try:
        if Path(path).is_dir():
            raise IsADirectoryError("it is a folder")
        new = _new_file(path)
        new.open("ab").close()
        new.unlink()
    except OSError as error:
        wanted = f"a file in a folder that exists and can be written to ({error})"
        raise InvalidConfig(name="state", value=str(path), wanted=wanted) from None


def _new_file(path: str | Path) -> Path:
    return Path(f"{path}.new")
