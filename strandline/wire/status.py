"""The status of streams, reader groups and the controller."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from strandline.wire.groups import KeyWindow
from strandline.wire.streams import HolderReply

AHEAD_NAMED_MS: Final = 300_000  # a date that is so far ahead of the controller's clock is named
AHEAD_KEPT: Final = 16  # writers of a stream that are so, each once for each key


class State(StrEnum):
    """Whether time moves. Ordered by gravity: the state of a stream is the gravest of its keys."""

    SEALED = "sealed"
    FINE = "fine"  # time moves, or has not stood still for too long
    IDLE = "idle"  # all writers are idle or closed
    NO_WRITERS = "no_writers"  # no writer was there yet, or none is left that counts
    INCOMPLETE = "incomplete"  # time moves, and marks leave writers out
    AHEAD = "ahead"  # a writer, or time itself, is far ahead of the clock: time may leap, or has
    HELD = "held"  # time stands still: fewer than `min_writers` have noted
    STUCK = "stuck"  # time stands still, although a writer that counts was heard: one holds the others back
    STALLED = "stalled"  # time stands still, and all who count are silent

    @property
    def text(self) -> str:
        """As people read it."""
        return self.value.replace("_", " ")

    @property
    def gravity(self) -> int:
        return _GRAVITY[self]

    @property
    def in_trouble(self) -> bool:
        return _GRAVITY[self] >= _GRAVITY[State.INCOMPLETE]

    @property
    def is_urgent(self) -> bool:
        """Whether somebody has to look: later, more is lost."""
        return _GRAVITY[self] >= _GRAVITY[State.AHEAD]

    @property
    def stands_still(self) -> bool:
        """Whether time does not move although somebody counts."""
        return _GRAVITY[self] >= _GRAVITY[State.HELD]


_GRAVITY: Final = {state: gravity for gravity, state in enumerate(State)}
_SINCE: Final = Meta(description="when that began, if it is known")
_REASON: Final = Meta(description="why it is in that state, in a sentence")
_TROUBLE: Final = Meta(description="the state if it is one of the last five, else null")
_TROUBLE_SINCE: Final = Meta(description="when the trouble began, if that is known")


class WriterAhead(msgspec.Struct, frozen=True, kw_only=True):
    """A writer whose dates are more than five minutes ahead of the clock."""

    writer: str
    ahead_ms: Annotated[int, Meta(description="by how much its time, or the note that was refused last, is ahead")]
    refused: Annotated[
        bool,
        Meta(
            description="whether its notes are refused, beyond `max_ahead_ms`, and it does not move; else time goes "
            "where it is once no other writer holds it back"
        ),
    ]


class KeyStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A time key of a stream. Lags are null if the time does not count milliseconds since 1970, and once the stream is
    sealed."""

    key: str
    time: Annotated[
        int | None,
        Meta(description="the time of the newest mark or of the idle advance; the floor of a new writer"),
    ]
    resting: Annotated[int | None, Meta(description="the time that its idle advance has reached")]
    lag_ms: Annotated[int | None, Meta(description="how far its time is behind the clock")]
    event_time_lag_ms: Annotated[
        int | None,
        Meta(description="how far the greatest noted time is behind the clock, excluded writers aside"),
    ]
    mark_seq: Annotated[int, Meta(description="the seq of the newest mark; 0 without one")]
    mark_time: Annotated[int | None, Meta(description="the time of the newest mark")]
    marked_at: Annotated[int | None, Meta(description="when the newest mark was made")]
    marks_per_second: Annotated[float, Meta(description="over the last minute")]
    complete: Annotated[bool, Meta(description="whether the newest mark leaves no writer out")]
    excluded: Annotated[tuple[str, ...], Meta(description="the first of the writers that it leaves out")]
    excluded_writers: Annotated[int, Meta(description="how many it leaves out")]
    incomplete_marks: Annotated[int, Meta(description="since the stream was made")]
    writers: Annotated[Mapping[str, int], Meta(description="by state")]
    have_noted: Annotated[int, Meta(description="how many writers")]
    wanted_writers: Annotated[int, Meta(description="as many have to note before the first mark")]
    last_heard_at: Annotated[
        int | None,
        Meta(description="when a writer that counts was, or without one, a writer that timed out"),
    ]
    ahead: Annotated[
        tuple[WriterAhead, ...],
        Meta(description="the writers that are furthest ahead of the clock, at most 16, excluded ones aside"),
    ]
    state: State
    state_since: Annotated[int | None, _SINCE]
    reason: Annotated[str, _REASON]
    usual_ms: Annotated[int | None, Meta(description="the usual time between two marks; null before the second")]
    too_long_ms: Annotated[int, Meta(description="time that stands still for longer is trouble")]
    held_by: Annotated[HolderReply | None, Meta(description="the writer with the least time that counts")]
    held_back: Annotated[
        bool,
        Meta(
            description="whether the writer in `held_by` holds time back: another one has noted a later time, or time "
            "stands still, or no mark was made yet although somebody counts"
        ),
    ]
    held_since: Annotated[
        int | None,
        Meta(description="since when it does; null if it began before the stream was loaded"),
    ]
    trouble: Annotated[str | None, _TROUBLE]
    since: Annotated[int | None, _TROUBLE_SINCE]


class StreamStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a stream at `seen_at`. Notes and refusals are counted since the stream was made."""

    stream: str
    seen_at: Annotated[int, Meta(description="the moment of this status, by the controller's clock")]
    state: Annotated[State, Meta(description="the gravest of its keys' states")]
    state_since: Annotated[int | None, _SINCE]
    reason: Annotated[str, _REASON]
    trouble: Annotated[str | None, _TROUBLE]
    since: Annotated[int | None, _TROUBLE_SINCE]
    sealed: bool
    time_domain: str
    lag_ms: Annotated[int | None, Meta(description="the greatest of its keys")]
    segments: Annotated[int, Meta(description="how many")]
    writers: Annotated[
        Mapping[str, int],
        Meta(description="by state; one with keys in several states counts in each of these"),
    ]
    writer_count: int
    last_heard_at: Annotated[int | None, Meta(description="when any writer was, forgotten ones too")]
    notes: int
    late_notes: int
    refusals: Annotated[Mapping[str, int], Meta(description="by code, at all controllers")]
    refused_at: Annotated[int | None, Meta(description="when the last call was refused; null if none was")]
    held_by: Annotated[Mapping[str, HolderReply | None], Meta(description="by key")]
    keys: Mapping[str, KeyStatus]

    @property
    def worst(self) -> KeyStatus:
        """The key in the gravest state; of equal ones, the one that is furthest behind."""
        return max(self.keys.values(), key=gravity_of)

    @property
    def time(self) -> int | None:
        """The least time of its keys."""
        return min((key.time for key in self.keys.values() if key.time is not None), default=None)


def gravity_of(key: KeyStatus) -> tuple[int, int]:
    """A sort key: the gravest state last, and of equal ones the key that is furthest behind."""
    return key.state.gravity, -1 if key.lag_ms is None else key.lag_ms


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a reader group at `seen_at`."""

    group: str
    seen_at: int
    streams: tuple[str, ...]
    readers: int
    lag_ms: int | None
    backlog: bool
    backlog_threshold_ms: int | None
    watermarks: Annotated[Mapping[str, int | None], Meta(description="by key")]
    held_by: Annotated[Mapping[str, str | None], Meta(description="by key, the stream with the least bound")]
    complete: bool
    idle: tuple[str, ...]
    bounds: Annotated[Mapping[str, Mapping[str, KeyWindow]], Meta(description="by stream and key")]


class TroubleCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of streams in each kind of trouble."""

    stalled: Annotated[int, Meta(description="time stands still, and all writers that count are silent")]
    stuck: Annotated[int, Meta(description="time stands still: a writer holds the others back")]
    held: Annotated[int, Meta(description="time stands still: fewer than `min_writers` have noted")]
    ahead: Annotated[int, Meta(description="a writer is far ahead of the clock: time may leap, or has")]
    incomplete: Annotated[int, Meta(description="marks leave writers out")]
    none: int


class StatusCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of streams, groups and calls. Notes and refusals are counted since the streams were made."""

    streams: int
    in_memory: Annotated[
        int, Meta(description="of these, those with a status; `trouble` and what follows lack the others")
    ]
    sealed: int
    writers: int
    notes: int
    late_notes: int
    refusals: int
    reader_groups: int
    in_backlog: Annotated[int, Meta(description="of the reader groups")]


class ControllerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The controller itself."""

    version: str
    since: Annotated[int, Meta(description="when it began to serve its store")]
    ready: bool
    reason: Annotated[str | None, Meta(description="why it is not ready")]


class StatusPage(msgspec.Struct, frozen=True, kw_only=True):
    """The status of everything that the caller may see, or of the named streams and groups."""

    at: Annotated[int, Meta(description="the controller's clock")]
    controller: ControllerStatus
    controllers: Annotated[
        Mapping[str, int],
        Meta(description="the number of controllers of the store by state; empty while the store is away"),
    ]
    trouble: TroubleCounts
    states: Annotated[Mapping[str, int], Meta(description="the number of streams by state, without zeros")]
    counts: StatusCounts
    partial: Annotated[
        bool,
        Meta(description="whether streams are missing in these numbers, as while the store is away"),
    ]
    streams: tuple[StreamStatus, ...]
    next: Annotated[str | None, Meta(description="the name after which the next page begins")]
    unread: Annotated[Mapping[str, str], Meta(description="streams without a status, with the code of a problem")]
    groups: Annotated[tuple[GroupStatus, ...], Meta(description="the reader groups of these streams")]
    unread_groups: Annotated[Mapping[str, str], Meta(description="those without a status, with the code of a problem")]
