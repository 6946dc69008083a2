"""Reader groups as JSON objects, and back. The same rules as in `wire.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TypeAlias, assert_never

from strandline.core.coalesce import OnAllIdle
from strandline.limits import READER_TIMEOUT_DEFAULT_MS
from strandline.wire.fields import Fields
from strandline.wire.streams import JsonObject

Positions: TypeAlias = Mapping[str, Mapping[str, int]]  # stream → segment → offset


@dataclass(frozen=True, slots=True)
class FromHead:
    """A group starts where its streams begin."""


@dataclass(frozen=True, slots=True)
class FromTime:
    """A group starts where reading from a time begins."""

    time: int


@dataclass(frozen=True, slots=True)
class FromPositions:
    """A group starts where it is told to, in each stream."""

    positions: Positions


Start: TypeAlias = FromHead | FromTime | FromPositions


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """What a reader group reads, and how. `backlog_threshold_ms` null: it is never in backlog; `idle_timeout_ms`
    null: silence is never taken for idleness. `on_all_idle`: whether the watermark holds or jumps to the greatest bound
    of any stream when all of them are idle; a jump is a guess."""

    streams: tuple[str, ...]
    backlog_threshold_ms: int | None = None
    reader_timeout_ms: int | None = READER_TIMEOUT_DEFAULT_MS
    idle_timeout_ms: int | None = None
    on_all_idle: OnAllIdle = OnAllIdle.HOLD
    start: Start = field(default_factory=FromHead)


@dataclass(frozen=True, slots=True)
class KeyWindow:
    """The bounds of one time key; like `strandline.core.window.TimeWindow`, of which it is a part."""

    lower: int | None
    upper: int | None
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamWindow:
    """Where a group stands in one of its streams: the bounds of the key "", and of every key in `keys`."""

    lower: int | None
    upper: int | None
    complete: bool
    end_of_stream: bool
    lag_ms: int | None
    behind_ms: int | None
    position: Mapping[str, int]
    keys: Mapping[str, KeyWindow]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupWindow:
    """Where a group stands. `watermarks` are, by key, the least of its streams that are not `idle`, and `held_by` names
    the stream that has it. `idle` are the streams that are left out: idle, or read to their end. `complete`: every mark
    that counts left no writer out, and no stream is left out for writers that were excluded."""

    streams: Mapping[str, StreamWindow]
    watermarks: Mapping[str, int | None]
    held_by: Mapping[str, str | None]
    complete: bool
    lag_ms: int | None
    backlog: bool
    idle: tuple[str, ...]

    @property
    def lower(self) -> int | None:
        """Everything older was read, in the default key; null where no mark says it yet."""
        return self.watermarks.get("")

    @property
    def upper(self) -> int | None:
        """The greatest upper bound of its streams; null where one of them has none."""
        uppers = [each.upper for each in self.streams.values()]
        known = [upper for upper in uppers if upper is not None]
        return max(known, default=None) if len(known) == len(uppers) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderAnswer:
    """To a reader: its epoch, the segments it owns with their positions by stream, its even share of the segments that
    can be read now or are owned and not read to their end, how many readable ones are free, and the group's window."""

    epoch: int
    owned: Positions
    share: int
    free: int
    window: GroupWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentLag:
    """How far a segment that can be read is behind: the clock, and the newest mark. Null where no mark says it yet."""

    offset: int
    reader: str | None
    lag_ms: int | None
    behind_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLag:
    """How far a group is behind in time: as a whole, and in each segment that can be read now, by stream."""

    lag_ms: int | None
    streams: Mapping[str, Mapping[str, SegmentLag]]


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A registered reader of a group, and the segments that it owns: how far it has read them, and how far that is
    settled."""

    reader: str
    epoch: int
    last_heard_at: int
    owned: Positions
    settled: Positions


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """What a group reads, and who reads it."""

    streams: tuple[str, ...]
    backlog_threshold_ms: int | None
    reader_timeout_ms: int | None
    idle_timeout_ms: int | None
    on_all_idle: OnAllIdle
    readers: tuple[GroupMember, ...]


def start_to_wire(start: Start) -> object:
    match start:
        case FromHead():
            return "head"
        case FromTime(time):
            return {"time": time}
        case FromPositions(positions):
            return {"positions": positions_to_wire(positions)}
        case _:
            assert_never(start)


def group_to_wire(settings: GroupSettings) -> JsonObject:
    return {
        "streams": list(settings.streams),
        "backlog_threshold_ms": settings.backlog_threshold_ms,
        "reader_timeout_ms": settings.reader_timeout_ms,
        "idle_timeout_ms": settings.idle_timeout_ms,
        "on_all_idle": settings.on_all_idle,
        "start": start_to_wire(settings.start),
    }


def positions_to_wire(positions: Positions) -> JsonObject:
    return {stream: dict(position) for stream, position in positions.items()}


def group_window_to_wire(window: GroupWindow) -> JsonObject:
    return asdict(window) | {"idle": list(window.idle)}


def group_window_from_wire(value: object, where: str = "the answer") -> GroupWindow:
    given = Fields(value, where)
    return GroupWindow(
        streams=given.by_name("streams", _stream_window),
        watermarks=given.numbers_or_none("watermarks"),
        held_by=given.texts_or_none("held_by"),
        complete=given.flag("complete"),
        lag_ms=given.number_or_none("lag_ms"),
        backlog=given.flag("backlog"),
        idle=given.texts("idle"),
    )


def group_lag_to_wire(lag: GroupLag) -> JsonObject:
    return asdict(lag)


def group_lag_from_wire(value: object, where: str = "the answer") -> GroupLag:
    def segment(value: object, where: str) -> SegmentLag:
        given = Fields(value, where)
        return SegmentLag(
            offset=given.number("offset"),
            reader=given.text_or_none("reader"),
            lag_ms=given.number_or_none("lag_ms"),
            behind_ms=given.number_or_none("behind_ms"),
        )

    def stream(value: object, where: str) -> dict[str, SegmentLag]:
        return Fields({"segments": value}, where).by_name("segments", segment)

    given = Fields(value, where)
    return GroupLag(lag_ms=given.number_or_none("lag_ms"), streams=given.by_name("streams", stream))


def group_from_wire(value: object, where: str = "the answer") -> GroupDescription:
    def member(value: object, where: str) -> GroupMember:
        given = Fields(value, where)
        return GroupMember(
            reader=given.text("reader"),
            epoch=given.number("epoch"),
            last_heard_at=given.number("last_heard_at"),
            owned=given.by_name("owned", _position),
            settled=given.by_name("settled", _position),
        )

    given = Fields(value, where)
    return GroupDescription(
        streams=given.texts("streams"),
        backlog_threshold_ms=given.number_or_none("backlog_threshold_ms"),
        reader_timeout_ms=given.number_or_none("reader_timeout_ms"),
        idle_timeout_ms=given.number_or_none("idle_timeout_ms"),
        on_all_idle=OnAllIdle(given.text("on_all_idle")),
        readers=given.list("readers", member),
    )


def reader_answer_to_wire(answer: ReaderAnswer) -> JsonObject:
    return {
        "epoch": answer.epoch,
        "owned": positions_to_wire(answer.owned),
        "share": answer.share,
        "free": answer.free,
        "window": group_window_to_wire(answer.window),
    }


def reader_answer_from_wire(value: object, where: str = "the answer") -> ReaderAnswer:
    given = Fields(value, where)
    return ReaderAnswer(
        epoch=given.number("epoch"),
        owned=given.by_name("owned", _position),
        share=given.number("share"),
        free=given.number("free"),
        window=given.read("window", group_window_from_wire),
    )


def offline_from_wire(value: object, where: str = "the answer") -> GroupWindow:
    return Fields(value, where).read("window", group_window_from_wire)


def _stream_window(value: object, where: str) -> StreamWindow:
    given = Fields(value, where)
    return StreamWindow(
        lower=given.number_or_none("lower"),
        upper=given.number_or_none("upper"),
        complete=given.flag("complete"),
        end_of_stream=given.flag("end_of_stream"),
        lag_ms=given.number_or_none("lag_ms"),
        behind_ms=given.number_or_none("behind_ms"),
        position=given.numbers("position"),
        keys=given.by_name("keys", _key_window),
    )


def _key_window(value: object, where: str) -> KeyWindow:
    given = Fields(value, where)
    return KeyWindow(given.number_or_none("lower"), given.number_or_none("upper"), given.flag("complete"))


def _position(value: object, where: str) -> dict[str, int]:
    return Fields({"position": value}, where).numbers("position")
