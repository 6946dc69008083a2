"""Offsets in Spark's checkpoint, in a versioned form: of the source, positions and the mark; of the marks that a query
gets by `attach`, the mark alone.

    {"v": 1, "positions": {"0": 120, "1": 80}, "mark": 1700000000000, "run": "3f9c01ab",
     "identity": "8d1f20c94be07a35"}

`mark` is the lower bound of the time window at exactly these positions, requested when the batch was planned, or the
watermark of the source's group, if its stream is idle. It is kept here so that a batch that runs again after a failure
yields the same rows, and so that a mark that moves without data makes a batch. It is null until a mark is passed.
Offsets of a job in backlog also have `"backlog": true`. Those at a mark that leaves writers out have the first of their
names in `"without"`.

`run` names the start of the query that planned the batch, so each start makes a batch, even an empty one. Spark closes
windows in the batch after the one that brought the mark. If that one would have no data, a restarted Spark forgets it.

`identity` is that of the stream. A checkpoint of another stream, such as an earlier one of the same name, is refused,
and so is one whose mark is of another time key (`"key"`, left out for the default key).

Spark compares offsets as text, so equal offsets must have equal text: segments are sorted, and those at 0 omitted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Self

from spark_integration.errors import InvalidOffset
from strandline.limits import OFFSET_BOUND, TIME_BOUND_MS

VERSION: Final = 1

# The mark at the end of a sealed stream, which closes every window in Spark: the greatest possible time. It is used
# only in Spark; Strandline's own windows have `end_of_stream` instead.
END_OF_TIME_MS: Final = TIME_BOUND_MS - 1

WRITERS_NAMED: Final = 20  # that a mark leaves out, in an offset


def begun(positions: Mapping[str, int]) -> dict[str, int]:
    """Returns the positions above 0: to name a segment, even at 0, says that its predecessors are read."""
    return {segment: offset for segment, offset in positions.items() if offset}


def later(one: int | None, other: int | None) -> int | None:
    """Returns the later of two marks, either of which may be missing."""
    return max((mark for mark in (one, other) if mark is not None), default=None)


def check_key(offset: SourceOffset | MarkOffset, time_key: str) -> None:
    """Raises InvalidOffset if a query that began with another time key goes on from this offset."""
    if offset.identity is not None and offset.key != time_key:
        wanted = f"this query's watermark is of the time key {offset.key!r}, not {time_key!r}: take a new checkpoint"
        raise InvalidOffset(offset=offset.to_json(), wanted=wanted)


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """The end of a batch: the next offset of each segment, the watermark's bound there, and the run that planned it."""

    positions: Mapping[str, int] = field(default_factory=dict)
    mark: int | None = None
    backlog: bool = False
    run: str | None = None
    identity: str | None = None  # none before the first batch
    key: str = ""  # the time key of the mark
    without: tuple[str, ...] = ()  # writers that the last mark left out

    def __post_init__(self) -> None:
        for segment, offset in self.positions.items():
            if type(offset) is not int or not 0 <= offset < OFFSET_BOUND:
                raise InvalidOffset(offset={segment: offset}, wanted="positions are whole numbers from 0")
        if self.mark is not None and (type(self.mark) is not int or abs(self.mark) >= TIME_BOUND_MS):
            raise InvalidOffset(offset=self.mark, wanted="a mark is a whole number of milliseconds, or null")
        if type(self.backlog) is not bool:
            raise InvalidOffset(offset=self.backlog, wanted="backlog is true or left out")
        if self.run is not None and type(self.run) is not str:
            raise InvalidOffset(offset=self.run, wanted="run is a text or left out")
        if self.identity is not None and type(self.identity) is not str:
            raise InvalidOffset(offset=self.identity, wanted="identity is a text or left out")
        if type(self.key) is not str:
            raise InvalidOffset(offset=self.key, wanted="key is a text or left out")

    def position(self, segment: str) -> int:
        return self.positions.get(segment, 0)

    def to_json(self) -> dict[str, Any]:
        positions = dict(sorted(begun(self.positions).items()))
        offset: dict[str, Any] = {"v": VERSION, "positions": positions, "mark": self.mark}
        if self.backlog:
            offset["backlog"] = True
        without = list(self.without[:WRITERS_NAMED]) or None
        named = {"run": self.run, "identity": self.identity, "key": self.key or None, "without": without}
        return offset | {name: value for name, value in named.items() if value is not None}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads an offset from a checkpoint. Raises InvalidOffset for another source's, or a newer version."""
        if not (isinstance(value, dict) and isinstance(value.get("positions"), dict) and "mark" in value):
            raise InvalidOffset(offset=value, wanted="it has v, positions and mark")
        if value.get("v") != VERSION:
            raise InvalidOffset(
                offset=value,
                wanted=f"this release reads version {VERSION}; use the release that wrote the checkpoint",
            )
        named = value.get("backlog", False), value.get("run"), value.get("identity"), value.get("key", "")
        return cls(value["positions"], value["mark"], *named, tuple(value.get("without", ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOffset:
    """The mark of a query, with its group and registration."""

    group: str
    stream: str
    source: str
    created_at: int | None = None  # the group; none before the first batch
    epoch: int = 0
    run: int = 0
    mark: int | None = None
    identity: str | None = None  # none before the first batch
    key: str = ""  # the time key of the mark
    without: tuple[str, ...] = ()  # writers that the last mark left out, the first of them

    def to_json(self) -> dict[str, Any]:
        return {"v": VERSION, **asdict(self), "without": list(self.without[:WRITERS_NAMED])}

    @classmethod
    def from_json(cls, value: object) -> Self:
        """Reads an offset from a checkpoint, or a progress report. Raises InvalidOffset."""
        names = {"v", *(field.name for field in fields(cls))}
        if not (isinstance(value, dict) and value.keys() == names):
            raise InvalidOffset(offset=value, wanted=f"it has {', '.join(sorted(names))}")
        if value["v"] != VERSION:
            raise InvalidOffset(offset=value, wanted=f"this release reads version {VERSION}")
        given = {name: each for name, each in value.items() if name != "v"}
        return cls(**given | {"without": tuple(given["without"])})


def offset_of(text: str | None) -> MarkOffset | None:
    """Parses a marks offset from a progress report; returns None for another source's."""
    try:
        return MarkOffset.from_json(json.loads(text or ""))
    except (ValueError, InvalidOffset):
        return None
