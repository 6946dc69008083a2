"""What an `EventReader` yields: events, and between them watermarks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

from strandline.core.checks import check_time
from strandline.core.note import check_key, check_position
from strandline.core.order import SegmentRef
from strandline.core.plain import from_plain
from strandline.errors import Invalid, InvalidConfig
from strandline.logs import StoredEvent
from strandline.names import check_name

Times: TypeAlias = int | Mapping[str, int]
EventTime: TypeAlias = Callable[[StoredEvent], Times]


class ReadingDomain(StrEnum):
    """The time that a reader goes by. In `PROCESSING` there are no watermark items."""

    PROCESSING = "processing"
    INGESTION = "ingestion"
    EVENT = "event"


@dataclass(frozen=True, slots=True)
class EventItem:
    """An event of a stream, with its times by key, where the reader was told how to get them.

    `late` names the keys in which it is older than its stream's lower bound was when it was read, or, without
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
    def place(self) -> SegmentRef:
        """The stream and the segment that it is in."""
        return self.stream, self.event.segment

    @property
    def is_late(self) -> bool:
        return bool(self.late)

    @property
    def is_event(self) -> bool:
        return True

    @property
    def is_watermark(self) -> bool:
        return False

    @property
    def is_idle(self) -> bool:
        return False

    @property
    def watermark(self) -> int | None:
        """Null: it is an event."""
        return None


@dataclass(frozen=True, slots=True)
class WatermarkItem:
    """Nothing older than `watermark` follows, in the time named `key`. One reader's strictly rise, key by key.

    With `by_stream` it is a stream's own, else `stream` is null: it is that of all streams that are not idle.
    """

    watermark: int
    key: str = ""
    stream: str | None = None

    @property
    def is_event(self) -> bool:
        return False

    @property
    def is_idle(self) -> bool:
        return False

    @property
    def is_watermark(self) -> bool:
        return True

    @property
    def event(self) -> StoredEvent | None:
        """Null: it is a watermark."""
        return None


@dataclass(frozen=True, slots=True)
class IdleItem:
    """Nothing comes from a stream for now: others need not wait for it, in any key. Any event or watermark of it ends
    that. `ended`: nothing comes from it any more."""

    stream: str
    ended: bool = False

    @property
    def is_event(self) -> bool:
        return False

    @property
    def is_watermark(self) -> bool:
        return False

    @property
    def is_idle(self) -> bool:
        return True

    @property
    def event(self) -> StoredEvent | None:
        """Null: it is none."""
        return None

    @property
    def watermark(self) -> int | None:
        """Null: it is none."""
        return None


Item: TypeAlias = EventItem | WatermarkItem | IdleItem


@dataclass(frozen=True, slots=True)
class ReaderState:
    """What a reader goes on from: how far it has read, by stream and segment, its watermarks by key, what lies in its
    open windows, if it has any (see `EventWindows.save`), and with `by_stream` the watermarks of each stream by key."""

    positions: Mapping[str, Mapping[str, int]]
    watermarks: Mapping[str, int]
    windows: Mapping[str, Any] | None = None
    by_stream: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for stream, position in self.positions.items():
            check_name("stream", stream)
            check_position(position)
        for stream in self.by_stream:
            check_name("stream", stream)
        for watermarks in (self.watermarks, *self.by_stream.values()):
            for key, watermark in watermarks.items():
                check_time("watermark", watermark)
                check_key(key)
        if self.windows is not None and not isinstance(self.windows, Mapping):
            raise InvalidConfig(name="windows", value=self.windows, wanted="what save() of EventWindows gave")

    @property
    def settled(self) -> Mapping[str, Mapping[str, int]]:
        """How far a group may take it for settled: in a segment with events in open windows one less than was read, so
        that a reader comes to it, and takes them in, also where nothing of it is left to read."""
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
        kept: dict[str, object] = {"positions": self.positions, "watermarks": self.watermarks}
        if self.windows is not None:
            kept["windows"] = self.windows
        if self.by_stream:
            kept["by_stream"] = self.by_stream
        return json.dumps(kept)

    @classmethod
    def from_json(cls, text: str | bytes) -> ReaderState:
        """Raises InvalidConfig for anything but what `to_json` gave."""
        wanted = "what to_json() of a ReaderState gave"
        try:
            given = json.loads(text)
            return cls(**given)
        except (ValueError, TypeError, AttributeError, Invalid) as error:
            raise InvalidConfig(name="state", value=str(text[:80]), wanted=f"{wanted}: {error}") from None

    def write(self, path: str | Path) -> None:
        """Puts it into a file in one step: whenever the process is killed, there is this state or the one before."""
        new = Path(f"{path}.new")
        with new.open("w", encoding="utf-8") as file:
            file.write(self.to_json())
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(Path(path).parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @classmethod
    def read(cls, path: str | Path) -> ReaderState | None:
        """What `write` put there; null where there is no such file yet. Raises InvalidConfig for another file."""
        try:
            return cls.from_json(Path(path).read_bytes())
        except FileNotFoundError:
            return None
