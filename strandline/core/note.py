"""Notes: the statements of writers."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from strandline.core.cut import Cut
from strandline.core.shape import SHAPES, shape_of
from strandline.errors import InvalidName, InvalidNote, TooMany
from strandline.limits import KEYS_PER_STREAM, OFFSET_BOUND, SEGMENTS_PER_STREAM, TIME_BOUND_MS
from strandline.names import is_name

DEFAULT_KEY = ""
NO_TIMES: Final[Mapping[str, int]] = {}


@dataclass(frozen=True, slots=True, init=False)
class Note:
    """Every event of `writer` older than its time, written or still to come, lies below `position`.

    `times` has a time for each noted key. Without any, the note has the position alone: all that the writer has
    written lies below it, whatever its time. `newest` has, by key, the greatest event time below the position, if
    known; `epoch` is that of the writer's registration, if it has one.
    """

    writer: str
    times: Mapping[str, int]
    position: Mapping[str, int]
    epoch: int | None
    newest: Mapping[str, int]
    given: Cut = field(init=False, compare=False, repr=False)  # the position as a cut that is not closed

    def __init__(
        self,
        *,
        writer: str,
        times: Mapping[str, int],
        position: Mapping[str, int],
        epoch: int | None = None,
        newest: Mapping[str, int] = NO_TIMES,
    ) -> None:
        # The constructor that dataclasses write takes twice as long, and every note needs it.
        _set_writer(self, writer)
        _set_times(self, times)
        _set_position(self, position)
        _set_epoch(self, epoch)
        _set_newest(self, newest)
        if not is_name(writer):
            raise InvalidName(what="writer", name=writer)
        if len(times) > KEYS_PER_STREAM:
            raise TooMany(what="time keys", count=len(times), limit=KEYS_PER_STREAM)
        if type(position) is not dict and not isinstance(position, Mapping):
            check_position(position)
        if len(position) > SEGMENTS_PER_STREAM:
            raise TooMany(what="segments in a position", count=len(position), limit=SEGMENTS_PER_STREAM)
        for key, time in times.items():
            if key != DEFAULT_KEY:
                check_key(key)
            if type(time) is not int or not -TIME_BOUND_MS < time < TIME_BOUND_MS:
                check_time("time", time)
        for key, time in newest.items():
            check_key(key)
            check_time("newest", time)
        _set_given(self, position_cut(position))
        if epoch is not None and (type(epoch) is not int or not 0 < epoch < TIME_BOUND_MS):
            raise InvalidNote(name="epoch", value=epoch, wanted="the number that registering gave, or none")


# What an assignment may not set.
_set_writer, _set_times, _set_position, _set_epoch, _set_newest, _set_given = (
    Note.__dict__[name].__set__ for name in ("writer", "times", "position", "epoch", "newest", "given")
)


def check_key(key: str) -> str:
    """Returns the key; raises InvalidName if it is neither empty nor a name."""
    if key != DEFAULT_KEY and not is_name(key):
        raise InvalidName(what="time key", name=key)
    return key


def check_time(name: str, time: int) -> None:
    """Raises InvalidNote unless `time` is a whole number within 2^53."""
    if type(time) is not int or not -TIME_BOUND_MS < time < TIME_BOUND_MS:
        raise InvalidNote(name=name, value=time, wanted="whole milliseconds, less than 2^53 from 0")


def position_cut(position: Mapping[str, int]) -> Cut:
    """A position as a cut that is not closed. Raises what `check_position` raises."""
    names = tuple(position)
    shape = SHAPES.get(names)
    if shape is None:
        check_position(position)
        shape = shape_of(names)
    values = shape.pick(position)
    try:
        row = int.from_bytes(shape.pack(*values), "little")
    except struct.error:  # an offset is no whole number, or far out of bounds
        row = shape.beyond
    # All offsets are checked at once, and one by one only to say which is wrong. A bool has passed so far.
    if row & shape.beyond or not shape.valid:
        check_position(position)
    for value in values:
        if type(value) is not int:
            check_position(position)
    return Cut.of_row(shape, row) if all(values) else Cut(position)


def check_position(position: Mapping[str, int]) -> None:
    """Raises InvalidName or InvalidNote for a position with a bad segment name or offset."""
    if not isinstance(position, Mapping):
        raise InvalidNote(name="position", value=position, wanted='an offset for each segment, such as {"0": 5}')
    for segment, offset in position.items():
        if not is_name(segment):
            raise InvalidName(what="segment", name=segment)
        if type(offset) is not int or not 0 <= offset < OFFSET_BOUND:
            raise InvalidNote(
                name=f"the offset in segment {segment!r}",
                value=offset,
                wanted="the next free slot as a whole number: 0 is nothing, and less than 2^53",
            )
