"""Notes: the statements of writers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strandline.errors import InvalidName, InvalidNote, TooMany
from strandline.limits import KEYS_PER_STREAM, OFFSET_BOUND, SEGMENTS_PER_STREAM, TIME_BOUND_MS
from strandline.names import is_name

DEFAULT_KEY = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Every event of `writer` older than its time, written or still to come, lies below `position`.

    `times` has a time for each noted key; `newest` has, by key, the greatest event time below the position, if known;
    `epoch` is that of the writer's registration, if it has one.
    """

    writer: str
    times: Mapping[str, int]
    position: Mapping[str, int]
    epoch: int | None = None
    newest: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not is_name(self.writer):
            raise InvalidName(what="writer", name=self.writer)
        if not self.times:
            raise InvalidNote(name="times", value={}, wanted="at least one key with a time")
        if len(self.times) > KEYS_PER_STREAM:
            raise TooMany(what="time keys", count=len(self.times), limit=KEYS_PER_STREAM)
        if len(self.position) > SEGMENTS_PER_STREAM:
            raise TooMany(what="segments in a position", count=len(self.position), limit=SEGMENTS_PER_STREAM)
        for key, time in self.times.items():
            if key != DEFAULT_KEY:
                check_key(key)
            check_time("time", time)
        if self.newest:
            for key, time in self.newest.items():
                check_key(key)
                check_time("newest", time)
        check_position(self.position)
        if self.epoch is not None and (type(self.epoch) is not int or not 0 < self.epoch < TIME_BOUND_MS):
            raise InvalidNote(name="epoch", value=self.epoch, wanted="the number that registering gave, or none")


def check_key(key: str) -> str:
    """Returns the key; raises InvalidName if it is neither empty nor a name."""
    if key != DEFAULT_KEY and not is_name(key):
        raise InvalidName(what="time key", name=key)
    return key


def check_time(name: str, time: int) -> None:
    """Raises InvalidNote unless `time` is a whole number within 2^53."""
    if type(time) is not int or not -TIME_BOUND_MS < time < TIME_BOUND_MS:
        raise InvalidNote(name=name, value=time, wanted="whole milliseconds, less than 2^53 from 0")


def check_position(position: Mapping[str, int]) -> None:
    """Raises InvalidName or InvalidNote for a position with a bad segment name or offset."""
    for segment, offset in position.items():
        if not is_name(segment):
            raise InvalidName(what="segment", name=segment)
        if type(offset) is not int or not 0 <= offset < OFFSET_BOUND:
            raise InvalidNote(
                name=f"the offset in segment {segment!r}",
                value=offset,
                wanted="the next free slot as a whole number: 0 is nothing, and less than 2^53",
            )
