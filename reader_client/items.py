"""What an `EventReader` yields: events, and between them watermarks."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from logs import StoredEvent
from strandline.checks import check_time
from strandline.errors import Invalid, InvalidConfig
from strandline.names import check_name
from strandline.note import check_key, check_position

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

    `late` names the keys in which it is older than the group's lower bound was when it was read.
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
    def is_late(self) -> bool:
        return bool(self.late)

    @property
    def is_event(self) -> bool:
        return True

    @property
    def is_watermark(self) -> bool:
        return False

    @property
    def watermark(self) -> int | None:
        """Null: it is an event."""
        return None


@dataclass(frozen=True, slots=True)
class WatermarkItem:
    """Nothing older than `watermark` follows, in the time named `key`. One reader's strictly rise, key by key."""

    watermark: int
    key: str = ""

    @property
    def is_event(self) -> bool:
        return False

    @property
    def is_watermark(self) -> bool:
        return True

    @property
    def event(self) -> StoredEvent | None:
        """Null: it is a watermark."""
        return None


Item: TypeAlias = EventItem | WatermarkItem


@dataclass(frozen=True, slots=True)
class ReaderState:
    """What a reader goes on from: how far it has read, by stream and segment, and its watermarks by key."""

    positions: Mapping[str, Mapping[str, int]]
    watermarks: Mapping[str, int]

    def __post_init__(self) -> None:
        for stream, position in self.positions.items():
            check_name("stream", stream)
            check_position(position)
        for key, watermark in self.watermarks.items():
            check_time("watermark", watermark)
            check_key(key)

    def to_json(self) -> str:
        return json.dumps({"positions": self.positions, "watermarks": self.watermarks})

    @classmethod
    def from_json(cls, text: str | bytes) -> ReaderState:
        """Raises InvalidConfig for anything but what `to_json` gave."""
        wanted = "what to_json() of a ReaderState gave"
        try:
            given = json.loads(text)
            return cls(**given)
        except (ValueError, TypeError, AttributeError, Invalid) as error:
            raise InvalidConfig(name="state", value=str(text[:80]), wanted=f"{wanted}: {error}") from None
