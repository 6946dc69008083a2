"""What a reader of events writes to its program's log: what would otherwise make its results look exact.

Each line comes at once, and another one of its kind after a minute at the earliest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reader_client.items import EventItem
from strandline.core.time_units import SECONDS_END, text_of, unit_of
from strandline.logs import StoredEvent
from strandline.paced_log import PacedLog
from strandline.wire.shapes import Positions


class ReaderLog:
    """The log of one reader."""

    def __init__(self, group: str, reader: str, now_ms: Callable[[], float]) -> None:
        self.paced = PacedLog("reader_client", lambda: now_ms() / 1_000)
        self._group = group
        self._who = f"reader {reader!r} of group {group!r}"
        self._late = 0  # events that the log does not have yet
        self._late_example = ""
        self._unreadable = False  # whether the log has an event without a readable time
        self._other_unit: tuple[str, int] | None = None  # the place and time of an event whose unit may be another
        self._unit_checked = False
        self._short: set[str] = set()  # streams whose log was named as too short
        self._all_read = False

    def late(self, item: EventItem, bound: int, writer: str | None) -> None:
        """Counts a late event, for the next line. `bound` is what it is below."""
        self._late += 1
        if self._late == 1:
            time = min(item.times[key] for key in item.late)
            whose = "" if writer is None else f" of writer {writer!r}"
            self._late_example = (
                f"the one at {place_of(item.stream, item.event)}{whose}, whose time {text_of(time)} is below "
                f"{text_of(bound)}"
            )

    def write_late(self, *, passed_on: bool, ends: bool = False) -> None:
        """Writes how many events were late since the last line; `ends`: no other line follows. `passed_on`: `on_late`
        has them."""
        if not self._late or not (ends or self.paced.is_due("late")):
            return
        events = "1 event was" if self._late == 1 else f"{self._late} events were"
        follows = "on_late has them" if passed_on else "item.late flags them, and closed windows lack them"
        kind = "late, at the end" if ends else "late"
        self.paced.warn(kind, f"{self._who}: {events} late, such as {self._late_example}: {follows}")
        self._late = 0

    def unreadable(self, stream: str, event: StoredEvent, error: Exception | None) -> None:
        """Names the first event whose time `event_time` does not give."""
        if not self._unreadable:
            self._unreadable = True
            why = "event_time gives it none" if error is None else f"{type(error).__name__}: {error}"
            self.paced.warn(
                "unreadable", f"{self._who}: the event at {place_of(stream, event)} has no readable time ({why})"
            )

    def check_unit(self, stream: str, event: StoredEvent, times: Mapping[str, int], mark: int | None) -> None:
        """Looks whether a time is in milliseconds. `mark` is where the stream's marks are, as far as that is known."""
        if self._unit_checked:
            return
        if self._other_unit is None:
            for time in times.values():
                if unit_of(time) is not None:
                    self._other_unit = place_of(stream, event), time
        if self._other_unit is not None and mark is not None:
            self._unit_checked = True
            place, time = self._other_unit
            unit = unit_of(time)
            if mark >= SECONDS_END and unit_of(mark) is None and unit is not None:
                self.paced.warn(
                    "unit",
                    f"{self._who}: the event at {place} has the time {text_of(time)}, and the marks are at "
                    f"{text_of(mark)}: as milliseconds {time} looks like {unit.word}. time_unit has to "
                    "be the unit of the numbers that event_time gives",
                )

    def all_read(self) -> None:
        """Says once that nothing comes, since all was read before this reader began."""
        if self._all_read:
            return
        self._all_read = True
        self.paced.warn(
            "all read",
            f"group {self._group!r} has read all of its streams, which are sealed, so nothing comes. To read them "
            "again, create a group of another name, and give its reader another state file",
        )

    def shared(self) -> None:
        """Says that others read the group of a reader whose windows need all of its events."""
        self.paced.warn(
            "shared",
            f"{self._who}: others read this group too, so its windows lack the events of their segments. Give "
            "windows() a group that no other reader has; or share the segments with a state for each, as "
            "docs/how-to/windows-that-survive.md does",
        )

    def check_state(self, read: Positions, heads: Positions) -> None:
        """Names a group that was read before, of which a reader with windows has no state. `heads`: where its streams
        begin."""
        for stream, position in read.items():
            for segment, offset in position.items():
                if offset > heads.get(stream, position).get(segment, 0):
                    self.paced.warn(
                        "no state",
                        f"{self._who} goes on at {stream}/{segment}, offset {offset}, without a state from before: "
                        "windows that were open then come without the events that the group had read. Restore the "
                        "state file; or create a group of another name, which reads all again",
                    )
                    return

    def short_log(self, stream: str, line: str) -> None:
        """Names a log that ends before the marks do, once."""
        if stream not in self._short:
            self._short.add(stream)
            self.paced.warn(f"short {stream}", f"{self._who}: {line}")


def place_of(stream: str, event: StoredEvent) -> str:
    """Where an event is, for messages."""
    return f"{stream}/{event.segment}, offset {event.offset}"
