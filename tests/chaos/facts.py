"""A history in the terms of the checker: notes, registrations, marks, windows, group calls, taken out of the calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any

from tests.chaos.history import (
    Answered,
    Appended,
    Call,
    Delivered,
    Ended,
    Lost,
    NotSent,
    Outage,
    Record,
    Said,
    Several,
    Stream,
    Struck,
    Unknown,
    Watermark,
    Window,
)
from tests.chaos.limits import STALE_S

Json = Mapping[str, Any]
NOT_CHANGED = frozenset({"store_unavailable", "overloaded", "stream_loading"})


class Effect(Enum):
    """Whether a call was carried out."""

    DONE = auto()
    NONE = auto()  # refused, or told that nothing was changed, or never sent
    MAYBE = auto()

    @property
    def possible(self) -> bool:
        return self is not Effect.NONE


def effect_of(call: Call, result: Json | None = None) -> Effect:
    """What became of a call, or of one note of it, whose own result is given."""
    outcome = call.outcome
    if isinstance(outcome, NotSent):
        return Effect.NONE
    if isinstance(outcome, Unknown):
        return Effect.MAYBE
    status = outcome.status
    body = outcome.body
    if status < 300 and result is not None and isinstance(result.get("code"), str):
        status, body = int(result.get("status", 500)), result
    if status < 300:
        return Effect.DONE
    code = body.get("code") if isinstance(body, Mapping) else None
    if status < 500 or (status == 503 and code in NOT_CHANGED):
        return Effect.NONE
    return Effect.MAYBE


@dataclass(frozen=True, slots=True)
class NoteTry:
    """One note, as one request had it. `index` is its place among the notes of that request."""

    call: Call
    stream: str
    writer: str
    times: Mapping[str, int]
    position: Mapping[str, int]
    epoch: int | None
    newest: Mapping[str, int]
    effect: Effect
    result: Json | None  # the answer, or the problem, of an answered note
    index: int = 0

    @property
    def same_note(self) -> tuple[Any, ...]:
        return self.stream, self.writer, tuple(sorted(self.times.items())), tuple(sorted(self.position.items()))

    def floor(self, key: str) -> int | None:
        if self.result is None:
            return None
        floors = self.result.get("floors")
        told = floors.get(key) if isinstance(floors, Mapping) else self.result.get("floor")
        return told if isinstance(told, int) else None


@dataclass(frozen=True, slots=True)
class Registration:
    call: Call
    stream: str
    writer: str
    effect: Effect
    epoch: int | None
    floors: Mapping[str, int | None]
    name: str | None = None  # that a client gave it, so that it can be sent again


@dataclass(frozen=True, slots=True)
class Leaving:
    """A writer that went idle, closed, or was excluded."""

    call: Call
    stream: str
    writer: str
    what: str  # idle, close, exclude
    epoch: int | None
    effect: Effect


@dataclass(frozen=True, slots=True)
class Sight:
    """Somebody saw a mark. `note` is the note whose answer had it."""

    mark: Json
    call: Call
    note: NoteTry | None = None


@dataclass(frozen=True, slots=True)
class GroupCall:
    """A call of a reader of a group. `positions` are those that it named; `owned` what the answer says that it owns."""

    call: Call
    group: str
    reader: str
    what: str  # register, report, acquire, release, offline
    epoch: int | None
    positions: Mapping[tuple[str, str], int]
    effect: Effect
    owned: Mapping[tuple[str, str], int] | None
    told_epoch: int | None
    registration: str | None = None  # its name, by which a repeat is known


@dataclass(frozen=True, slots=True)
class GroupLook:
    """Where a group stood, by (stream, segment), as an answer told it."""

    call: Call
    group: str
    position: Mapping[tuple[str, str], int]


Place = tuple[str, str]  # stream, and a time key or a segment


@dataclass(slots=True)
class Facts:
    """Everything that a history tells, by what it is about."""

    calls: list[Call] = field(default_factory=list)
    streams: dict[str, Stream] = field(default_factory=dict)
    notes: dict[Place, list[NoteTry]] = field(default_factory=lambda: defaultdict(list))  # by stream and writer
    registrations: dict[Place, list[Registration]] = field(default_factory=lambda: defaultdict(list))
    leavings: dict[Place, list[Leaving]] = field(default_factory=lambda: defaultdict(list))
    sights: dict[Place, dict[int, list[Sight]]] = field(default_factory=lambda: defaultdict(dict))  # by key, by seq
    listings: list[tuple[Call, str, list[Json]]] = field(default_factory=list)  # of writers
    events: dict[Place, list[Appended]] = field(default_factory=lambda: defaultdict(list))  # by segment
    windows: list[Window] = field(default_factory=list)
    said: list[Said] = field(default_factory=list)
    delivered: dict[str, list[Delivered | Watermark]] = field(default_factory=lambda: defaultdict(list))
    outages: list[Outage] = field(default_factory=list)
    group_calls: dict[str, list[GroupCall]] = field(default_factory=lambda: defaultdict(list))
    group_statuses: dict[str, list[GroupLook]] = field(default_factory=lambda: defaultdict(list))
    several: bool = False  # whether there are several controllers
    struck: list[Struck] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    ended: Ended | None = None

    def clock(self, call: Call) -> int | None:
        """The clock that an answer shows, if it can be compared with the moments of marks: several controllers show
        clocks that differ a little."""
        return call.outcome.clock if isinstance(call.outcome, Answered) and not self.several else None

    def surely_seen(self, began: float, ended: float) -> float:
        """What was stored before this moment has to be seen by a reader who asked and was answered then. Several
        controllers compare what they have with the store once in a while, and one that cannot shows what it has."""
        if not self.several:
            return began
        blind = any(each.blind and each.began < ended and began - STALE_S < each.ended for each in self.struck)
        return -1.0 if blind else began - STALE_S

    def marks(self, place: Place) -> list[Json]:
        """The marks of a stream and key as they were first seen, by seq; a seq that nobody saw is left out."""
        return [sights[0].mark for _, sights in sorted(self.sights[place].items())]

    def first_seen(self, place: Place, seq: int) -> float:
        """When the first of those who saw a mark had it."""
        return min(sight.call.ended for sight in self.sights[place][seq])

    def writer_names(self, stream: str) -> list[str]:
        places = [*self.notes, *self.registrations]
        return sorted({writer for of, writer in places if of == stream})


def facts_of(history: Iterable[Record]) -> Facts:
    records = list(history)
    facts = Facts(lost=[each for each in records if isinstance(each, Lost)])
    for record in records:
        if any(_is_of_lost(record, each) for each in facts.lost):
            if isinstance(record, Call) and isinstance(record.outcome, Answered):
                record = replace(record, outcome=Unknown("lost"))
            elif isinstance(record, (Window, Delivered, Said)):
                continue
        match record:
            case Call():
                facts.calls.append(record)
            case Stream():
                facts.streams[record.name] = record
            case Appended():
                facts.events[record.stream, record.segment].append(record)
            case Window():
                facts.windows.append(record)
            case Said():
                facts.said.append(record)
            case Delivered() | Watermark():
                facts.delivered[record.reader].append(record)
            case Outage():
                facts.outages.append(record)
            case Several():
                facts.several = True
            case Struck():
                facts.struck.append(record)
            case Ended():
                facts.ended = record
    facts.calls.sort(key=lambda call: call.ended)
    for call in facts.calls:
        _take(facts, call)
    for events in facts.events.values():
        events.sort(key=lambda event: event.offset)
    for items in facts.delivered.values():
        items.sort(key=lambda item: item.number)
    facts.windows.sort(key=lambda window: window.ended)
    for tries in facts.notes.values():
        tries.sort(key=lambda note: note.call.began)
    return facts


def _is_of_lost(record: Record, lost: Lost) -> bool:
    """Whether what a record tells may be gone, or be of what is gone: it was under way then."""
    match record:
        case Call() | Window():
            return record.began < lost.ended and record.ended > lost.began
        case Delivered() | Said():
            return lost.began < record.at < lost.ended
        case _:
            return False


def body_of(call: Call) -> Json | None:
    """The JSON of an answer below 300."""
    outcome = call.outcome
    if isinstance(outcome, Answered) and outcome.status < 300 and isinstance(outcome.body, Mapping):
        return outcome.body
    return None


def problem_of(call: Call) -> Json | None:
    """The problem of an answer that refuses, or cannot."""
    outcome = call.outcome
    if isinstance(outcome, Answered) and outcome.status >= 400 and isinstance(outcome.body, Mapping):
        return outcome.body
    return None


def _take(facts: Facts, call: Call) -> None:
    match call.path.strip("/").split("/"):
        case ["v1", "notes"] | ["v1", "streams", _, "notes"]:
            for note in notes_of(call):
                _add_note(facts, note)
        case ["v1", "streams", stream, "tail"]:
            _add_note(facts, _tail_of(call, stream))
        case ["v1", "streams", stream, "marks"] if call.method == "GET":
            for mark in (body_of(call) or {}).get("marks", []):
                _add_sight(facts, stream, Sight(mark, call))
        case ["v1", "streams", stream] if call.method == "GET":
            for mark in (body_of(call) or {}).get("latest_marks", {}).values():
                _add_sight(facts, stream, Sight(mark, call))
        case ["v1", "streams", stream, "time-window"]:
            _add_window(facts, call, stream)
        case ["v1", "streams", stream, "writers"]:
            found = body_of(call)
            if found is not None:
                facts.listings.append((call, stream, found["writers"]))
        case ["v1", "streams", stream, "writers", writer, *rest]:
            _add_writer_call(facts, call, stream, writer, rest)
        case ["v1", "reader-groups", group, "readers", reader, *rest]:
            _add_group_call(facts, call, group, reader, rest[0] if rest else "")
        case ["v1", "reader-groups", group, "time-window"]:
            _add_look(facts, call, group, body_of(call))
        case _:
            pass


def notes_of(call: Call) -> Iterator[NoteTry]:
    """The notes that a call sent."""
    parts = call.path.strip("/").split("/")
    stream = parts[2] if parts[1] == "streams" else None
    body = call.body or {}
    answered = body_of(call)
    many = body.get("notes")
    given = [body] if many is None else many
    results: list[Json | None] = [None] * len(given)
    if answered is not None:
        results = [answered] if many is None else answered["results"]
    elif (problem := problem_of(call)) is not None:
        results = [problem] * len(given)
    for index, (each, result) in enumerate(zip(given, results, strict=True)):
        keyed = "times" in each
        newest = each.get("newest")
        yield NoteTry(
            call=call,
            stream=stream if stream is not None else each["stream"],
            writer=each["writer"],
            times=each["times"] if keyed else {"": each["time"]},
            position=each["position"],
            epoch=each.get("epoch"),
            newest={} if newest is None else newest if keyed else {"": newest},
            effect=effect_of(call, result),
            result=result,
            index=index,
        )


def _tail_of(call: Call, stream: str) -> NoteTry:
    body = call.body
    result = body_of(call) or problem_of(call)
    times, effect = {"": body["time"]}, effect_of(call, result)
    return NoteTry(call, stream, body["reporter"], times, body["position"], None, {}, effect, result)


def _add_note(facts: Facts, note: NoteTry) -> None:
    facts.notes[note.stream, note.writer].append(note)
    if note.effect is Effect.DONE and note.result is not None:
        for mark in note.result.get("marks", []):
            _add_sight(facts, note.stream, Sight(mark, note.call, note))


def _add_sight(facts: Facts, stream: str, sight: Sight) -> None:
    facts.sights[stream, sight.mark["key"]].setdefault(sight.mark["seq"], []).append(sight)


def _add_window(facts: Facts, call: Call, stream: str) -> None:
    told = body_of(call)
    if told is None:
        return
    position, key = call.body["position"], call.body.get("key", "")
    bounds = told["lower"], told["upper"], told["complete"], told["mark_seq"]
    facts.windows.append(Window(call.client, call.began, call.ended, stream, key, position, *bounds, cached=False))


def _add_writer_call(facts: Facts, call: Call, stream: str, writer: str, rest: list[str]) -> None:
    place, effect = (stream, writer), effect_of(call)
    if call.method == "PUT" and not rest:
        told = body_of(call) or {}
        name = (call.body or {}).get("registration")
        found = Registration(call, stream, writer, effect, told.get("epoch"), told.get("floors", {}), name)
        facts.registrations[place].append(found)
        return
    what = "close" if call.method == "DELETE" and not rest else rest[0] if rest else ""
    if call.method == "GET" or what not in ("close", "idle", "exclude"):
        return
    epoch = call.query.get("epoch")
    leaving = Leaving(call, stream, writer, what, int(epoch) if epoch else None, effect)
    facts.leavings[place].append(leaving)
    for mark in (body_of(call) or {}).get("marks", []):
        _add_sight(facts, stream, Sight(mark, call))


def _add_group_call(facts: Facts, call: Call, group: str, reader: str, what: str) -> None:
    body = call.body or {}
    epoch = body.get("epoch")
    if not what:
        what = "register" if epoch is None else "report"
    told = body_of(call)
    owned = told.get("owned") if told is not None else None
    facts.group_calls[group].append(
        GroupCall(
            call=call,
            group=group,
            reader=reader,
            what=what,
            epoch=epoch,
            positions=_by_place(body.get("positions", {})),
            effect=effect_of(call),
            owned=None if owned is None else _by_place(owned),
            told_epoch=told.get("epoch") if told is not None else None,
            registration=body.get("registration"),
        )
    )
    if told is not None:
        _add_look(facts, call, group, told.get("window"))


def _add_look(facts: Facts, call: Call, group: str, window: Json | None) -> None:
    if window is not None:
        positions = {stream: each["position"] for stream, each in window["streams"].items()}
        facts.group_statuses[group].append(GroupLook(call, group, _by_place(positions)))


def _by_place(positions: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, str], int]:
    return {(stream, segment): offset for stream, each in positions.items() for segment, offset in each.items()}
