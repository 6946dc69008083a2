"""The status of streams, reader groups and the controller."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from strandline.wire.streams import HolderReply

# By gravity. The last four are trouble; `held`, `stuck` and `stalled` say that time stands still.
STATES = "`sealed`, `fine`, `idle`, `no_writers`, `incomplete`, `held`, `stuck` or `stalled`"


class KeyStatusReply(msgspec.Struct, frozen=True, kw_only=True):
    """A time key of a stream."""

    time: Annotated[
        int | None,
        Meta(description="the time of the newest mark or of the idle advance; the floor of a new writer"),
    ]
    resting: Annotated[int | None, Meta(description="the time that its idle advance has reached")]
    lag_ms: Annotated[int | None, Meta(description="how far its time is behind the clock")]
    event_time_lag_ms: Annotated[int | None, Meta(description="how far the greatest noted time is behind the clock")]
    mark_seq: Annotated[int, Meta(description="the seq of the newest mark; 0 without one")]
    marked_at: Annotated[int | None, Meta(description="when the newest mark was made")]
    marks_per_second: Annotated[float, Meta(description="over the last minute")]
    complete: Annotated[bool, Meta(description="whether the newest mark leaves no writer out")]
    excluded: Annotated[tuple[str, ...], Meta(description="the first of the writers that it leaves out")]
    excluded_writers: Annotated[int, Meta(description="how many it leaves out")]
    incomplete_marks: Annotated[int, Meta(description="since the stream was made")]
    writers: Annotated[Mapping[str, int], Meta(description="by state")]
    state: Annotated[str, Meta(description=STATES)]
    state_since: Annotated[int | None, Meta(description="when that began, if it is known")]
    reason: Annotated[str, Meta(description="why it is in that state, in a sentence")]
    usual_ms: Annotated[int | None, Meta(description="the usual time between two marks; null before the second")]
    too_long_ms: Annotated[int, Meta(description="time that stands still for longer is trouble")]
    held_back: Annotated[
        bool,
        Meta(
            description="whether the writer in `held_by` holds time back: another one has noted a later time, or time "
            "stands still, or no mark was made yet"
        ),
    ]
    trouble: Annotated[str | None, Meta(description="the state if it is one of the last four, else null")]
    since: Annotated[int | None, Meta(description="when the trouble began, if that is known")]


class StreamStatusReply(msgspec.Struct, frozen=True, kw_only=True):
    """The status of a stream at `seen_at`."""

    stream: str
    seen_at: Annotated[int, Meta(description="the moment of this status, by the controller's clock")]
    state: Annotated[str, Meta(description=f"the gravest of its keys' states: {STATES}")]
    state_since: Annotated[int | None, Meta(description="when that began, if it is known")]
    reason: Annotated[str, Meta(description="why it is in that state, in a sentence")]
    trouble: Annotated[str | None, Meta(description="the state if it is one of the last four, else null")]
    since: Annotated[int | None, Meta(description="when the trouble began, if that is known")]
    sealed: bool
    time_domain: str
    lag_ms: Annotated[int | None, Meta(description="the greatest of its keys")]
    segments: Annotated[int, Meta(description="how many")]
    writers: Annotated[Mapping[str, int], Meta(description="by state, over all keys")]
    last_heard_at: Annotated[int | None, Meta(description="when any writer was")]
    notes: Annotated[int, Meta(description="since the stream was made, as the next two")]
    late_notes: int
    refusals: Annotated[Mapping[str, int], Meta(description="by code")]
    held_by: Annotated[Mapping[str, HolderReply | None], Meta(description="by key")]
    keys: Mapping[str, KeyStatusReply]


class GroupStatusReply(msgspec.Struct, frozen=True, kw_only=True):
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


class TroubleCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of streams in each kind of trouble."""

    stalled: Annotated[int, Meta(description="time stands still, and all writers that count are silent")]
    stuck: Annotated[int, Meta(description="time stands still: a writer holds the others back")]
    held: Annotated[int, Meta(description="time stands still: fewer than `min_writers` have noted")]
    incomplete: Annotated[int, Meta(description="marks leave writers out")]
    none: int


class StatusCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of streams, groups and calls. Notes and refusals are counted since the streams were made."""

    streams: int
    in_memory: Annotated[int, Meta(description="of these; the others are not in `trouble` and what follows")]
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
    """The status of everything that the caller may see, or of the named streams."""

    at: Annotated[int, Meta(description="the controller's clock")]
    controller: ControllerStatus
    trouble: TroubleCounts
    states: Annotated[Mapping[str, int], Meta(description="the number of streams by state, without zeros")]
    counts: StatusCounts
    streams: tuple[StreamStatusReply, ...]
    next: Annotated[str | None, Meta(description="the name after which the next page begins")]
    unread: Annotated[Mapping[str, str], Meta(description="streams without a status, with the code of a problem")]
    groups: Annotated[tuple[GroupStatusReply, ...], Meta(description="the reader groups of these streams")]
    unread_groups: Annotated[Mapping[str, str], Meta(description="those without a status, with the code of a problem")]
