"""What is known of a writer at its controller: what answers said, and where the log ended when it was registered.

It holds until the next registration: before that, another process of the writer's name may have written, noted or
closed, and the store may have been restored or the stream made anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from strandline.core.changes import Registered
from strandline.core.note import Note
from strandline.logs import Position


class RegistrationState:
    """See above; that of a writer that has none yet knows nothing."""

    def __init__(self, *, has_log: bool) -> None:
        self.wanted = False  # since the writer's block was entered
        self.name: str | None = None  # of a registration whose outcome is unknown
        self.epoch: int | None = None
        self.floors: Mapping[str, int | None] = {}
        self.life = ""  # of the writer's name
        self.clock: int | None = None  # the controller's, as of its last answer
        self.looked = False  # whether the log was looked at since
        self.shares = False  # whether it had events of other processes then
        self.times: dict[str, int] = {}  # that the controller has taken
        self.may_have_noted: Mapping[str, int] = {}  # the greatest times that it may have taken
        self.has_noted = False  # whether it has taken a note since
        self._has_log = has_log
        self._found: Position = {}  # where the log ended then
        self._position: dict[str, int] = {}  # noted since
        self._given: dict[str, int] = {}  # without a log: all that was ever noted

    @property
    def known_floors(self) -> Mapping[str, int]:
        return {key: floor for key, floor in self.floors.items() if floor is not None}

    @property
    def passed(self) -> Mapping[str, int]:
        """By key, the time below which this writer has no more events: its last note, or its floor on registering."""
        return greatest(self.known_floors, self.times)

    @property
    def last_times(self) -> Mapping[str, int]:
        """The last times that may have been noted, or the floors."""
        return greatest(self.known_floors, self.may_have_noted)

    def has_taken(self, wanted: Mapping[str, int]) -> bool:
        """Whether the controller has taken these times, or later ones."""
        return bool(wanted) and all(self.times.get(key, time - 1) >= time for key, time in wanted.items())

    def reached(self, own: Mapping[str, int]) -> Position:
        """A position above all events that processes of this writer's name have appended."""
        return {**own, **{segment: max(own.get(segment, 0), offset) for segment, offset in self._found.items()}}

    def last_position(self, end: Mapping[str, int]) -> Position:
        """The position with which the writer leaves: its `end`, and all else that it has named."""
        return self.reached({**self._given, **end})

    def covers(self, position: Position) -> bool:
        """Whether a note since then has named it."""
        return all(offset <= self._position.get(segment, 0) for segment, offset in position.items())

    # -- what is learnt ----------------------------------------------------------------------------------------------

    def begins(self, answer: Registered, clock: int | None) -> None:
        self.clock, self.epoch, self.floors, self.life = clock, answer.epoch, answer.floors, answer.life
        self.name, self.looked, self.has_noted, self._position = None, False, False, {}

    def look(self, ends: Position, own: Position) -> None:
        """The log ended at `ends`, and `own` is what this process has appended."""
        self._found = {segment: offset for segment, offset in ends.items() if offset}
        self.shares = self.shares or any(offset > own.get(segment, 0) for segment, offset in self._found.items())
        self.looked = True

    def raise_floors(self, times: Mapping[str, int]) -> None:
        self.floors = {**self.floors, **times}

    def took(self, note: Note, clock: int | None) -> None:
        """The controller has taken a note."""
        self.has_noted, self.clock = True, clock
        self.times.update(note.times)
        self.may_have_taken(note)
        self._position.update(note.position)
        if not self._has_log:
            self._given.update(note.position)

    def may_have_taken(self, note: Note) -> None:
        self.may_have_noted = greatest(self.may_have_noted, note.times)


def greatest(times: Mapping[str, int], others: Mapping[str, int]) -> Mapping[str, int]:
    """The greater time of each key."""
    return {**times, **{key: max(time, times.get(key, time)) for key, time in others.items()}}
