"""Streams, writers, notes, marks and time windows.

Clients return most shapes as they are; of the others a function makes the value. On the wire a cut is its frontier:
encoding one takes the graph of the stream's segments, and a client keeps the frontier as a plain dict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_type_hints

import msgspec
from msgspec import UNSET, Meta, UnsetType

from strandline.core.aggregate import Holder
from strandline.core.changes import NoteResult, Registered
from strandline.core.config import SETTINGS, StreamConfig, TimeDomain
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY, NO_TIMES, Note
from strandline.core.segment import NewSegment, Segment, SegmentGraph
from strandline.core.time_index import IndexEntry
from strandline.core.time_units import as_datetime
from strandline.core.window import TimeWindow
from strandline.core.writer import WriterState
from strandline.errors import StrandlineError
from strandline.wire.problems import from_problem, to_problem
from strandline.wire.shapes import ByKey, Offsets, Time, read

JsonObject: TypeAlias = dict[str, Any]

# -- marks ---------------------------------------------------------------------------------------------------


class WireMark(msgspec.Struct, frozen=True, kw_only=True):
    """A mark as a reader gets it: every event older than `time` lies below `cut`, except events of the writers in
    `excluded`. `upper` bounds every time that had been noted for anything below the cut."""

    seq: int
    key: str
    time: Time
    upper: Time
    cut: Offsets
    newest: Time | None
    complete: bool
    excluded: tuple[str, ...]
    created_at: Time

    @property
    def time_at(self) -> datetime | None:
        """`time` as a datetime in UTC."""
        return as_datetime(self.time)


class MarksPage(msgspec.Struct, frozen=True, omit_defaults=True):
    """Marks after a seq, oldest first; fewer than asked for if they have very many segments or leave out very many
    writers. `more` is true if there are further ones already. `resting` is the time that an ingestion stream at rest
    has reached. Marks with another `identity` are of another stream of the same name."""

    marks: tuple[WireMark, ...]
    identity: str
    resting: Time | None = None
    more: bool = False


class WindowReply(msgspec.Struct, frozen=True, kw_only=True):
    """`strandline.core.window.TimeWindow`, and the identity of its stream."""

    lower: Time | None
    upper: Time | None
    complete: bool
    end_of_stream: bool
    mark_seq: int | None
    identity: str


def window_reply(window: TimeWindow, identity: str) -> WindowReply:
    return WindowReply(
        lower=window.lower,
        upper=window.upper,
        complete=window.complete,
        end_of_stream=window.end_of_stream,
        mark_seq=window.mark_seq,
        identity=identity,
    )


class HolderReply(msgspec.Struct, frozen=True, kw_only=True):
    """The writer that the next mark waits for, which has the least time of those that count, and until when. Whether it
    holds others back, the status shows with `held_back`. Without a name: fewer than `min_writers` have noted yet.

    `last_heard_ms_ago` counts no time in which nobody could be heard, such as while no controller ran.
    """

    writer: str | None
    state: str
    time: Time | None
    last_heard_ms_ago: int | None
    released_in_ms: int | None


class MarksAt(msgspec.Struct, frozen=True, kw_only=True):
    """The marks around a time, and `start`, where reading from that time begins. Unless `exact`, an event at or after
    the time may lie below the start.

    `ceiling` is the oldest mark at or after the time that leaves nobody out; where each leaves somebody out, the
    oldest. What follows is said of it alone, or of the newest mark if there is no ceiling yet. `there`: every event
    older than the time lies below its cut, or the stream is `sealed`. `complete`: no writer is left out. `reached` is
    its time, or the one that an ingestion stream at rest has reached, and `excluded` whom it leaves out. `held_by` is
    null once everything is there.
    """

    floor: WireMark | None
    ceiling: WireMark | None
    start: Offsets
    exact: bool
    there: bool = False
    complete: bool = False
    reached: Time | None = None
    excluded: tuple[str, ...] = ()
    held_by: HolderReply | None = None
    sealed: bool = False


class EvaluatedReply(msgspec.Struct, frozen=True, kw_only=True):
    """What an evaluation on demand brought: the mark it made, or who holds time back."""

    mark: WireMark | None
    held_by: HolderReply | None


class TimeIndexPage(msgspec.Struct, frozen=True):
    """Entries of a segment's time index, rising; with the token, the next call continues behind them."""

    entries: tuple[IndexEntry, ...]
    token: int


def wire_mark(mark: Mark, graph: SegmentGraph) -> WireMark:
    return WireMark(
        seq=mark.seq,
        key=mark.key,
        time=mark.time,
        upper=mark.upper,
        cut=graph.frontier(mark.cut),
        newest=mark.newest,
        complete=mark.complete,
        excluded=mark.excluded,
        created_at=mark.created_at,
    )


def mark_of(wire: WireMark, graph: SegmentGraph) -> Mark:
    return Mark(
        seq=wire.seq,
        key=wire.key,
        time=wire.time,
        upper=wire.upper,
        cut=graph.cut(wire.cut),
        newest=wire.newest,
        excluded=wire.excluded,
        created_at=wire.created_at,
    )


def read_window(body: bytes) -> tuple[TimeWindow, str]:
    """A window, and the identity of its stream."""
    reply = read(WindowReply, body)
    window = TimeWindow(reply.lower, reply.upper, reply.complete, reply.end_of_stream, reply.mark_seq)
    return window, reply.identity


def marks_page(marks: Sequence[Mark], graph: SegmentGraph, identity: str, resting: int | None = None) -> MarksPage:
    return MarksPage(tuple([wire_mark(mark, graph) for mark in marks]), identity, resting)


def holder_reply(holder: Holder) -> HolderReply:
    return HolderReply(
        writer=holder.writer,
        state=holder.state,
        time=holder.time,
        last_heard_ms_ago=holder.last_heard_ms_ago,
        released_in_ms=holder.released_in_ms,
    )


# -- writers and notes ---------------------------------------------------------------------------------------


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """The new epoch, and the floor of the default key and of each key: no event of the writer at or above it is
    late. `noted` has the greatest time that the writer had noted before, for each key where it had. `life` names the
    writer's present life in this stream: it is another one after the writer was closed or forgotten, and in a stream
    that was made anew."""

    epoch: int
    floor: Time | None
    floors: ByKey
    life: str
    noted: Mapping[str, Time] = {}


class NoteReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a note with `time`. Events that the writer wrote below `floor` are late. `held_by` is there only if
    time is held, `ahead_ms` only if the time is a date that is five minutes or more ahead of the controller's clock, by
    which it has how far: the clock of the writer may be wrong."""

    late: bool
    floor: Time | None
    marks: tuple[WireMark, ...]
    held_by: HolderReply | UnsetType = UNSET
    ahead_ms: int | UnsetType = UNSET


class KeyedNoteReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a note with `times`: the same, by key."""

    late: bool
    floor: Time | None
    marks: tuple[WireMark, ...]
    floors: ByKey
    held_by: Mapping[str, HolderReply] | UnsetType = UNSET
    ahead_ms: Mapping[str, int] | UnsetType = UNSET


class NoteResults(msgspec.Struct, frozen=True):
    """The answer to many notes at once: an answer or a problem for each, in order."""

    results: tuple[
        Annotated[
            msgspec.Raw,
            Meta(
                extra_json_schema={
                    "anyOf": [
                        {"$ref": f"#/components/schemas/{name}"} for name in ("NoteReply", "KeyedNoteReply", "Problem")
                    ]
                }
            ),
        ],
        ...,
    ]


@dataclass(frozen=True, slots=True)
class NoteAnswer:
    """The answer to a note, as a writer gets it: `strandline.core.changes.NoteResult` with the marks as they came over
    the wire, the holder of each key, and how far dates are ahead of the controller's clock, from five minutes on.
    Events that the writer wrote below a time in `floors` are late."""

    late: bool
    floors: Mapping[str, int | None]
    marks: tuple[WireMark, ...]
    held_by: Mapping[str, HolderReply] = field(default_factory=dict)
    ahead_ms: Mapping[str, int] = field(default_factory=dict)

    @property
    def floor(self) -> int | None:
        return self.floors.get(DEFAULT_KEY)


class WriterReply(msgspec.Struct, frozen=True, kw_only=True):
    """A writer: its state in all of its keys and in each, the greatest time that it noted in each, and the keys in
    which the next mark waits for it."""

    writer: str
    state: WriterStateText
    states: Mapping[str, WriterStateText]
    times: ByKey
    position: Offsets
    epoch: int | None
    last_heard_at: Time | None
    holds: tuple[str, ...]


class WritersPage(msgspec.Struct, frozen=True):
    """Writers in the order of their names; fewer than asked for if their positions have very many segments. The next
    page begins after the name `next`; null: this is the last page."""

    writers: tuple[WriterReply, ...]
    next: str | None


class TimesWithout(msgspec.Struct, frozen=True):
    """By key of a writer: the time of the newest mark, and the time that marks would reach if the writer were excluded
    or closed, or included where it is excluded; null while there is no mark, or would be none. `at` is the controller's
    clock."""

    at: Time
    time_domain: TimeDomain
    present: ByKey
    excluded: ByKey
    closed: ByKey
    included: ByKey


WriterStateText: TypeAlias = Annotated[str, Meta(extra_json_schema={"enum": [str(state) for state in WriterState]})]


def registration(registered: Registered) -> Registration:
    floors = registered.floors
    return Registration(
        epoch=registered.epoch,
        floor=floors.get(DEFAULT_KEY),
        floors=floors,
        life=registered.life,
        noted=registered.noted,
    )


def read_registered(body: bytes) -> Registered:
    reply = read(Registration, body)
    return Registered(epoch=reply.epoch, floors=reply.floors, life=reply.life, noted=reply.noted)


def is_keyed(note: Note) -> bool:
    """Whether a note has `times` on the wire, and therefore gets an answer by key."""
    return tuple(note.times) != (DEFAULT_KEY,) or not note.newest.keys() <= {DEFAULT_KEY}


def note_body(note: Note) -> JsonObject:
    """A note of the default key alone has `time`, any other has `times`. Unknown values are left out."""
    body: JsonObject = {"writer": note.writer, "position": dict(note.position)}
    if is_keyed(note):
        body["times"] = dict(note.times)
        if note.newest:
            body["newest"] = dict(note.newest)
    else:
        body["time"] = note.times[DEFAULT_KEY]
        if note.newest:
            body["newest"] = note.newest[DEFAULT_KEY]
    if note.epoch is not None:
        body["epoch"] = note.epoch
    return body


def note_reply(
    answer: NoteResult,
    graph: SegmentGraph,
    held_by: Mapping[str, Holder | None],
    ahead_ms: Mapping[str, int] = NO_TIMES,
    *,
    keyed: bool,
) -> NoteReply | KeyedNoteReply:
    """The answer to a note with `time` or, if `keyed`, with `times`. `held_by` is there only if time is held, and
    `ahead_ms` only if a time is far ahead of the clock."""
    marks = tuple([wire_mark(mark, graph) for mark in answer.marks]) if answer.marks else ()
    if keyed:
        held = {key: holder_reply(each) for key, each in held_by.items() if each is not None}
        return KeyedNoteReply(
            late=answer.late,
            floor=answer.floor,
            marks=marks,
            floors=answer.floors,
            held_by=held or UNSET,
            ahead_ms=ahead_ms or UNSET,
        )
    default = held_by.get(DEFAULT_KEY) if held_by else None
    return NoteReply(
        late=answer.late,
        floor=answer.floor,
        marks=marks,
        held_by=UNSET if default is None else holder_reply(default),
        ahead_ms=ahead_ms[DEFAULT_KEY] if ahead_ms else UNSET,
    )


def note_answer(reply: NoteReply | KeyedNoteReply) -> NoteAnswer:
    match reply:
        case NoteReply(late=late, floor=floor, marks=marks, held_by=held_by, ahead_ms=ahead_ms):
            held = {} if isinstance(held_by, UnsetType) else {DEFAULT_KEY: held_by}
            ahead = {} if isinstance(ahead_ms, UnsetType) else {DEFAULT_KEY: ahead_ms}
            return NoteAnswer(late, {DEFAULT_KEY: floor}, marks, held, ahead)
        case KeyedNoteReply(late=late, floors=floors, marks=marks, held_by=by_key, ahead_ms=ahead_by_key):
            held_by_key = {} if isinstance(by_key, UnsetType) else by_key
            return NoteAnswer(
                late, floors, marks, held_by_key, {} if isinstance(ahead_by_key, UnsetType) else ahead_by_key
            )


def read_note_answer(body: bytes, *, keyed: bool = False) -> NoteAnswer:
    return note_answer(read(KeyedNoteReply, body) if keyed else read(NoteReply, body))


def encoded_result(result: NoteReply | KeyedNoteReply | StrandlineError) -> bytes:
    """An answer or a problem, encoded for the list of results."""
    return _encoder.encode(to_problem(result) if isinstance(result, StrandlineError) else result)


def read_note_results(body: bytes, keyed: Sequence[bool]) -> tuple[NoteAnswer | StrandlineError, ...]:
    """The results of many notes; `keyed` says for each whether it had `times`."""
    results = read(NoteResults, body).results
    if len(results) != len(keyed):
        raise ValueError(f"the answer has {len(results)} results for {len(keyed)} notes")
    return tuple(
        _result(bytes(result), number, each) for number, (result, each) in enumerate(zip(results, keyed, strict=True))
    )


def _result(result: bytes, number: int, keyed: bool) -> NoteAnswer | StrandlineError:
    if b'"code"' in result:
        problem = read(dict, result)
        if "code" in problem:
            return from_problem(problem)
    try:
        return read_note_answer(result, keyed=keyed)
    except ValueError as error:
        raise ValueError(f"results[{number}]: {error}") from None


# -- streams -------------------------------------------------------------------------------------------------


class SegmentReply(msgspec.Struct, frozen=True, kw_only=True):
    """A segment. `low` and `high` bound its keys in a ranged stream; sealed, it has a final offset. `time_at_end` is
    the time that an event appended now gets in the time index: null in a sealed segment, and before the first mark."""

    id: str
    low: float | None
    high: float | None
    predecessors: tuple[str, ...]
    final_offset: int | None
    created_at: Time
    last_noted_at: Time | None
    time_at_end: Time | None


class SegmentsReply(msgspec.Struct, frozen=True):
    """All segments of a stream."""

    segments: tuple[SegmentReply, ...]


class HeadReply(msgspec.Struct, frozen=True):
    """Where the log begins now in each segment."""

    head: Offsets


class StreamNames(msgspec.Struct, frozen=True):
    """Names in order. The next page begins after `next`; null: this is the last page."""

    streams: tuple[str, ...]
    next: str | None


class _NamedStream(msgspec.Struct, frozen=True, kw_only=True):
    stream: str


# The settings are fields of the stream, as in the body that creates it. An older controller may not know them all.
if TYPE_CHECKING:

    class _StreamSettings(_NamedStream, frozen=True, kw_only=True):
        """The fields of StreamConfig, which are read by their names."""

else:
    _hints = get_type_hints(StreamConfig)
    _StreamSettings = msgspec.defstruct(
        "_StreamSettings",
        [(each.name, _hints[each.name], each.default) for each in fields(StreamConfig)],
        bases=(_NamedStream,),
        frozen=True,
        kw_only=True,
    )


class StreamReply(_StreamSettings, frozen=True, kw_only=True):
    """A stream: its settings and segments, its newest mark and the writer that the next one waits for by key, and its
    writers counted by state. `head`: where the log begins now in each segment. A stream that is deleted and created
    again has another `identity`."""

    identity: str
    segments: tuple[SegmentReply, ...]
    open: bool
    sealed: bool
    head: Offsets
    created_at: Time
    latest_marks: Mapping[str, WireMark]
    writers: Mapping[str, int]
    held_by: Mapping[str, HolderReply | None]


@dataclass(frozen=True, slots=True)
class SegmentDescription:
    segment: Segment
    last_noted_at: int | None
    time_at_end: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDescription:
    """The description of a stream. `head` is where its log begins now, `writers` counts them by state, `held_by` has
    the holder of each key. A stream that is deleted and created again has another `identity`."""

    identity: str
    config: StreamConfig
    segments: tuple[SegmentDescription, ...]
    sealed: bool
    head: Mapping[str, int]
    latest_marks: Mapping[str, WireMark]
    writers: Mapping[str, int]
    held_by: Mapping[str, HolderReply | None]


def settings_by_name(config: StreamConfig) -> JsonObject:
    """A stream's settings by name, as JSON has them."""
    return {name: _plain(getattr(config, name)) for name in SETTINGS}


def new_segment_body(new: NewSegment) -> JsonObject:
    body: JsonObject = {"id": new.id}
    if new.low is not None:
        body["low"] = new.low
    if new.high is not None:
        body["high"] = new.high
    if new.predecessors is not None:
        body["predecessors"] = list(new.predecessors)
    return body


def segment_reply(segment: Segment, last_noted_at: int | None, time_at_end: int | None) -> SegmentReply:
    return SegmentReply(
        id=segment.id,
        low=segment.low,
        high=segment.high,
        predecessors=segment.predecessors,
        final_offset=segment.final_offset,
        created_at=segment.created_at,
        last_noted_at=last_noted_at,
        time_at_end=time_at_end,
    )


def segment_description(reply: SegmentReply) -> SegmentDescription:
    segment = Segment(
        id=reply.id,
        low=reply.low,
        high=reply.high,
        predecessors=reply.predecessors,
        final_offset=reply.final_offset,
        created_at=reply.created_at,
    )
    return SegmentDescription(segment, reply.last_noted_at, reply.time_at_end)


def read_stream(body: bytes) -> StreamDescription:
    """Raises InvalidConfig for invalid settings."""
    reply = read(StreamReply, body)
    return StreamDescription(
        identity=reply.identity,
        config=StreamConfig(**{name: getattr(reply, name) for name in SETTINGS}),
        segments=tuple(map(segment_description, reply.segments)),
        sealed=reply.sealed,
        head=reply.head,
        latest_marks=reply.latest_marks,
        writers=reply.writers,
        held_by=reply.held_by,
    )


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value


_encoder = msgspec.json.Encoder()
