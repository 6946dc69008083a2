"""Notices that events of a writer are late, as soon as the writer's process can know it: a warning in its log, by how
much, and what reports and status say.

    registering     time is beyond the last note of an earlier process of this name
    a note          it is below the floor, or time went on without the writer since its last note
    a write         its greatest event time (`newest`) is below what was noted, or below the floor

It warns once, too, of a noted time that looks as if it were not in milliseconds, and of times that are ahead of the
controller's clock, or refused for that. It writes no line itself: the news that it adds are passed on by who performs
the writer's steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strandline.core.changes import Registered
from strandline.core.time_units import text_of, unit_of
from strandline.errors import TimeTooFarAhead
from strandline.wire.streams import NoteAnswer
from writer_client.reports import EventsLate, NoteLate, RegisteredLate

SECOND_MS, MINUTE_MS, HOUR_MS = 1_000, 60_000, 3_600_000


@dataclass(frozen=True, slots=True)
class Warn:
    """A line for the program's log; `kind` sets its pace."""

    kind: str
    text: str


class Lateness:
    """What one writer knows of its late events."""

    def __init__(self, stream: str, writer: str, news: list[Any]) -> None:
        """`news` gets warnings and reports."""
        self._who = f"writer {writer!r} of stream {stream!r}"
        self._news = news
        self._below: dict[str, int] = {}  # by key, the time below which what is written now is late
        self.late = False  # of the last answer to a note, as are the floors
        self.floors: Mapping[str, int] = {}
        self.events = 0  # known to be late when they were written
        self._unit_checked = False
        self._ahead_warned = (
            False  # since its time is ahead of the controller's clock, or its notes are refused for that
        )
        self._newest_warned = False

    def registered(self, registered: Registered, *, first: bool) -> None:
        """Takes the answer to a registration; `first` of this process."""
        floors = {key: floor for key, floor in registered.floors.items() if floor is not None}
        self._below |= floors
        noted = registered.noted
        behind = {key: floor for key, floor in floors.items() if floor > noted.get(key, floor)}
        if not first or not behind:
            return
        key = max(behind, key=lambda each: behind[each] - noted[each])
        self._warn(
            "registered",
            f"{self._who} is back, and time has gone on without it: from its last note {text_of(noted[key])}{_of(key)} "
            f"to {text_of(behind[key])}, by {span(behind[key] - noted[key])}. What it writes below that is late for "
            f'exact readers. Time waits for a name that is left with leaving="stay", for at most '
            "the writer_timeout_ms of the stream.",
        )
        self._news.append(RegisteredLate(dict(noted), behind))

    def raise_floors(self, times: Mapping[str, int]) -> None:
        """Takes times that registering noted for an earlier process: what is written below them is late."""
        for key, time in times.items():
            self._below[key] = max(time, self._below.get(key, time))

    def newest_unknown(self) -> None:
        """Warns once that notes cannot have the `newest` time that the program gives."""
        if not self._newest_warned:
            self._newest_warned = True
            self._warn(
                "newest",
                f"the notes of {self._who} have no newest, although the program gives it: below its position lie "
                "events of other processes, whose times are unknown to it. Reading from a time is then not exact, and "
                "removing events before a time needs newer_too=True.",
            )

    def answered(self, times: Mapping[str, int], answer: NoteAnswer, passed: Mapping[str, int]) -> None:
        """Takes the answer to a note; `passed` is what the writer had noted before, or its floor."""
        self.late, self.floors = answer.late, {}
        if not self._unit_checked:
            self._check_unit(times)
        if answer.ahead_ms or self._ahead_warned:
            self._check_ahead(times, answer.ahead_ms)
        if not (answer.late or answer.floors):
            return
        # A floor below the writer's own notes is no news: none of its events are late because of it.
        self.floors = {
            key: floor
            for key, floor in answer.floors.items()
            if floor is not None and (answer.late or floor > passed.get(key, floor - 1))
        }
        if not (self.late or self.floors):
            return
        for key, floor in self.floors.items():
            self._below[key] = max(floor, self._below.get(key, floor))
        below = {key: floor - times[key] for key, floor in self.floors.items() if times.get(key, floor) < floor}
        if below:
            key = max(below, key=below.__getitem__)
            self._warn(
                "note",
                f"{self._who} is late: it noted {text_of(times[key])}{_of(key)}, {span(below[key])} below "
                f"the time of the marks, {text_of(self.floors[key])}. What it wrote below that is late for "
                "exact readers.",
            )
        elif self.floors:
            missed = {key: floor - passed[key] for key, floor in self.floors.items() if key in passed}
            key = max(missed or self.floors, key=(missed or self.floors).__getitem__)
            by = f", {span(missed[key])} beyond its last note" if missed else ""
            self._warn(
                "passed",
                f"time went on without {self._who}: to {text_of(self.floors[key])}{_of(key)}{by}. What it wrote "
                f"below that since then is late for exact readers.",
            )
        self._news.append(NoteLate(times, self.late, self.floors))

    def wrote(self, count: int, newest: Mapping[str, int], noted: Mapping[str, int]) -> None:
        """Takes a write of so many events, with the greatest event times among them, and the times noted before it."""
        for key, time in newest.items():
            bound = max(self._below.get(key, time), noted.get(key, time))
            if time < bound:
                self.events += count
                events = "1 late event" if count == 1 else f"{count} late events"
                self._warn(
                    "events",
                    f"{self._who} has written {events}: the newest is of {text_of(time)}{_of(key)}, "
                    f"{span(bound - time)} below {text_of(bound)}, which the writer had noted "
                    f"or time had reached before.",
                )
                self._news.append(EventsLate(count, dict(newest), {key: bound}))
                return

    def _check_unit(self, times: Mapping[str, int]) -> None:
        for key, time in times.items():
            unit = unit_of(time)
            if unit is not None and not self._unit_checked:
                self._unit_checked = True
                self._warn(
                    "unit",
                    f"{self._who} has noted {time}{_of(key)}, which looks like {unit.word}: times that are dates have "
                    f"to be in milliseconds, as int(time.time() * 1000)",
                )

    def _check_ahead(self, times: Mapping[str, int], ahead_ms: Mapping[str, int]) -> None:
        """Warns when times begin to be ahead of the controller's clock."""
        if ahead_ms and not self._ahead_warned:
            key = max(ahead_ms, key=ahead_ms.__getitem__)
            self._warn(
                "ahead",
                f"{self._who} has noted {text_of(times[key])}{_of(key)}, {span(ahead_ms[key])} ahead of the "
                "controller's clock: the clock that it is from may be wrong. If no other writer holds time back, "
                "time goes there, and older events of others are late.",
            )
        self._ahead_warned = bool(ahead_ms)

    def refused(self, error: Exception) -> None:
        """Warns when notes begin to be refused because their time is too far ahead."""
        if isinstance(error, TimeTooFarAhead) and not self._ahead_warned:
            self._ahead_warned = True
            far = span(error.time - error.clock)
            self._warn(
                "refused",
                f"notes of {self._who} are refused: {text_of(error.time)}{_of(error.key)} is {far} ahead of the "
                f"controller's clock, beyond the stream's max_ahead_ms of {error.max_ahead_ms}. Its time stands still, "
                "and so does that of the stream until it times out. The clock that the time is from may be wrong.",
            )

    def _warn(self, kind: str, text: str) -> None:
        self._news.append(Warn(kind, text))


def _of(key: str) -> str:
    return f" of key {key!r}" if key else ""


def span(span_ms: int) -> str:
    """A length of time, in the two units that a person would name."""
    if span_ms < SECOND_MS:
        return f"{span_ms} ms"
    if span_ms < MINUTE_MS:
        return f"{span_ms / SECOND_MS:.1f} s"
    if span_ms < HOUR_MS:
        return f"{span_ms // MINUTE_MS} min {span_ms % MINUTE_MS // SECOND_MS} s"
    return f"{span_ms // HOUR_MS} h {span_ms % HOUR_MS // MINUTE_MS} min"
