"""The page of a stream: who holds time back, its writers, reader groups, segments and journal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from controller.commit.journal import Topic
from controller.dashboard.charts import RANGE, RANGES, Chart, Point, lag_chart, sawtooth, time_chart
from controller.dashboard.journal import incomplete_table, journal_table
from controller.dashboard.limits import INCOMPLETE_SHOWN, JOURNAL_READ, NAMED_WRITERS
from controller.dashboard.pages.page import Page, Tile, View, backlog_cell, unknown_table, word_cell
from controller.dashboard.tables import Cell, Column, Table
from controller.dashboard.words import (
    COLOURS,
    ago,
    below_marks,
    far_ahead,
    first_ahead,
    group_link,
    hold_story,
    holder_name,
    key_label,
    next_step,
    rate,
    silence,
    state_of,
    writer_link,
    writer_word,
    writers_word,
)
from controller.operators.condition_text import ahead_text
from controller.operators.stream_status import StreamDetails, WriterStatus
from controller.operators.wording import NOTHING, Times, behind, holding, moment, offsets, span
from controller.storage.journal import JOURNAL_OF_STREAM
from strandline.core.rest import CALLING
from strandline.core.segment import Segment
from strandline.core.time_units import is_epoch
from strandline.core.writer import WriterState
from strandline.wire.status import GroupStatus, KeyStatus, State, StreamStatus


async def stream_page(view: View, name: str) -> Page:
    view.who.check(name)
    details = await view.controller.status.of_stream(name)
    status = details.stream
    wanted = view.address.get("key")
    key = status.keys.get(wanted) or next(iter(status.keys.values()))
    found = (await view.status.of_groups((name,))).allowed(view.who.may_see)
    groups = found.groups
    word = view.address.get("range")
    word = word if word in RANGES else RANGE
    journal, last = partial(view.history.journal, JOURNAL_OF_STREAM, name), details.last_entry
    entries = await journal(JOURNAL_READ, last)
    incomplete = await journal(2 * INCOMPLETE_SHOWN, last, topics=(Topic.INCOMPLETE,))
    writers = details.writers.get(key.key, ())
    grafana: str | None = view.app.state.grafana_url
    shows = {
        "name": name,
        "status": status,
        "key": key,
        "state": state_of(status),
        "grafana": None if grafana is None else grafana.replace("{stream}", name),
        "key_choices": [(each, key_label(each)) for each in status.keys],
        "held": _holder(status, key, {each.name: each.state for each in writers}),
        "tiles": _stream_tiles(status, key),
        "range": word,
        "ranges": [(each, text) for each, (text, _) in RANGES.items()],
        "range_keeps": view.address.others("range"),
        "key_keeps": view.address.others("key"),
        "charts": await _charts(view, status, key, RANGES[word][1]),
        "newest": Times().show(key.time) if groups and key.time is not None else "",
        "no_writers": not writers,
        "note_command": view.curl(
            "POST", f"/v1/streams/{name}/notes", {"writer": "w1", "time": 1000, "position": {"0": 10}}
        ),
        "keys": _keys_table(view, status),
        "writers": _writers_table(view, details, key),
        "groups": _readers_of(view, name, groups, key),
        "unknown": unknown_table(view, {}, found),
        "incomplete": incomplete_table(view.address, incomplete, view.now),
        "segments": _segments_table(view, details),
        "segment_commands": "\n".join(
            f"strandline {call} --controller {view.base}"
            for call in (
                f"scale {name} --seal SEGMENT=OFFSET --create NEW=LOW:HIGH,NEW=LOW:HIGH",
                f"truncate {name} --head SEGMENT=OFFSET,…",
                f"api DELETE streams/{name}/segments/SEGMENT",
            )
        ),
        "journal": journal_table(view.address, "journal", entries, view.now),
    }
    trouble = status.state.text if status.state.is_urgent else ""
    return Page("stream.html", name, shows, trouble)


def _holder(status: StreamStatus, key: KeyStatus, writers: Mapping[str, WriterState]) -> dict[str, Any]:
    """Which writer holds time back, since when, and what happens next; and whom the newest mark leaves out."""
    left_out = key.excluded[:NAMED_WRITERS]
    now, writer = status.seen_at, None if status.sealed else holder_name(key)
    free = [each.writer for each in key.ahead if not each.refused]
    if key.state is State.AHEAD:
        writer = first_ahead(key)
    is_late = writer is not None and key.held_by is not None and key.held_by.state == WriterState.BEHIND
    if status.sealed:
        says = "The stream is sealed: its time is final."
    elif key.state is State.INCOMPLETE and writer is None:
        says = "Incomplete: no writer counts."
    elif key.state is State.AHEAD:
        says = f"Ahead: {key.reason}." + (" Furthest is" if writer is not None else "")
    elif writer is None or key.state is State.STALLED:
        behind = " Furthest behind is" if writer is not None else ""
        says = f"{key.state.text.capitalize()}: {key.reason}.{behind}"
    else:
        says = "Held back by" if key.state.stands_still else "Time goes on with its slowest writer,"
        if is_late and not key.state.stands_still:
            says = "Time waits for a writer that is below the marks,"
    is_waited_for = writer is not None and key.state is not State.AHEAD
    story = "; ".join(filter(None, (hold_story(key, now), ahead_text(key)))) if is_waited_for else ""
    return {
        "says": says,
        "writer": writer,
        "link": "" if writer is None else writer_link(status.stream, writer),
        "story": story,
        "next": next_step(key),
        "left_out": [(each, writer_link(status.stream, each), writers.get(each) in CALLING) for each in left_out],
        "more_left_out": key.excluded_writers - len(left_out),
        "excluded": [each for each in left_out if writers.get(each) is WriterState.EXCLUDED],
        "lag": _behind(key.lag_ms),
        "time": "" if key.time is None else f"time {Times().show(key.time)}",
        "colour": COLOURS[key.state],
        "excludes": writer is not None and key.state.is_urgent and (not free or writer in free),
    }


def _behind(lag_ms: int | None) -> str:
    if lag_ms is None:
        return ""
    return f"{span(lag_ms)} behind" if lag_ms >= 0 else f"{span(-lag_ms)} ahead of the clock"


def _stream_tiles(status: StreamStatus, key: KeyStatus) -> list[Tile]:
    refused = sum(status.refusals.values())
    codes = ", ".join(f"{count} {code}" for code, count in sorted(status.refusals.items()))
    if status.refused_at is not None:
        codes += f"; the last one {span(max(0, status.seen_at - status.refused_at))} ago"
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


async def _charts(view: View, status: StreamStatus, key: KeyStatus, size_ms: int) -> dict[str, Any]:
    """The lag and the event time. Both end with what the stream is at this moment, and where it was sealed."""
    now, marks = status.seen_at, await view.history.marks(status.stream, key.key, size_ms)
    since, shown = marks.since, marks.moments
    is_live = not status.sealed and key.time is not None
    end: Point | None = (now, key.lag_ms) if is_live and key.lag_ms is not None else None
    moments = [*shown, (now, key.time)] if is_live and key.time is not None else shown
    last = moments[-1][0] if moments and status.sealed else now
    lags: Chart | None = None
    if key.time is None or is_epoch(key.time):
        lags = lag_chart(status.stream, sawtooth(shown, marks.sampled, end), since, now)
    times = time_chart(status.stream, moments, last, since, now)
    why = "" if shown else _why_empty(key, now)
    return {"lag": lags, "time": times, "why": why, "sealed": status.sealed and bool(shown)}


def _why_empty(key: KeyStatus, now: int) -> str:
    """Why the charts of a key show nothing."""
    if key.marked_at is not None:
        ago = span(now - key.marked_at)
        return f"No mark was made in this time: the last one is from {moment(key.marked_at, now)}, {ago} ago."
    if not any(key.writers.values()):
        return "No mark was made yet: no writer has registered or noted its time."
    return f"No mark was made yet: {holding(key.held_by)}."


def _keys_table(view: View, status: StreamStatus) -> Table[KeyStatus]:
    columns: list[Column[KeyStatus]] = [
        Column("name", "Time key", lambda each: each.key, key_label),
        Column("time", "Time", lambda each: each.time, Times().show, moment=True),
        Column("lag", "Lag", lambda each: each.lag_ms, behind, right=True),
        Column("rate", "Marks/s", lambda each: each.marks_per_second, rate, right=True, essential=False),
        Column("incomplete", "Incomplete", lambda each: each.incomplete_marks, right=True, essential=False),
        Column("holder", "Held by", None, cell=_held_by),
    ]
    keys = list(status.keys.values())
    return Table(view.address, "keys", columns, keys, id=lambda each: each.key, rows=10)


def _held_by(key: KeyStatus) -> str:
    return holding(key.held_by) if key.state.stands_still else "nobody"


def _writers_table(view: View, details: StreamDetails, key: KeyStatus) -> Table[WriterStatus]:
    """The writers of a key, those in trouble first."""
    now, held, graph, name = details.stream.seen_at, key.state.stands_still, details.graph, details.stream.stream

    def state(each: WriterStatus) -> Cell:
        word = writer_word(each.state, silence(each.heard_at, key, now, holds=each.holds), key)
        holds = ("◔ holds" if held else "◔ slowest") if each.holds else ""
        ahead = far_ahead(key, each.name)
        more = "  ".join(filter(None, (below_marks(each, key.time), ahead, holds)))
        return word_cell(word, more, "bad" if held or ahead else "soft")

    def lag_ms(each: WriterStatus) -> int | None:
        return now - each.time if each.time is not None and is_epoch(each.time) else None

    columns: list[Column[WriterStatus]] = [
        Column("name", "Writer", lambda each: each.name, link=lambda each: writer_link(name, each.name)),
        Column("state", "State", lambda each: f"{not each.holds} {each.state}", cell=state),
        Column("time", "Time", lambda each: each.time, Times().show, moment=True),
        Column("lag", "Lag", lag_ms, behind, right=True),
        Column("heard", "Last heard", lambda each: max(0, now - each.heard_at), ago, right=True, essential=False),
        Column("position", "Position", None, cell=lambda each: offsets(graph.frontier(each.position)), essential=False),
    ]
    text = lambda each: f"{each.name} {each.state} {'holds' if each.holds else ''}"  # noqa: E731  # of a row
    writers = details.writers.get(key.key, ())
    return Table(view.address, "writers", columns, writers, id=lambda each: each.name, text=text)


def _bounds(stream: str, key: str, status: GroupStatus) -> tuple[int | None, int | None]:
    bounds = status.bounds[stream].get(key)
    return (None, None) if bounds is None else (bounds.lower, bounds.upper)


def _readers_of(view: View, stream: str, groups: Sequence[GroupStatus], key: KeyStatus) -> Table[GroupStatus]:
    """The reader groups of a stream: their windows against its marks."""
    bounds = partial(_bounds, stream, key.key)

    def behind_ms(each: GroupStatus) -> int | None:
        lower = bounds(each)[0]
        return None if lower is None or key.time is None else max(0, key.time - lower)

    columns: list[Column[GroupStatus]] = [
        Column("name", "Reader group", lambda each: each.group, link=lambda each: group_link(each.group)),
        Column("behind", "Behind the marks", behind_ms, span if is_epoch(key.time or 0) else str, right=True),
        Column("lower", "Read up to", lambda each: bounds(each)[0], Times().show, moment=True),
        Column("upper", "Upper", lambda each: bounds(each)[1], Times().show, essential=False, moment=True),
        Column("backlog", "Backlog", lambda each: not each.backlog, cell=backlog_cell, essential=False),
    ]
    return Table(view.address, "groups", columns, groups, id=lambda each: each.group, rows=10)


def _segments_table(view: View, details: StreamDetails) -> Table[Segment]:
    noted, noted_at, now = details.noted, details.noted_at, details.stream.seen_at

    def silent(each: Segment) -> int | None:
        at = noted_at.get(each.id)
        return None if at is None else max(0, now - at)

    def keys(each: Segment) -> str:
        return NOTHING if each.low is None or each.high is None else f"{each.low:.4g} to {each.high:.4g}"

    columns: list[Column[Segment]] = [
        Column("name", "Segment", lambda each: each.id),
        Column("noted", "Noted up to", lambda each: noted.get(each.id, 0), right=True),
        Column("final", "Final offset", lambda each: each.final_offset, right=True),
        Column("keys", "Keys", lambda each: each.low, cell=keys, essential=False),
        Column("after", "After", None, cell=lambda each: ", ".join(each.predecessors) or NOTHING, essential=False),
        Column("heard", "Last noted", silent, ago, right=True),
    ]
    segments = list(details.graph)
    return Table(view.address, "segments", columns, segments, id=lambda each: each.id, rows=10)
