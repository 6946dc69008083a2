"""The pages about all streams: their lag over time, and their journals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from controller.dashboard.charts import Point, curve, lag_chart
from controller.dashboard.journal import TOPICS, journals_table
from controller.dashboard.limits import LAG_LINES
from controller.dashboard.pages.page import Page, View, word_cell
from controller.dashboard.ranges import Range
from controller.dashboard.tables import Cell, Column, Table
from controller.dashboard.words import state_of, stream_link
from controller.operators.journal_reads import JOURNAL_WORDS
from controller.operators.wording import behind, moment, span
from controller.storage.journal import Wanted
from strandline.access import EVERYTHING
from strandline.wire.journal import TOPICS as ALL_TOPICS
from strandline.wire.status import StreamStatus


class _Line(NamedTuple):
    """A stream, and its lag at some moments; none where it had no mark, or times that are no dates."""

    status: StreamStatus
    points: Sequence[Point]

    @property
    def peak(self) -> Point | None:
        """When its lag was greatest."""
        return max(self.points, key=lambda point: point[1], default=None)


async def lag_page(view: View) -> Page:
    found = await view.status.overview()
    streams = [each for each in found.streams if view.who.may_see(each.stream)]
    unread = sum(map(view.who.may_see, found.unread))
    over = Range(view.address, view.now)
    lags = await view.history.lags(found.streams, over)
    since, points = lags or (over.since or 0, {})
    until = over.until
    rows = [_Line(each, _to_its_end(each, points.get(each.stream, ()), over)) for each in streams]
    rows.sort(key=lambda each: -1 if each.peak is None else each.peak[1], reverse=True)
    worst = [(each.status.stream, each.points) for each in rows[:LAG_LINES] if each.points]
    table = _lags_table(view, rows, since, until)
    shows = {
        "range": over,
        "chart": lag_chart("lag", worst, since, until) if worst else None,
        "reads": lags is None,
        "most": LAG_LINES,
        "streams": table,
        "unknown": unread,
    }
    return Page("lag.html", "Lag", shows)


def _to_its_end(status: StreamStatus, points: Sequence[Point], over: Range) -> Sequence[Point]:
    """The lag of a stream up to this moment, or up to where it was sealed."""
    inside = [each for each in points if each[0] <= over.until]
    if status.sealed:
        end = max((key.marked_at for key in status.keys.values() if key.marked_at is not None), default=0)
        return [each for each in inside if each[0] <= end]
    if over.ends_now and status.lag_ms is not None:
        return [*inside, (status.seen_at, status.lag_ms)]
    return inside


def _lags_table(view: View, rows: Sequence[_Line], since: int, until: int) -> Table[_Line]:
    def over_time(line: _Line) -> Cell:
        if len(line.points) < 2 or line.peak is None:
            return Cell("")
        least = min(each for _, each in line.points)
        caption = f"lag of {line.status.stream}: {span(least)} to {span(line.peak[1])}"
        return Cell(caption, curve=curve(line.points, since, until))

    def link(line: _Line) -> str:
        return stream_link(line.status.stream)

    def state(line: _Line) -> Cell:
        return word_cell(state_of(line.status))

    def when(at: int) -> str:
        return moment(at, view.now)

    columns: list[Column[_Line]] = [
        Column("name", "Stream", lambda each: each.status.stream, link=link),
        Column("state", "State", lambda each: -each.status.state.gravity, cell=state, essential=False),
        Column("lag", "Now", lambda each: each.status.lag_ms, behind, right=True),
        Column("peak", "Peak", lambda each: each.peak and each.peak[1], span, right=True),
        Column("when", "Peak at", lambda each: each.peak and each.peak[0], when, right=True, essential=False),
        Column("curve", "Over time", None, cell=over_time),
    ]
    return Table(view.address, "streams", columns, rows, id=lambda each: each.status.stream)


async def journal_page(view: View) -> Page:
    """The journals of all streams, with search."""
    address = view.address
    over = Range(address, view.now, first="all")
    topic, search = address.get("topic"), address.get("search")
    words = tuple(each for each in search.split() if each.isprintable())[:JOURNAL_WORDS]
    topics = (topic,) if topic in ALL_TOPICS else ()
    pattern = EVERYTHING if view.who.grant is None else view.who.grant.pattern
    end = None if over.ends_now else over.until
    wanted = Wanted(patterns=(pattern,), topics=topics, words=words, since=over.since, until=end)
    found = await view.history.search(wanted, (pattern, topics, words, over.key))
    table = journals_table(address, found, view.now)
    fits = words or topics or over.since is not None
    shows = {
        "range": over,
        "search": search,
        "topic": topic,
        "topics": [(each, TOPICS[each]) for each in ALL_TOPICS],
        "entries": table,
        "empty": "Nothing in the journals fits." if fits else "Nothing has happened yet.",
    }
    return Page("journal.html", "Journal", shows)
