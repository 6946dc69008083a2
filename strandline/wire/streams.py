"""Streams, writers, notes, marks and time windows as JSON objects, and back.

For each value `x_to_wire(value)` gives the object, and `x_from_wire(object, where)` the value; where an object is not
what it should be, a ValueError names the field. On the wire a cut is its frontier: encoding one takes the graph of
the stream's segments, and who decodes it keeps the frontier as a plain dict. Fields that are not known are passed
over in answers: a newer controller may say more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias

from strandline.core.aggregate import Holder
from strandline.core.changes import NoteResult, Registered
from strandline.core.config import StreamConfig
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY, Note
from strandline.core.segment import NewSegment, Segment, SegmentGraph
from strandline.core.time_index import IndexEntry
from strandline.core.window import TimeWindow
from strandline.errors import StrandlineError
from strandline.wire.fields import Fields
from strandline.wire.problems import from_problem, to_problem

JsonObject: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class WireMark:
    """A mark as a reader gets it: like `strandline.core.mark.Mark`, but its cut is its frontier, by segment."""

    seq: int
    key: str
    time: int
    upper: int
    cut: Mapping[str, int]
    newest: int | None
    complete: bool
    excluded: tuple[str, ...]
    created_at: int


@dataclass(frozen=True, slots=True)
class NoteAnswer:
    """The answer to a note, as a writer gets it: `strandline.core.changes.Answer` with the marks off the wire, and who
    holds time back, by key. A key in `floors` with a time: what the writer wrote below that is late."""

    late: bool
    floors: Mapping[str, int | None]
    marks: tuple[WireMark, ...]
    held_by: Mapping[str, Holder] = field(default_factory=dict)

    @property
    def floor(self) -> int | None:
        return self.floors.get(DEFAULT_KEY)


@dataclass(frozen=True, slots=True)
class MarksPage:
    """Marks after a seq, oldest first. `resting` is the time that an ingestion stream at rest has reached."""

    marks: tuple[WireMark, ...]
    resting: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MarksAt:
    """The marks around a time, and `start`, where reading from that time begins. Not `exact`: something at or after
    the time may lie below the start."""

    floor: WireMark | None
    ceiling: WireMark | None
    start: Mapping[str, int]
    exact: bool


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an evaluation on demand brought: the mark it made, or who holds time back."""

    mark: WireMark | None
    held_by: Holder | None


@dataclass(frozen=True, slots=True)
class TimeIndexPage:
    """Entries of a segment's time index, rising; the next call goes on with the token."""

    entries: tuple[IndexEntry, ...]
    token: int


@dataclass(frozen=True, slots=True)
class SegmentDescription:
    segment: Segment
    last_noted_at: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDescription:
    """All that the controller tells of a stream. `writers` counts them by state, `held_by` says by key who holds
    time back."""

    config: StreamConfig
    segments: tuple[SegmentDescription, ...]
    sealed: bool
    latest_marks: Mapping[str, WireMark]
    writers: Mapping[str, int]
    held_by: Mapping[str, Holder | None]


# -- marks ---------------------------------------------------------------------------------------------------


def mark_to_wire(mark: Mark, graph: SegmentGraph) -> JsonObject:
    return {
        "seq": mark.seq,
        "key": mark.key,
        "time": mark.time,
        "upper": mark.upper,
        "cut": graph.frontier(mark.cut),
        "newest": mark.newest,
        "complete": mark.complete,
        "excluded": list(mark.excluded),
        "created_at": mark.created_at,
    }


def mark_from_wire(value: object, where: str = "the answer") -> WireMark:
    given = Fields(value, where)
    return WireMark(
        seq=given.number("seq"),
        key=given.text("key"),
        time=given.number("time"),
        upper=given.number("upper"),
        cut=given.numbers("cut"),
        newest=given.number_or_none("newest"),
        complete=given.flag("complete"),
        excluded=given.texts("excluded"),
        created_at=given.number("created_at"),
    )


def marks_page_to_wire(marks: Sequence[Mark], graph: SegmentGraph, resting: int | None = None) -> JsonObject:
    """`{"marks": […]}`, with the time `resting` only where there is one."""
    page: JsonObject = {"marks": [mark_to_wire(mark, graph) for mark in marks]}
    if resting is not None:
        page["resting"] = resting
    return page


def marks_page_from_wire(value: object, where: str = "the answer") -> MarksPage:
    given = Fields(value, where)
    return MarksPage(marks=given.list("marks", mark_from_wire), resting=given.number_or_none("resting"))


def marks_at_from_wire(value: object, where: str = "the answer") -> MarksAt:
    given = Fields(value, where)
    return MarksAt(
        floor=given.read_or_none("floor", mark_from_wire),
        ceiling=given.read_or_none("ceiling", mark_from_wire),
        start=given.numbers("start"),
        exact=given.flag("exact"),
    )


def holder_to_wire(holder: Holder) -> JsonObject:
    return {
        "writer": holder.writer,
        "state": holder.state,
        "time": holder.time,
        "last_heard_ms_ago": holder.last_heard_ms_ago,
        "released_in_ms": holder.released_in_ms,
    }


def holder_from_wire(value: object, where: str = "the answer") -> Holder:
    given = Fields(value, where)
    return Holder(
        writer=given.text_or_none("writer"),
        state=given.text("state"),
        time=given.number_or_none("time"),
        last_heard_ms_ago=given.number_or_none("last_heard_ms_ago"),
        released_in_ms=given.number_or_none("released_in_ms"),
    )


def _holder_or_none(value: object, where: str) -> Holder | None:
    return holder_from_wire(value, where) if value is not None else None


def evaluated_from_wire(value: object, where: str = "the answer") -> Evaluated:
    given = Fields(value, where)
    return Evaluated(
        mark=given.read_or_none("mark", mark_from_wire),
        held_by=given.read_or_none("held_by", holder_from_wire),
    )


def time_window_to_wire(window: TimeWindow) -> JsonObject:
    return {
        "lower": window.lower,
        "upper": window.upper,
        "complete": window.complete,
        "end_of_stream": window.end_of_stream,
        "mark_seq": window.mark_seq,
    }


def time_window_from_wire(value: object, where: str = "the answer") -> TimeWindow:
    given = Fields(value, where)
    return TimeWindow(
        lower=given.number_or_none("lower"),
        upper=given.number_or_none("upper"),
        complete=given.flag("complete"),
        end_of_stream=given.flag("end_of_stream"),
        mark_seq=given.number_or_none("mark_seq"),
    )


def time_index_to_wire(entries: Sequence[IndexEntry], token: int) -> JsonObject:
    return {"entries": [{"offset": each.offset, "time": each.time} for each in entries], "token": token}


def time_index_from_wire(value: object, where: str = "the answer") -> TimeIndexPage:
    def entry(value: object, where: str) -> IndexEntry:
        given = Fields(value, where)
        return IndexEntry(given.number("offset"), given.number("time"))

    given = Fields(value, where)
    return TimeIndexPage(given.list("entries", entry), given.number("token"))


# -- writers and notes ---------------------------------------------------------------------------------------


def registered_to_wire(registered: Registered) -> JsonObject:
    floors = dict(registered.floors)
    return {"epoch": registered.epoch, "floor": floors.get(DEFAULT_KEY), "floors": floors}


def registered_from_wire(value: object, where: str = "the answer") -> Registered:
    given = Fields(value, where)
    return Registered(epoch=given.number("epoch"), floors=given.numbers_or_none("floors"))


def note_to_wire(note: Note) -> JsonObject:
    """A note of the default key alone has `time`, any other `times`; what is not known is left out."""
    body: JsonObject = {"writer": note.writer, "position": dict(note.position)}
    if tuple(note.times) == (DEFAULT_KEY,) and note.newest.keys() <= {DEFAULT_KEY}:
        body["time"] = note.times[DEFAULT_KEY]
        if note.newest:
            body["newest"] = note.newest[DEFAULT_KEY]
    else:
        body["times"] = dict(note.times)
        if note.newest:
            body["newest"] = dict(note.newest)
    if note.epoch is not None:
        body["epoch"] = note.epoch
    return body


def note_answer_to_wire(
    answer: NoteResult, graph: SegmentGraph, held_by: Mapping[str, Holder | None], *, keyed: bool
) -> JsonObject:
    """The answer to a note with `time`, or, `keyed`, to one with `times`: this has `floors`, and `held_by` by key.
    `held_by` is there only where time is held."""
    body: JsonObject = {
        "late": answer.late,
        "floor": answer.floor,
        "marks": [mark_to_wire(mark, graph) for mark in answer.marks],
    }
    held = {key: holder_to_wire(holder) for key, holder in held_by.items() if holder is not None}
    if keyed:
        body["floors"] = dict(answer.floors)
    if held:
        body["held_by"] = held if keyed else held[DEFAULT_KEY]
    return body


def note_answer_from_wire(value: object, where: str = "the answer") -> NoteAnswer:
    given = Fields(value, where)
    keyed = given.has("floors")
    held: dict[str, Holder] = {}
    if given.has("held_by"):
        held = (
            given.by_name("held_by", holder_from_wire)
            if keyed
            else {DEFAULT_KEY: given.read("held_by", holder_from_wire)}
        )
    return NoteAnswer(
        late=given.flag("late"),
        floors=given.numbers_or_none("floors") if keyed else {DEFAULT_KEY: given.number_or_none("floor")},
        marks=given.list("marks", mark_from_wire),
        held_by=held,
    )


def note_results_to_wire(results: Sequence[JsonObject | StrandlineError]) -> JsonObject:
    """The answer to many notes at once: each an answer that is encoded already, or a problem."""
    return {"results": [to_problem(each) if isinstance(each, StrandlineError) else each for each in results]}


def note_results_from_wire(value: object, where: str = "the answer") -> tuple[NoteAnswer | StrandlineError, ...]:
    def result(value: object, where: str) -> NoteAnswer | StrandlineError:
        if isinstance(value, dict) and "code" in value:
            return from_problem(value)
        return note_answer_from_wire(value, where)

    return Fields(value, where).list("results", result)


# -- streams -------------------------------------------------------------------------------------------------


def config_to_wire(config: StreamConfig) -> JsonObject:
    return {each.name: _plain(getattr(config, each.name)) for each in fields(config)}


def config_from_wire(value: object, where: str = "the answer") -> StreamConfig:
    """Settings that are left out have their defaults. Raises InvalidConfig for a value that cannot be."""
    return StreamConfig(**Fields(value, where).only(each.name for each in fields(StreamConfig)))


def new_segment_to_wire(new: NewSegment) -> JsonObject:
    body: JsonObject = {"id": new.id}
    if new.low is not None:
        body["low"] = new.low
    if new.high is not None:
        body["high"] = new.high
    if new.predecessors is not None:
        body["predecessors"] = list(new.predecessors)
    return body


def segment_to_wire(segment: Segment, last_noted_at: int | None) -> JsonObject:
    return {
        "id": segment.id,
        "low": segment.low,
        "high": segment.high,
        "predecessors": list(segment.predecessors),
        "final_offset": segment.final_offset,
        "created_at": segment.created_at,
        "last_noted_at": last_noted_at,
    }


def segment_from_wire(value: object, where: str = "the answer") -> SegmentDescription:
    given = Fields(value, where)
    segment = Segment(
        id=given.text("id"),
        low=given.share_or_none("low"),
        high=given.share_or_none("high"),
        predecessors=given.texts("predecessors"),
        final_offset=given.number_or_none("final_offset"),
        created_at=given.number("created_at"),
    )
    return SegmentDescription(segment=segment, last_noted_at=given.number_or_none("last_noted_at"))


def stream_from_wire(value: object, where: str = "the answer") -> StreamDescription:
    """The settings stand beside `segments`, as in the body that created the stream."""
    given = Fields(value, where)
    return StreamDescription(
        config=config_from_wire(value, where),
        segments=given.list("segments", segment_from_wire),
        sealed=given.flag("sealed"),
        latest_marks=given.by_name("latest_marks", mark_from_wire),
        writers=given.numbers("writers"),
        held_by=given.by_name("held_by", _holder_or_none),
    )


def _plain(value: object) -> object:
    return str(value) if isinstance(value, str) else value
