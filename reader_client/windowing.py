"""What `EventReader.windows` does: events go into windows, and each watermark closes windows and saves the state.

    event, event, watermark     state written, ──► windows close, ──► state written ──► settled
                                with `closing`     the caller has each
                                                        │ killed here: the same windows come again

The state has what was read and the open windows. Before windows close, it is written with what closes them: a process
that is killed then hands out the same windows, with the same events, whatever has come since. It is written again after
the caller has asked for what follows the closed windows, so a window counts as delivered only then. The two classes of
readers share this, and add the waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from reader_client.event_windows import Closed, EventWindows, WindowKind
from reader_client.items import (
    Closing,
    EventItem,
    IdleItem,
    Item,
    ReaderState,
    ReadingDomain,
    WatermarkItem,
    check_place,
)
from reader_client.options import Options
from reader_client.reader import ReaderJobs
from reader_client.reader_log import place_of
from strandline.errors import InvalidConfig

KeyFunction: TypeAlias = Callable[[EventItem], Hashable]
Value: TypeAlias = Callable[[EventItem], Any]
File: TypeAlias = str | Path | None  # None: nothing is kept


def value_of(item: EventItem) -> bytes | None:
    """An event's own bytes."""
    return item.event.value


@dataclass(frozen=True, slots=True)
class Windowing:
    """A reader's windows, and the file that keeps its state."""

    reading: ReaderJobs
    windows: EventWindows[Any]
    path: Path | None
    key: KeyFunction | None
    value: Value
    time_key: str
    closing: Closing | None  # what closed the windows that may not have been delivered
    undelivered: list[Closed[Any]]

    @classmethod
    def begin(
        cls,
        reading: ReaderJobs,
        kind: WindowKind,
        state: File,
        key: KeyFunction | None,
        value: Value,
        time_key: str,
    ) -> Windowing:
        """Takes the reader over, from the state in the file if there is one. Raises InvalidConfig for a reader that has
        begun, or cannot have windows, for a file that cannot be written, and for windows of another time key."""
        _check(reading.options)
        path, windows, saved = None, EventWindows[Any](kind), None
        if state is not None:
            check_place(state)
            path, saved = Path(state), ReaderState.read(state)
        if saved is not None and saved.time_key not in (None, time_key):
            wanted = f"{saved.time_key!r}, as in the saved windows: another needs a state and a reader group of its own"
            raise InvalidConfig(name="time_key", value=time_key, wanted=wanted)
        closing, undelivered = None if saved is None else saved.closing, list[Closed[Any]]()
        if saved is not None and closing is not None:
            # As they were: a reader gets its segments one by one, which changes the order of events.
            before = EventWindows[Any](kind)
            before.load(saved.windows)
            undelivered = _close(before, closing)
        reading = reading.from_state(windows, saved, time_key)
        return cls(reading, windows, path, key, value, time_key, closing, undelivered)

    def resume(self) -> list[Closed[Any]]:
        """The windows that an earlier process may not have delivered, once its segments are there; `settle` follows."""
        if self.closing is not None:
            _close(self.windows, self.closing)
        return self._handed_out(self.undelivered)

    def _handed_out(self, closed: list[Closed[Any]]) -> list[Closed[Any]]:
        if closed:
            self.reading.remember()
        return closed

    def prepare(self, item: Item | None) -> None:
        """Saves the state with what closes windows, if this item does: they are handed out next."""
        closing = self._closing(item)
        if closing is not None and self.windows.would_close(closing.watermark):
            self._write(closing)

    def _closing(self, item: Item | None) -> Closing | None:
        if isinstance(item, WatermarkItem):
            return Closing(item.watermark, item.left_out) if item.key == self.time_key else None
        return Closing(None, {}) if item is None else None

    def take(self, item: Item | None) -> list[Closed[Any]]:
        """Takes the next item, None at the end of all streams. Returns the windows that it closes. Raises InvalidConfig
        for an event without the time key."""
        if not isinstance(item, EventItem):
            closing = self._closing(item)
            return [] if closing is None else self._handed_out(_close(self.windows, closing))
        if self.time_key not in item.times:
            place = place_of(item.stream, item.event)
            wanted = f"a time key of every event; the one at {place} has {list(item.times)}"
            raise InvalidConfig(name="time_key", value=self.time_key, wanted=wanted)
        key = None if self.key is None else self.key(item)
        self.windows.add(item.times[self.time_key], self.value(item), key, part=item.place)
        return []

    def keep(self, item: Item | None) -> None:
        """Saves the state, if this item may have closed windows."""
        if not isinstance(item, EventItem | IdleItem):
            self.settle()

    def settle(self) -> None:
        """Saves the state: the windows were delivered."""
        self._write(None)
        self.reading.settle()

    def _write(self, closing: Closing | None) -> None:
        state = replace(self.reading.save(), time_key=self.time_key, closing=closing)
        if self.path is not None:
            state.write(self.path)


def _close(windows: EventWindows[Any], closing: Closing) -> list[Closed[Any]]:
    if closing.watermark is None:
        return windows.finish()
    return windows.advance(closing.watermark, closing.left_out)


def _check(options: Options) -> None:
    """Raises InvalidConfig for options with which a reader cannot have windows."""
    time_domain = options.time_domain
    if time_domain == ReadingDomain.PROCESSING:
        raise InvalidConfig(name="time_domain", value=time_domain, wanted='"event" or "ingestion", to close windows by')
    if time_domain == ReadingDomain.EVENT and options.event_time is None:
        raise InvalidConfig(name="event_time", value=None, wanted="a function from an event to its time")
    if options.by_stream:
        raise InvalidConfig(name="by_stream", value=True, wanted="left out: windows close by one watermark")
