"""Reader groups: their settings, windows and lags, and the answers to their readers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, TypeAlias, assert_never

import msgspec
from msgspec import UNSET, UnsetType

from strandline.core.coalesce import OnAllIdle
from strandline.core.config import Says, checked, settings_of
from strandline.core.time_units import Instant, milliseconds
from strandline.core.window import BoundsAsDates
from strandline.wire.shapes import ByKey, Offsets, Positions, Time, read
from strandline.wire.streams import JsonObject

READER_TIMEOUT_DEFAULT_MS: Final = 30_000  # a reader that is silent for this long loses its segments


@dataclass(frozen=True, slots=True)
class FromHead:
    """A group starts where its streams begin."""


@dataclass(frozen=True, slots=True, init=False)
class FromTime:
    """A group starts where reading from a time begins."""

    time: int

    def __init__(self, time: Instant) -> None:
        object.__setattr__(self, "time", milliseconds("time", time))


@dataclass(frozen=True, slots=True)
class FromPositions:
    """A group starts at these positions."""

    positions: Positions


Start: TypeAlias = FromHead | FromTime | FromPositions


class GroupOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The streams of a reader group, and its settings.

    Each setting is declared here alone: bodies, answers and OpenAPI are made from it, and
    docs/reference/options.md from the comments.
    """

    # The streams that it reads.
    streams: tuple[str, ...]
    # The group is in backlog while its watermark is further than this behind the clock, or while it has none. This has
    # to exceed the sum of the interval of marks, the time between notes, and `idle_lag_ms`. Null: never.
    backlog_threshold_ms: Annotated[int | None, Says("further behind the clock is backlog; empty: never", least=1)] = (
        None
    )
    # A reader that was silent for this long loses its segments, at the positions that it reported last. Null: never.
    reader_timeout_ms: Annotated[int | None, Says("a reader silent for so long loses its segments", least=1)] = (
        READER_TIMEOUT_DEFAULT_MS
    )
    # A stream that was silent for this long, and that the group has read completely, counts as idle: the group's
    # watermark leaves it out. That is a guess. Null: only what writers said counts.
    idle_timeout_ms: Annotated[int | None, Says("a stream silent for so long counts as idle", least=1)] = None
    # What the watermark does while all streams are idle: `hold`, it stays, or `jump`, it advances to the greatest bound
    # of any of them. A jump is a guess: what an idle stream writes below that time later will be late.
    on_all_idle: Annotated[OnAllIdle, Says("what the watermark does while all streams are idle")] = OnAllIdle.HOLD


class GroupSettings(GroupOptions, frozen=True, kw_only=True):
    """A reader group as it is created or changed. Raises InvalidConfig for an invalid setting, and names it."""

    # Where the group begins to read: `head`, or `{"time": …}`, or `{"positions": {stream: position}}`.
    start: Start = FromHead()

    def __post_init__(self) -> None:
        for setting in GROUP_SETTINGS.values():
            msgspec.structs.force_setattr(self, setting.name, checked(setting, getattr(self, setting.name)))


GROUP_SETTINGS: Final = settings_of(GroupOptions)


class KeyWindow(msgspec.Struct, frozen=True):
    """The bounds of one time key; like `strandline.core.window.TimeWindow`, of which it is a part."""

    lower: Time | None
    upper: Time | None
    complete: bool


class Aside(msgspec.Struct, frozen=True):
    """The excluded writers of a stream without which a group went on, and by key up to which watermark. They are named
    until the stream itself has passed that, also if they are back."""

    writers: tuple[str, ...]
    until: Mapping[str, Time]


class StreamWindow(msgspec.Struct, BoundsAsDates, frozen=True, kw_only=True):
    """A group's window in one of its streams: the bounds of the key "", and of every key in `keys`. `complete`: the
    mark that gave `lower` left no writer out, and nobody is `set_aside`."""

    lower: Time | None
    upper: Time | None
    complete: bool
    end_of_stream: bool
    lag_ms: int | None
    behind_ms: int | None
    position: Offsets
    keys: Mapping[str, KeyWindow]
    set_aside: Aside | None = None


class GroupWindow(msgspec.Struct, BoundsAsDates, frozen=True, kw_only=True):
    """A group's window. `watermarks` has, by key, the least bound of its streams that are not `idle`, and `held_by`
    names the stream that has it. `idle` lists the streams that are left out: idle, or read to their end. `complete`:
    the windows of all streams are."""

    streams: Mapping[str, StreamWindow]
    watermarks: ByKey
    held_by: Mapping[str, str | None]
    complete: bool
    lag_ms: int | None
    backlog: bool
    idle: tuple[str, ...]

    @property
    def lower(self) -> int | None:
        """Everything older was read, in the default key; null before the first mark."""
        return self.watermarks.get("")

    @property
    def upper(self) -> int | None:
        """The greatest upper bound of its streams; null if one of them has none."""
        uppers = [each.upper for each in self.streams.values()]
        known = [upper for upper in uppers if upper is not None]
        return max(known, default=None) if len(known) == len(uppers) else None


class ReaderAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a reader: its epoch, the segments it owns with their positions by stream, its even share of the
    segments that can be read now or are owned and not read to their end, how many readable ones are free, and the
    group's window."""

    epoch: int
    owned: Positions
    share: int
    free: int
    window: GroupWindow


class OfflineReply(msgspec.Struct, frozen=True):
    """The group's window after a reader's segments were put back."""

    window: GroupWindow


class SegmentLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a readable segment is behind the clock, and behind the newest mark. Null before the first mark."""

    offset: int
    reader: str | None
    lag_ms: int | None
    behind_ms: int | None


class GroupLag(msgspec.Struct, frozen=True, kw_only=True):
    """How far a group is behind in time, as a whole and in each readable segment, by stream."""

    lag_ms: int | None
    streams: Mapping[str, Mapping[str, SegmentLag]]


class GroupMember(msgspec.Struct, frozen=True):
    """A registered reader of a group, and the segments that it owns, with the read and the settled position of each."""

    reader: str
    epoch: int
    last_heard_at: Time
    owned: Positions
    settled: Positions


class StartShape(msgspec.Struct, frozen=True):
    """The start of a group that does not start at the head: a time, or positions."""

    time: Time | UnsetType = UNSET
    positions: Positions | UnsetType = UNSET


class GroupDescription(GroupOptions, frozen=True, kw_only=True):
    """A reader group: its streams, its settings and its readers. `start` is where it began to read."""

    group: str
    start: StartShape | Literal["head"]
    created_at: Time
    readers: tuple[GroupMember, ...]


class GroupNames(msgspec.Struct, frozen=True):
    """Names in order. The next page begins after `next`; null: this is the last page."""

    groups: tuple[str, ...]
    next: str | None


def start_shape(start: Start) -> StartShape | Literal["head"]:
    match start:
        case FromHead():
            return "head"
        case FromTime(time):
            return StartShape(time=time)
        case FromPositions(positions):
            return StartShape(positions=positions)
        case _:
            assert_never(start)


def start_body(start: Start) -> object:
    """The start of a group, as JSON has it."""
    return msgspec.to_builtins(start_shape(start))


def options_by_name(options: GroupOptions) -> dict[str, Any]:
    """A group's settings by name, without its streams."""
    return {name: getattr(options, name) for name in GROUP_SETTINGS}


def settings_of_group(settings: GroupSettings) -> JsonObject:
    """A group's settings by name, as JSON has them."""
    return {
        "streams": list(settings.streams),
        **options_by_name(settings),
        "start": start_body(settings.start),
    }


def read_offline(body: bytes) -> GroupWindow:
    return read(OfflineReply, body).window
