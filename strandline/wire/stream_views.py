"""Views of streams, which controllers ask of each other for reader groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from strandline.core.window import TimeWindow
from strandline.wire.shapes import Offsets, Time


class SegmentView(msgspec.Struct, frozen=True):
    """A segment, as far as positions depend on it."""

    id: str
    predecessors: tuple[str, ...]
    final_offset: int | None


class GroupPlaceView(msgspec.Struct, frozen=True):
    """A group's place in a stream: its position, the window of each key there, and whether the stream counts."""

    position: Offsets
    windows: Mapping[str, TimeWindow]
    standing: Literal["counted", "idle", "set_aside", "ended"]


class StreamViewReply(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as its owner sees it. What was not asked for is null or empty."""

    identity: str
    segments: tuple[SegmentView, ...]
    open: bool
    fence: int
    newest: Time | None
    place: GroupPlaceView | None
    passed: Mapping[str, Time]
    start: Offsets | None
    bounds: Mapping[str, int | None]


class StreamViewsReply(msgspec.Struct, frozen=True):
    """The views by stream."""

    streams: Mapping[str, StreamViewReply]
