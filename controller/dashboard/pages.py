"""What each page shows, from the status that `/v1/status` is made of, the marks and the journals."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

from fastapi import FastAPI

from controller.cluster.records import Kind
from controller.controller import Controller
from controller.dashboard.charts import Chart, Point, curve, lag_chart, sawtooth, time_chart
from controller.dashboard.history import History
from controller.dashboard.journal import TOPICS, incomplete_table, journal_table, journals_table
from controller.dashboard.limits import (
    ATTENTION_STREAMS,
    CHART_GROUPS,
    FLOW_WAIT_S,
    GROUP_JOURNAL_READ,
    INCOMPLETE_SHOWN,
    JOURNAL_READ,
    LAG_LINES,
    NAMED_WRITERS,
    NOTES_SHOWN,
)
from controller.dashboard.ranges import Range
from controller.dashboard.segments import segments_picture
from controller.dashboard.tables import Address, Button, Cell, Column, Table
from controller.dashboard.topology import Flows, lines
from controller.dashboard.visitors import Visitor
from controller.dashboard.words import (
    COLOURS,
    below_marks,
    group_lag,
    group_link,
    group_state,
    hold_story,
    holder_name,
    in_trouble,
    is_held_back,
    key_label,
    lag_of,
    next_step,
    rate,
    silence,
    silent_for,
    spoken,
    state_of,
    still_story,
    stream_link,
    writer_link,
    writer_word,
    writers_word,
)
from controller.format import NOTHING, Times, holding, is_epoch, lag, moment, named, offsets, span, yes
from controller.records.journal import INCOMPLETE, REFUSALS, REGISTRATIONS
from controller.status.group_members import ReaderStatus
from controller.status.journal_reads import JOURNAL_WORDS
from controller.status.overview import GroupsFound
from controller.status.status_view import StatusView, StatusViews
from controller.status.stream_status import StreamDetails, WriterStatus
from controller.status.unread_text import why_unread
from controller.status.writer_status import WriterDetails, WriterKey, WriterNote
from controller.storage.journal import Wanted
from controller.storage.tokens import StoredToken
from strandline.access import EVERYTHING, Role
from strandline.core.order import SegmentRef
from strandline.core.segment import Segment
from strandline.errors import StreamLoading
from strandline.wire.controllers import ControllerReply, ControllerState
from strandline.wire.groups import GroupWindow, KeyWindow, StreamWindow
from strandline.wire.journal import TOPICS as ALL_TOPICS
from strandline.wire.status import GroupStatus, KeyStatus, State, StreamStatus

_BACKLOG: Final = ("backlog", "caught_up")
_CONTROLLER_COLOURS: Final = {
    ControllerState.LIVE: "good",
    ControllerState.DRAINING: "warn",
    ControllerState.NO_LEASE: "bad",
    ControllerState.LOST: "bad",
    ControllerState.ENDED: "soft",
}
_TOKEN_COLOURS: Final = {"valid": "good", "expired": "warn", "revoked": "soft"}


class Tile(NamedTuple):
    """A number or a few words with a name, and small print."""

    name: str
    text: str
    colour: str = ""
    more: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A page as its template shows it. `trouble` is what is wrong with its streams, for the title."""

    template: str
    title: str
    shows: Mapping[str, Any]
    tables: Sequence[Table[Any]] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What pages are made from: a visitor who looks at a controller, and what the address asks for."""

    app: FastAPI
    who: Visitor
    address: Address
    base: str  # the address of the controller as the visitor's browser has it
    history: History
    now: int = field(init=False)
    status: StatusView = field(init=False)

    def __post_init__(self) -> None:
        views: StatusViews = self.app.state.status
        object.__setattr__(self, "status", views.seen_by(self.who.viewer))
        object.__setattr__(self, "now", self.controller.clock.now())

    @property
    def controller(self) -> Controller:
        controller: Controller = self.app.state.controller
        return controller

    def curl(self, method: str, path: str, body: Any) -> str:
        """A call of the API, as a command to copy."""
        token = ' -H "authorization: Bearer $STRANDLINE_TOKEN"' if self.who.name is not None else ""
        return f"curl -X {method} {self.base}{path}{token} -H 'content-type: application/json' -d '{json.dumps(body)}'"


# -- the overview ------------------------------------------------------------------------------------------------------


async def overview(view: View) -> Page:
    found, may_see = await view.status.overview(), view.who.may_see
    streams = [each for each in found.streams if may_see(each.stream)]
    unread = {name: code for name, code in found.unread.items() if may_see(name)}
    groups = found.groups.allowed(may_see)
    loading = sum(code == StreamLoading.code for code in unread.values())
    shown = _streams_table(view, streams, found.served_by), _groups_table(view, groups.groups)
    unknown = _unknown_table(view, unread, groups, found.served_by)
    states = [each.state for each in streams]
    return Page(
        "overview.html",
        "Overview",
        {
            "tiles": _overview_tiles(states, groups, len(unread)),
            "attention": [_attention(each) for each in streams[:ATTENTION_STREAMS] if each.state.stands_still],
            "streams": shown[0],
            "groups": shown[1],
            "unknown": unknown,
            "loading": loading,
            "no_streams": not streams and not unread,
            "no_groups": not groups.groups and not groups.unread,
            "stream_command": view.curl("PUT", "/v1/streams/orders", {"segments": 3}),
            "group_command": view.curl(
                "PUT", "/v1/reader-groups/billing", {"streams": ["orders"], "backlog_threshold_ms": 60_000}
            ),
        },
        (*shown, unknown),
        in_trouble(states, len(unread) - loading),
    )


def _overview_tiles(states: Sequence[State], groups: GroupsFound, unread: int) -> list[Tile]:
    """The numbers of what is known, and how much is not."""
    still, incomplete = sum(each.stands_still for each in states), states.count(State.INCOMPLETE)
    backlog = sum(each.backlog for each in groups.groups)
    more, unread_groups = _not_known(unread), len(groups.unread)
    return [
        Tile("Streams", f"{len(states) + unread:,}", "", more),
        Tile("Standing still", f"{still:,}", _colour(still, "bad", unread), in_trouble(states) or more),
        Tile("Incomplete", f"{incomplete:,}", _colour(incomplete, "warn", unread), more),
        Tile("Groups in backlog", f"{backlog:,}", _colour(backlog, "bad", unread_groups), _not_known(unread_groups)),
    ]


def _colour(count: int, bad: str, unread: int) -> str:
    return bad if count else "" if unread else "good"


def _not_known(count: int) -> str:
    return f"{count:,} not known" if count else ""


def _attention(status: StreamStatus) -> dict[str, Any]:
    """A stream in trouble, large."""
    worst = status.worst
    holder = holder_name(worst)
    waits = ", and waits for" if holder is not None else ""
    return {
        "name": status.stream,
        "link": stream_link(status.stream),
        "key": worst.key,
        "says": "is held back by" if is_held_back(worst) else f"is {status.state.text}{waits}",
        "holder": holder,
        "holder_link": writer_link(status.stream, holder) if holder is not None else "",
        "story": still_story(status),
        "next": next_step(worst),
        "colour": COLOURS[status.state],
    }


def _streams_table(view: View, streams: Sequence[StreamStatus], served_by: Mapping[str, str]) -> Table[StreamStatus]:
    def name(each: StreamStatus) -> Cell:
        server = served_by.get(each.stream)
        return Cell(each.stream, stream_link(each.stream), more="" if server is None else f"served by {server}")

    columns: list[Column[StreamStatus]] = [
        Column("state", "State", _state_cell, sort=lambda each: 1 if each.sealed else -each.state.gravity),
        Column("name", "Stream", name, sort=lambda each: each.stream),
        Column("lag", "Lag", lag_of, sort=lambda each: each.lag_ms, right=True),
        Column("held", "Held by", _held_cell, sort=_silence),
        Column("time", "Time", lambda each: Times().show(each.time), lambda each: each.time, False, False, True),
        Column("rate", "Marks/s", lambda each: rate(_rate(each)), sort=_rate, right=True, essential=False),
        Column("writers", "Writers", _writers_cell, sort=lambda each: -sum(each.writers.values()), essential=False),
    ]
    text = lambda each: f"{each.stream} {state_of(each).text} {holder_name(each.worst) or ''}"  # noqa: E731  # of a row
    return Table(view.address, "streams", columns, streams, id=lambda each: each.stream, text=text)


def _state_cell(status: StreamStatus) -> Cell:
    word = state_of(status)
    return Cell(word.text, colour=f"{word.colour} strong")


def _writers_cell(status: StreamStatus) -> str:
    return writers_word(status).text.partition(";")[0]


def _rate(status: StreamStatus) -> float:
    return sum(key.marks_per_second for key in status.keys.values())


def _silence(status: StreamStatus) -> int | None:
    holder = status.worst.held_by if status.state.stands_still else None
    return None if holder is None else holder.last_heard_ms_ago


def _held_cell(status: StreamStatus) -> Cell:
    """Which writer holds a stream back that stands still, and for how long it has been silent."""
    if not status.state.stands_still:
        return Cell("", plain=NOTHING)
    worst, keyed = status.worst, f" ({key_label(status.worst.key)})" if len(status.keys) > 1 else ""
    if worst.held_by is None or not is_held_back(worst):
        story = (silent_for(worst, status.seen_at) or holding(worst.held_by)) + keyed
    else:
        story = f"{span(worst.held_by.last_heard_ms_ago or 0)} silent{keyed}"
    writer = holder_name(worst)
    if writer is None:
        return Cell("", more=story, plain=story)
    return Cell(writer, writer_link(status.stream, writer), more=story, plain=f"{writer}: {story}")


class _Unknown(NamedTuple):
    """A stream or a reader group without a status."""

    name: str
    link: str
    what: str
    code: str
    controller: str | None


def _unknown_table(
    view: View, unread: Mapping[str, str], groups: GroupsFound, served_by: Mapping[str, str]
) -> Table[_Unknown]:
    """What has no status, streams first. A stream that is only not loaded yet will have one in a moment."""
    items = [
        _Unknown(name, stream_link(name), "stream", code, served_by.get(name))
        for name, code in sorted(unread.items())
        if code != StreamLoading.code
    ]
    items += [
        _Unknown(name, group_link(name), "reader group", each.code, None)
        for name, each in sorted(groups.unread.items())
    ]
    columns: list[Column[_Unknown]] = [
        Column("name", "Name", lambda each: Cell(each.name, each.link), sort=lambda each: each.name),
        Column("what", "What", lambda each: each.what, sort=lambda each: each.what, essential=False),
        Column("why", "Why", lambda each: why_unread(each.code), sort=lambda each: each.code),
        Column("server", "Controller", lambda each: each.controller or NOTHING, essential=False),
    ]
    return Table(
        view.address, "unknown", columns, items, id=lambda each: f"{each.what[:1]}-{each.name}",
        text=lambda each: f"{each.name} {each.what} {each.code} {each.controller or ''}", noun="names",
    )  # fmt: skip


def _groups_table(view: View, groups: Sequence[GroupStatus]) -> Table[GroupStatus]:
    columns: list[Column[GroupStatus]] = [
        Column("backlog", "Backlog", _backlog_cell, sort=lambda each: not each.backlog),
        Column("name", "Reader group", lambda each: Cell(each.group, group_link(each.group)), lambda each: each.group),
        Column("lag", "Lag", group_lag, sort=_group_behind, right=True),
        Column("readers", "Readers", lambda each: each.readers, lambda each: each.readers, right=True, essential=False),
        Column("streams", "Streams", _streams_of, sort=_streams_of, essential=False),
    ]
    text = lambda each: " ".join((each.group, *each.streams))  # noqa: E731  # of a row
    return Table(view.address, "groups", columns, groups, id=lambda each: each.group, text=text)


def _backlog_cell(status: GroupStatus) -> Cell:
    word = group_state(status)
    return Cell(word.text, colour=f"{word.colour} strong")


def _streams_of(status: GroupStatus) -> str:
    return ", ".join(status.streams)


def _group_behind(status: GroupStatus) -> int | None:
    time = status.watermarks.get("")
    return status.seen_at - time if time is not None and is_epoch(time) else None


# -- a stream ----------------------------------------------------------------------------------------------------------


async def stream(view: View, name: str) -> Page:
    view.who.check(name)
    details = await view.controller.status.of_stream(name)
    status = details.stream
    wanted = view.address.get("key")
    key = status.keys.get(wanted) or next(iter(status.keys.values()))
    found = (await view.status.of_groups((name,))).groups
    groups = [each for each in found if view.who.may_see_all(each.streams)]
    over = Range(view.address, status.seen_at)
    history, last = view.history, details.last_entry
    entries = await history.journal(last, name, JOURNAL_READ)
    incomplete = await history.journal(last, name, 2 * INCOMPLETE_SHOWN, topics=(INCOMPLETE,))
    tables: dict[str, Table[Any]] = {
        "keys": _keys_table(view, status),
        "writers": _writers_table(view, details, key),
        "groups": _readers_of(view, name, groups, key),
        "incomplete": incomplete_table(view.address, incomplete, view.now),
        "segments": _segments_table(view, details),
        "journal": journal_table(view.address, "journal", entries, view.now),
    }
    writers = details.writers.get(key.key, ())
    grafana: str | None = view.app.state.grafana_url
    shows = {
        "name": name,
        "status": status,
        "key": key,
        "state": state_of(status),
        "served_by": view.status.served_by(Kind.STREAM, name),
        "grafana": None if grafana is None else grafana.replace("{stream}", name),
        "key_choices": [(each, key_label(each)) for each in status.keys],
        "held": _holder(status, key),
        "tiles": _stream_tiles(status, key),
        "range": over,
        "charts": await _charts(view, status, key, over, _lowers(name, groups, key.key)),
        "flow": await _flow(view, details, key, groups),
        "newest": Times().show(key.time) if groups and key.time is not None else "",
        "picture": _picture(view, details),
        "no_writers": not writers,
        "note_command": view.curl(
            "POST", f"/v1/streams/{name}/notes", {"writer": "w1", "time": 1000, "position": {"0": 10}}
        ),
        **tables,
    }
    trouble = status.state.text if status.state.stands_still else ""
    return Page("stream.html", name, shows, list(tables.values()), trouble)


def _holder(status: StreamStatus, key: KeyStatus) -> dict[str, Any]:
    """Which writer holds time back, since when, and what happens next."""
    now, writer = status.seen_at, None if status.sealed else holder_name(key)
    if status.sealed:
        says = "The stream is sealed: its time is final."
    elif writer is None or key.state is State.STALLED:
        behind = " Furthest behind is" if writer is not None else ""
        says = f"{key.state.text.capitalize()}: {key.reason}.{behind}"
    else:
        says = "Held back by" if key.state.stands_still else "Time goes on with its slowest writer,"
    return {
        "says": says,
        "writer": writer,
        "link": "" if writer is None else writer_link(status.stream, writer),
        "story": "" if writer is None else hold_story(key, now),
        "next": next_step(key),
        "left_out": named(key.excluded, NAMED_WRITERS, key.excluded_writers),
        "lag": _behind(key.lag_ms),
        "time": "" if key.time is None else f"time {Times().show(key.time)}",
        "colour": COLOURS[key.state],
        "excludes": writer is not None and key.state.stands_still,
    }


def _behind(lag_ms: int | None) -> str:
    if lag_ms is None:
        return ""
    return f"{span(lag_ms)} behind" if lag_ms >= 0 else f"{span(-lag_ms)} ahead of the clock"


def _stream_tiles(status: StreamStatus, key: KeyStatus) -> list[Tile]:
    refused = sum(status.refusals.values())
    codes = ", ".join(f"{count} {code}" for code, count in sorted(status.refusals.items()))
    late = key.writers.get("behind", 0)
    below = f"{late:,} {'writer is' if late == 1 else 'writers are'} below the marks" if late else ""
    incomplete = key.incomplete_marks
    return [
        Tile("Marks a second", rate(key.marks_per_second)),
        Tile("Writers", f"{sum(key.writers.values()):,}", "", writers_word(status).text),
        Tile("Notes", f"{status.notes:,}"),
        Tile("Late notes", f"{status.late_notes:,}", "warn" if status.late_notes else "", below),
        Tile("Refused", f"{refused:,}", "warn" if refused else "", codes),
        Tile("Incomplete marks", f"{incomplete:,}", "warn" if incomplete else ""),
    ]


async def _charts(
    view: View, status: StreamStatus, key: KeyStatus, over: Range, read: Sequence[tuple[str, int]]
) -> dict[str, Any]:
    """The lag and the event time. Both end with what the stream is at this moment, and where it was sealed."""
    now, marks, until = status.seen_at, await view.history.marks(status.stream, key.key, over), over.until()
    since = marks.since
    shown = [each for each in marks.moments if since <= each[0] <= until]
    is_live = over.ends_now and not status.sealed and key.time is not None
    end: Point | None = None
    if is_live and key.lag_ms is not None:
        end = now, key.lag_ms
    elif shown and not over.ends_now and (not status.sealed or (key.marked_at or 0) > until):
        end = until, until - shown[-1][1]
    why = "" if shown else _why_empty(key, now)
    if len(shown) < 3 and marks.begin is not None and since + (until - since) * 9 // 10 < marks.begin <= until:
        why = f"The marks begin at {moment(marks.begin, now)}: a shorter range shows more of them."
    moments = [*shown, (now, key.time)] if is_live and key.time is not None else shown
    last = moments[-1][0] if moments and status.sealed else until
    lags: Chart | None = None
    if key.time is None or is_epoch(key.time):
        points = sawtooth(shown, marks.sampled, end)
        lags = lag_chart(f"lag of {status.stream}", [(status.stream, points)], since, until)
    times = time_chart(status.stream, moments, last, read, since, until)
    return {"lag": lags, "time": times, "why": why, "sealed": status.sealed and bool(shown)}


def _why_empty(key: KeyStatus, now: int) -> str:
    """Why the charts of a key show nothing."""
    if key.marked_at is not None:
        ago = span(now - key.marked_at)
        return f"No mark was made in this time: the last one is from {moment(key.marked_at, now)}, {ago} ago."
    if not any(key.writers.values()):
        return "No mark was made yet: no writer has registered or noted its time."
    return f"No mark was made yet: {holding(key.held_by)}."


async def _flow(view: View, details: StreamDetails, key: KeyStatus, groups: Sequence[GroupStatus]) -> dict[str, Any]:
    """From the writers of a stream to its reader groups, and on to what those write."""
    status, flows = details.stream, Flows([details.stream], groups)
    if groups or status.programs:
        asking = asyncio.create_task(view.status.overview(), name="what a stream leads to")
        await asyncio.wait([asking], timeout=FLOW_WAIT_S)  # where there are very many, it may take long
        if asking.done():
            found = asking.result()
            streams = [each for each in found.streams if view.who.may_see(each.stream)]
            flows = Flows(streams, found.groups.allowed(view.who.may_see).groups)
        else:
            asking.cancel()
    return {"into": flows.sources(status, key, details.writers.get(key.key, ())), "box": flows.stream_box(status)}


def _keys_table(view: View, status: StreamStatus) -> Table[KeyStatus]:
    columns: list[Column[KeyStatus]] = [
        Column("name", "Time key", lambda each: key_label(each.key), sort=lambda each: each.key),
        Column("time", "Time", lambda each: Times().show(each.time), sort=lambda each: each.time, moment=True),
        Column("lag", "Lag", lag_of, sort=lambda each: each.lag_ms, right=True),
        Column(
            "rate", "Marks/s", lambda key: rate(key.marks_per_second), lambda key: key.marks_per_second, True, False
        ),
        Column("incomplete", "Incomplete", _incomplete_of, sort=_incomplete_of, right=True, essential=False),
        Column("holder", "Held by", lambda each: holding(each.held_by) if each.state.stands_still else "nobody"),
    ]
    keys = list(status.keys.values())
    return Table(view.address, "keys", columns, keys, id=lambda each: each.key, text=_key_of, rows=10)


def _key_of(key: KeyStatus) -> str:
    return key.key


def _incomplete_of(key: KeyStatus) -> int:
    return key.incomplete_marks


def _writers_table(view: View, details: StreamDetails, key: KeyStatus) -> Table[WriterStatus]:
    """The writers of a key, those in trouble first."""
    now, held, graph, name = details.stream.seen_at, key.state.stands_still, details.graph, details.stream.stream

    def state(each: WriterStatus) -> Cell:
        word = writer_word(each.state, silence(each.heard_at, key, now, holds=each.holds), key)
        holds = ("◔ holds" if held else "◔ slowest") if each.holds else ""
        more = "  ".join(filter(None, (below_marks(each, key.time), holds)))
        return Cell(word.text, colour=f"{word.colour} strong", more=more, more_colour="bad" if held else "soft")

    def ago(each: WriterStatus) -> str:
        return f"{span(max(0, now - each.heard_at))} ago"

    def lag_ms(each: WriterStatus) -> int | None:
        return now - each.time if each.time is not None and is_epoch(each.time) else None

    columns: list[Column[WriterStatus]] = [
        Column("name", "Writer", lambda each: Cell(each.name, writer_link(name, each.name)), lambda each: each.name),
        Column("state", "State", state, sort=lambda each: f"{not each.holds} {each.state}"),
        Column("time", "Time", lambda each: Times().show(each.time), sort=lambda each: each.time, moment=True),
        Column("lag", "Lag", lambda each: lag(each.time, now), sort=lag_ms, right=True),
        Column("heard", "Last heard", ago, sort=lambda each: -each.heard_at, right=True, essential=False),
        Column("late", "Late", lambda each: each.late or NOTHING, lambda each: each.late or None, True, False),
        Column("refused", "Refused", lambda each: each.refused or NOTHING, lambda each: each.refused or None, True,
               False),
        Column("position", "Position", lambda each: offsets(graph.frontier(each.position)), essential=False),
    ]  # fmt: skip
    text = lambda each: f"{each.name} {each.state} {'holds' if each.holds else ''}"  # noqa: E731  # of a row
    writers = details.writers.get(key.key, ())
    return Table(view.address, "writers", columns, writers, id=lambda each: each.name, text=text)


def _bounds(stream: str, key: str, status: GroupStatus) -> tuple[int | None, int | None]:
    bounds = status.bounds[stream].get(key)
    return (None, None) if bounds is None else (bounds.lower, bounds.upper)


def _lowers(stream: str, groups: Sequence[GroupStatus], key: str) -> list[tuple[str, int]]:
    """How far the first few groups have read."""
    found = [(each.group, _bounds(stream, key, each)[0]) for each in groups]
    return [(name, lower) for name, lower in found if lower is not None][:CHART_GROUPS]


def _readers_of(view: View, stream: str, groups: Sequence[GroupStatus], key: KeyStatus) -> Table[GroupStatus]:
    """The reader groups of a stream: their windows against its marks."""
    bounds = partial(_bounds, stream, key.key)

    def lower(each: GroupStatus) -> int | None:
        return bounds(each)[0]

    def upper(each: GroupStatus) -> int | None:
        return bounds(each)[1]

    def behind(each: GroupStatus) -> int | None:
        lower = bounds(each)[0]
        return None if lower is None or key.time is None else max(0, key.time - lower)

    def behind_text(each: GroupStatus) -> str:
        found = behind(each)
        return NOTHING if found is None else span(found) if is_epoch(bounds(each)[0] or 0) else str(found)

    columns: list[Column[GroupStatus]] = [
        Column("name", "Reader group", lambda each: Cell(each.group, group_link(each.group)), lambda each: each.group),
        Column("behind", "Behind the marks", behind_text, sort=behind, right=True),
        Column("lower", "Read up to", lambda each: Times().show(bounds(each)[0]), lower, moment=True),
        Column("upper", "Upper", lambda each: Times().show(bounds(each)[1]), upper, essential=False, moment=True),
        Column("backlog", "Backlog", _backlog_cell, sort=lambda each: not each.backlog, essential=False),
    ]
    return Table(view.address, "groups", columns, groups, id=lambda each: each.group, text=_name_of_group, rows=10)


def _name_of_group(group: GroupStatus) -> str:
    return group.group


def _segments_table(view: View, details: StreamDetails) -> Table[Segment]:
    noted, noted_at, now = details.noted, details.noted_at, details.stream.seen_at

    def ago(each: Segment) -> int | None:
        at = noted_at.get(each.id)
        return None if at is None else max(0, now - at)

    def ago_text(each: Segment) -> str:
        found = ago(each)
        return NOTHING if found is None else f"{span(found)} ago"

    def keys(each: Segment) -> str:
        return NOTHING if each.low is None or each.high is None else f"{each.low:.4g} to {each.high:.4g}"

    def final(each: Segment) -> object:
        return NOTHING if each.final_offset is None else each.final_offset

    columns: list[Column[Segment]] = [
        Column("name", "Segment", lambda each: each.id, sort=lambda each: each.id),
        Column("noted", "Noted up to", lambda each: noted.get(each.id, 0), lambda each: noted.get(each.id, 0), True),
        Column("final", "Final offset", final, sort=lambda each: each.final_offset, right=True),
        Column("keys", "Keys", keys, sort=lambda each: each.low, essential=False),
        Column("after", "After", lambda each: ", ".join(each.predecessors) or NOTHING, essential=False),
        Column("heard", "Last noted", ago_text, sort=ago, right=True),
    ]
    segments = list(details.graph)
    return Table(view.address, "segments", columns, segments, id=lambda each: each.id, text=lambda s: s.id, rows=10)


def _picture(view: View, details: StreamDetails) -> dict[str, Any] | None:
    """The splits and merges of segments, if there were any; a link at each folded box unfolds it."""
    segments, unfolded = list(details.graph), view.address.all("unfold")
    if not any(each.predecessors for each in segments):
        return None
    picture = segments_picture(segments, unfolded)
    places, paths, wide, high = picture.drawn()
    return {
        "places": [(each, view.address.but(unfold=[*unfolded, each.box.name])) for each in places],
        "paths": paths,
        "width": wide,
        "height": high,
        "folded": f"{picture.folded:,} of {len(segments):,} segments are folded: click a box to unfold it.",
        "is_folded": bool(picture.folded),
        "fold": view.address.but(unfold=None) if unfolded else None,
    }


# -- a writer ----------------------------------------------------------------------------------------------------------


async def writer(view: View, stream: str, name: str) -> Page:
    view.who.check(stream)
    details = await view.controller.status.of_writer(stream, name)
    found = await view.status.of_streams((stream,))
    by_key = {key.key: key for status in found.streams for key in status.keys.values()}
    journal = partial(view.history.journal, details.last_entry, stream, JOURNAL_READ, writer=name)
    of_topics = {"refusals": (REFUSALS,), "registrations": (REGISTRATIONS,), "journal": ()}
    tables: dict[str, Table[Any]] = {
        "keys": _writer_keys(view, details, by_key),
        "notes": _notes_table(view, details),
    }
    for each, topics in of_topics.items():
        tables[each] = journal_table(view.address, each, await journal(topics=topics), view.now)
    shows = {
        "stream": stream,
        "stream_link": stream_link(stream),
        "name": name,
        "details": details,
        "served_by": view.status.served_by(Kind.STREAM, stream),
        "tiles": _writer_tiles(details),
        **tables,
    }
    return Page("writer.html", name, shows, list(tables.values()))


def _writer_tiles(details: WriterDetails) -> list[Tile]:
    since, late, refused = "since the stream was made", details.late, details.refused
    return [
        Tile("Last heard", f"{span(max(0, details.seen_at - details.heard_at))} ago"),
        Tile("Times out", _timeout(details)),
        Tile("Epoch", NOTHING if details.epoch is None else str(details.epoch)),
        Tile("Late notes", f"{late:,}", "warn" if late else "", since),
        Tile("Refused", f"{refused:,}", "warn" if refused else "", since),
        Tile("Position", offsets(details.graph.frontier(details.position))),
    ]


def _timeout(details: WriterDetails) -> str:
    """When it times out if nothing more is heard of it."""
    if not details.counts:
        return NOTHING
    if details.times_out_in_ms is None:
        return "never"
    return f"in {span(details.times_out_in_ms)}" if details.times_out_in_ms else "now"


def _writer_keys(view: View, details: WriterDetails, by_key: Mapping[str, KeyStatus]) -> Table[WriterKey]:
    now = details.seen_at

    def state(each: WriterKey) -> Cell:
        key = by_key.get(each.key)
        word = writer_word(each.state, silence(details.heard_at, key, now, holds=each.holds), key)
        return Cell(word.text, colour=f"{word.colour} strong")

    def holds(each: WriterKey) -> str:
        """Whether it holds back a key that some writer does, and since when: marks wait also for one that keeps up."""
        key = by_key.get(each.key)
        if not each.holds or key is None or not key.held_back:
            return "no"
        since = each.held_since
        return "yes" if since is None else f"yes, since {moment(since, now)}, for {span(now - since)}"

    columns: list[Column[WriterKey]] = [
        Column("name", "Time key", lambda each: key_label(each.key), essential=len(details.keys) > 1),
        Column("state", "State", state),
        Column("time", "Time", lambda each: Times().show(each.time), moment=True),
        Column("lag", "Lag", lambda each: lag(each.time, now), right=True),
        Column("holds", "Holds time back", holds),
    ]
    return Table(view.address, "keys", columns, details.keys, id=lambda k: k.key, text=lambda k: k.key, rows=10)


def _notes_table(view: View, details: WriterDetails) -> Table[WriterNote]:
    graph = details.graph
    columns: list[Column[WriterNote]] = [
        Column("time", "Noted time", lambda each: Times().show(each.time), lambda each: each.time, moment=True),
        Column("key", "Key", lambda each: key_label(each.key), sort=lambda each: each.key, essential=False),
        Column("position", "Position", lambda each: offsets(graph.frontier(each.position))),
        Column("newest", "Newest event", lambda n: Times().show(n.newest), lambda n: n.newest, False, False, True),
    ]
    items = details.notes[:NOTES_SHOWN]
    return Table(
        view.address, "notes", columns, items, id=lambda each: f"{each.key}-{each.time}", text=lambda n: n.key, rows=10
    )


# -- a reader group ----------------------------------------------------------------------------------------------------


class _WindowOf(NamedTuple):
    stream: str
    key: str
    bounds: KeyWindow
    whole: StreamWindow
    newest: int | None  # the time of the newest mark
    idle: bool

    @property
    def behind(self) -> int | None:
        lower = self.bounds.lower
        return None if lower is None or self.newest is None else max(0, self.newest - lower)

    @property
    def behind_text(self) -> str:
        if self.behind is None:
            return NOTHING
        return span(self.behind) if is_epoch(self.newest or 0) else str(self.behind)


async def group(view: View, name: str) -> Page:
    # First: what is read of other controllers is read with this visitor's token, and shared with the next visitor.
    view.who.check(*(await view.controller.groups.get(name)).membership.settings.streams)
    details = await view.controller.status.of_group(name)
    found = details.group
    entries = await view.history.journal_of_group(details.last_entry, name, GROUP_JOURNAL_READ)
    changes = [each for each in entries if each.kind in _BACKLOG]
    read = (await view.status.of_streams(found.streams)).streams
    windows = _windows_of(details.window, read)
    members = details.members
    places = sorted(members.offsets.keys() | members.owners.keys())
    tables: dict[str, Table[Any]] = {
        "streams": _windows_table(view, windows),
        "readers": _readers_table(view, name, members.readers),
        "segments": _places_table(view, places, members.offsets, members.owners),
        "backlog": journal_table(view.address, "backlog", changes, view.now),
        "journal": journal_table(view.address, "journal", entries, view.now),
    }
    made = next((each for each in entries if each.kind == "created"), None)
    began = changes[-1] if changes else made if found.backlog else None  # a new group is in backlog
    since = "" if began is None else f"since {moment(began.at, view.now)}{'' if changes else ', when it was made'}"
    command = {"positions": dict[str, Any]()}
    shows = {
        "name": name,
        "served_by": view.status.served_by(Kind.GROUP, name),
        "tiles": _group_tiles(found, since),
        "held": _held_group(found, read, windows),
        "no_readers": not members.readers,
        "no_places": not places,
        "reader_command": view.curl("PUT", f"/v1/reader-groups/{name}/readers/r1", command),
        **tables,
    }
    return Page("group.html", name, shows, list(tables.values()))


def _group_tiles(found: GroupStatus, since: str) -> list[Tile]:
    word = group_state(found)
    if word.text == "behind its threshold":
        since = f"caught up {since or 'before'}, and stays so until it is idle"
    return [
        Tile("Lag", group_lag(found)),
        Tile("Backlog", yes(found.backlog) if word.colour in ("bad", "soft") else word.text, word.colour, since),
        Tile("Threshold", "none" if found.backlog_threshold_ms is None else span(found.backlog_threshold_ms)),
        Tile("Readers", f"{found.readers:,}"),
    ]


def _held_group(
    found: GroupStatus, read: Sequence[StreamStatus], windows: Sequence[_WindowOf]
) -> dict[str, Any] | None:
    """Which stream has the group's watermark, how far the readers are behind its marks, and what it waits for."""
    held_by = found.held_by
    key = "" if held_by.get("") is not None else next((each for each, name in held_by.items() if name), "")
    name = held_by.get(key)
    status = next((each for each in read if each.stream == name), None)
    if name is None or status is None:
        return None
    window = next((each for each in windows if (each.stream, each.key) == (name, key)), None)
    of_key = status.keys.get(key, status.worst)
    behind = "" if window is None or window.behind is None else f"{window.behind_text} behind its marks"
    stands = of_key.state.stands_still
    why = still_story(status) if of_key is status.worst else of_key.reason
    return {
        "stream": name,
        "link": stream_link(name),
        "colour": COLOURS[of_key.state] if stands else "bad" if found.backlog else "good",
        "behind": behind,
        "why": why if stands else "",
        "holder": holder_name(of_key) if stands else None,
        "holder_link": writer_link(name, holder_name(of_key) or "") if stands and holder_name(of_key) else "",
        "state": of_key.state.text,
    }


def _windows_of(found: GroupWindow, read: Sequence[StreamStatus]) -> list[_WindowOf]:
    newest = {(each.stream, key.key): key.mark_time for each in read for key in each.keys.values()}
    windows = []
    for stream, window in found.streams.items():
        for key, bounds in sorted(window.keys.items()):
            if key == "" and len(window.keys) > 1 and bounds.lower is None and bounds.upper is None:
                continue  # nobody uses it
            idle = stream in found.idle
            windows.append(_WindowOf(stream, key, bounds, window, newest.get((stream, key)), idle))
    return windows


def _windows_table(view: View, windows: Sequence[_WindowOf]) -> Table[_WindowOf]:
    def name(each: _WindowOf) -> Cell:
        state = "at its end" if each.whole.end_of_stream else "idle" if each.idle else ""
        return Cell(each.stream, stream_link(each.stream), more=state)

    def time(at: int | None) -> str:
        return Times().show(at)

    columns: list[Column[_WindowOf]] = [
        Column("name", "Stream", name, sort=lambda each: each.stream),
        Column("key", "Key", lambda each: key_label(each.key), sort=lambda each: each.key, essential=False),
        Column(
            "lower", "Read up to", lambda each: time(each.bounds.lower), lambda each: each.bounds.lower, moment=True
        ),
        Column(
            "upper", "Upper", lambda w: time(w.bounds.upper), lambda w: w.bounds.upper, essential=False, moment=True
        ),
        Column("newest", "Newest mark", lambda w: time(w.newest), lambda w: w.newest, essential=False, moment=True),
        Column("behind", "Behind the marks", lambda each: each.behind_text, sort=lambda w: w.behind, right=True),
        Column("complete", "Complete", lambda w: yes(w.bounds.complete), lambda w: w.bounds.complete, essential=False),
    ]
    ids = lambda each: f"{each.stream}-{each.key}"  # noqa: E731  # of a row
    return Table(view.address, "streams", columns, windows, id=ids, text=lambda each: each.stream, rows=10)


def _readers_table(view: View, group: str, readers: Sequence[ReaderStatus]) -> Table[ReaderStatus]:
    def segments(each: ReaderStatus) -> str:
        return named([_place_name(place) for place in each.segments], NAMED_WRITERS) or NOTHING

    columns: list[Column[ReaderStatus]] = [
        Column("name", "Reader", lambda each: each.name, sort=lambda each: each.name),
        Column("heard", "Last heard", lambda each: f"{span(each.silent_ms)} ago", lambda each: each.silent_ms, True),
        Column("segments", "Segments", segments, sort=lambda each: -len(each.segments) or None),
        Column("epoch", "Epoch", lambda each: each.epoch, sort=lambda r: r.epoch, right=True, essential=False),
    ]
    if view.who.may_act:
        columns.append(Column("act", "", partial(_offline_cell, group)))
    return Table(view.address, "readers", columns, readers, id=lambda r: r.name, text=lambda r: r.name, rows=10)


def _offline_cell(group: str, each: ReaderStatus) -> Cell:
    act = f"/acts/take-offline?group={group}&reader={each.name}"
    return Cell("", button=Button("Take offline", act, f"Take {each.name} offline"))


def _places_table(
    view: View, places: Sequence[SegmentRef], offset: Mapping[SegmentRef, int], owner: Mapping[SegmentRef, str]
) -> Table[SegmentRef]:
    columns: list[Column[SegmentRef]] = [
        Column("name", "Segment", _place_name, sort=_place_name),
        Column("offset", "Read up to", lambda each: offset.get(each, 0), lambda each: offset.get(each, 0), True),
        Column("owner", "Owned by", lambda each: owner.get(each, "nobody"), lambda each: owner.get(each, "nobody")),
    ]
    return Table(view.address, "segments", columns, places, id=_place_name, text=_place_name, rows=10)


def _place_name(place: SegmentRef) -> str:
    return "/".join(place)


# -- all streams over time ---------------------------------------------------------------------------------------------


class _Line(NamedTuple):
    """A stream, and its lag at some moments; none where it had no mark, or times that are no dates."""

    status: StreamStatus
    points: Sequence[Point]

    @property
    def peak(self) -> Point | None:
        """When its lag was greatest."""
        return max(self.points, key=lambda point: point[1], default=None)


async def lags(view: View) -> Page:
    found = await view.status.overview()
    streams = [each for each in found.streams if view.who.may_see(each.stream)]
    unread = sum(map(view.who.may_see, found.unread))
    over = Range(view.address, view.now)
    since, points = await view.history.lags(streams, over)
    until = over.until()
    rows = [_Line(each, _to_its_end(each, points.get(each.stream, ()), over)) for each in streams]
    rows.sort(key=lambda each: -1 if each.peak is None else each.peak[1], reverse=True)
    worst = [(each.status.stream, each.points) for each in rows[:LAG_LINES] if each.points]
    table = _lags_table(view, rows, since, until)
    shows = {
        "range": over,
        "chart": lag_chart("lag", worst, since, until) if worst else None,
        "most": LAG_LINES,
        "streams": table,
        "unknown": unread,
    }
    return Page("lag.html", "Lag", shows, [table])


def _to_its_end(status: StreamStatus, points: Sequence[Point], over: Range) -> Sequence[Point]:
    """The lag of a stream up to this moment, or up to where it was sealed."""
    inside = [each for each in points if each[0] <= over.until()]
    if status.sealed:
        end = max((key.marked_at for key in status.keys.values() if key.marked_at is not None), default=0)
        return [each for each in inside if each[0] <= end]
    if over.ends_now and status.lag_ms is not None:
        return [*inside, (status.seen_at, status.lag_ms)]
    return inside


def _lags_table(view: View, rows: Sequence[_Line], since: int, until: int) -> Table[_Line]:
    def state(line: _Line) -> Cell:
        return _state_cell(line.status)

    def over_time(line: _Line) -> Cell:
        if len(line.points) < 2 or line.peak is None:
            return Cell("", plain=" ".join(f"{each / 1000:.1f}" for _, each in line.points))
        least = min(each for _, each in line.points)
        caption = f"lag of {line.status.stream}: {span(least)} to {span(line.peak[1])}"
        values = " ".join(f"{each / 1000:.1f}" for _, each in line.points)
        return Cell(caption, curve=curve(line.points, since, until), plain=values)

    def peak(line: _Line) -> str:
        return NOTHING if line.peak is None else span(line.peak[1])

    def when(line: _Line) -> str:
        return NOTHING if line.peak is None else moment(line.peak[0], view.now)

    columns: list[Column[_Line]] = [
        Column(
            "name",
            "Stream",
            lambda each: Cell(each.status.stream, stream_link(each.status.stream)),
            lambda e: e.status.stream,
        ),
        Column("state", "State", state, sort=lambda each: -each.status.state.gravity, essential=False),
        Column("lag", "Now", lambda each: lag_of(each.status), sort=lambda each: each.status.lag_ms, right=True),
        Column("peak", "Peak", peak, sort=lambda each: each.peak and each.peak[1], right=True),
        Column("when", "Peak at", when, sort=lambda each: each.peak and each.peak[0], essential=False),
        Column("curve", "Over time", over_time),
    ]
    name = lambda each: each.status.stream  # noqa: E731  # of a row
    return Table(view.address, "streams", columns, rows, id=name, text=name)


async def topology(view: View) -> Page:
    found = await view.status.overview()
    streams = [each for each in found.streams if view.who.may_see(each.stream)]
    unread = sum(map(view.who.may_see, found.unread))
    flows = Flows(streams, found.groups.allowed(view.who.may_see).groups)

    def words(each: StreamStatus) -> Cell:
        return Cell("", plain="; ".join(lines(flows.stream_box(each))))

    columns: list[Column[StreamStatus]] = [Column("picture", "Writers, streams, reader groups", words)]
    table = Table(
        view.address, "flows", columns, flows.roots(), id=lambda each: each.stream,
        text=lambda each: " ".join(flows.names(each)), rows=10,
    )  # fmt: skip
    drawn = [(each.stream, flows.counted_sources(each), flows.stream_box(each)) for each in table.items]
    shows = {"flows": table, "drawn": drawn, "unknown": unread, "none": not streams and not unread}
    return Page("topology.html", "Topology", shows, [table])


async def journal(view: View) -> Page:
    """The journals of all streams, with search."""
    address = view.address
    over = Range(address, view.now, first="all")
    topic, search = address.get("topic"), address.get("search")
    words = tuple(each for each in search.split() if each.isprintable())[:JOURNAL_WORDS]
    topics = (topic,) if topic in ALL_TOPICS else ()
    pattern = EVERYTHING if view.who.grant is None else view.who.grant.pattern
    end = None if over.ends_now else over.until()
    wanted = Wanted(patterns=(pattern,), topics=topics, words=words, since=over.since(), until=end)
    found = await view.history.search(wanted, (pattern, topics, words, over.key))
    table = journals_table(address, found, view.now)
    fits = words or topics or not over.is_all
    shows = {
        "range": over,
        "search": search,
        "topic": topic,
        "topics": [(each, TOPICS[each]) for each in ALL_TOPICS],
        "entries": table,
        "empty": "Nothing in the journals fits." if fits else "Nothing has happened yet.",
    }
    return Page("journal.html", "Journal", shows, [table])


# -- controllers and tokens --------------------------------------------------------------------------------------------


async def controllers(view: View) -> Page:
    view.who.check_every_stream()
    found = view.controller.controllers()
    alone = "One controller serves this store, alone."
    several = f"As {found.asked} sees them. Each serves the streams and reader groups of its shards."

    def state(each: ControllerReply) -> Cell:
        return Cell(spoken(each.state), colour=f"{_CONTROLLER_COLOURS[each.state]} strong")

    def beat(each: ControllerReply) -> str:
        return NOTHING if each.beat_age_ms is None else f"{span(each.beat_age_ms)} ago"

    def shards(each: ControllerReply) -> int | None:
        return each.shards

    def drain(each: ControllerReply) -> Cell:
        if each.name is None or each.state is not ControllerState.LIVE:
            return Cell("")
        return Cell("", button=Button("Drain", f"/acts/drain?controller={each.name}", f"Drain {each.name}"))

    columns: list[Column[ControllerReply]] = [
        Column("name", "Name", lambda each: each.name or "this one", sort=lambda each: each.name),
        Column("state", "State", state, sort=lambda each: each.state),
        Column("since", "Since", lambda each: moment(each.since, view.now), lambda each: each.since, essential=False),
        Column("shards", "Shards", lambda each: NOTHING if each.shards is None else each.shards, shards, right=True),
        Column("beat", "Last beat", beat, sort=lambda each: each.beat_age_ms, right=True),
        Column("version", "Version", lambda each: each.version, sort=lambda each: each.version, essential=False),
        Column(
            "address", "Address", lambda each: each.address or NOTHING, lambda e: e.address or None, essential=False
        ),
    ]
    if view.who.may_act:
        columns.append(Column("act", "", drain))
    name = lambda each: each.name or "this"  # noqa: E731  # of a row
    table = Table(view.address, "controllers", columns, found.controllers, id=name, text=name)
    shows = {"seen_by": alone if found.asked is None else several, "controllers": table}
    return Page("controllers.html", "Controllers", shows, [table])


async def tokens(view: View) -> Page:
    view.who.check_tokens("see the tokens")
    now = view.now

    def state(each: StoredToken) -> Cell:
        found = each.state(now)
        return Cell(found, colour=f"{_TOKEN_COLOURS[found]} strong")

    def expires(each: StoredToken) -> str:
        return "never" if each.grant.expires_at is None else Times().show(each.grant.expires_at)

    def writers(each: StoredToken) -> str:
        return each.grant.writers if each.grant.role is Role.WRITER else NOTHING

    def revoke(each: StoredToken) -> Cell:
        if each.state(now) != "valid":
            return Cell("")
        name = each.grant.name
        return Cell("", button=Button("Revoke", f"/acts/revoke-token?name={name}", f"Revoke {name}"))

    columns: list[Column[StoredToken]] = [
        Column("name", "Name", lambda each: each.grant.name, sort=lambda each: each.grant.name),
        Column("state", "State", state, sort=lambda each: each.state(now)),
        Column("role", "Role", lambda each: str(each.grant.role), sort=lambda each: str(each.grant.role)),
        Column("pattern", "Streams", lambda each: each.grant.pattern, sort=lambda each: each.grant.pattern),
        Column("writers", "Writers", writers, essential=False),
        Column("created", "Created", lambda each: Times().show(each.created_at), lambda e: e.created_at, False, False),
        Column("expires", "Expires", expires, sort=lambda each: each.grant.expires_at, essential=False),
        Column("used", "Last used", lambda e: Times().show(e.last_used_at), lambda e: e.last_used_at, essential=False),
        Column("act", "", revoke),
    ]
    items, name = await view.history.tokens(), lambda each: each.grant.name  # of a row
    table = Table(view.address, "tokens", columns, items, id=name, text=name)
    return Page("tokens.html", "Tokens", {"tokens": table}, [table])
