"""The cards of a stream's page. Each card draws itself once, and then shows what changed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from nicegui import events, ui

from controller.controller import Controller
from controller.dashboard.charts import Moment, lag_options, time_options, zoomable
from controller.dashboard.labels import (
    COLOURS,
    EDGES,
    below_marks,
    group_link,
    hold_story,
    lag_of,
    rate,
    writer_link,
    writer_state,
)
from controller.dashboard.limits import (
    CHART_GROUPS,
    CHART_IDLE_MS,
    CHART_LEAST_MS,
    CHART_POINTS,
    CHART_REFRESH_MS,
    FLOW_WAIT_S,
    NAMED_WRITERS,
    SEGMENT_BOXES,
)
from controller.dashboard.ranges import RangePicker
from controller.dashboard.segments_picture import SegmentsPicture, segments_picture
from controller.dashboard.tables import LINKED, Column, PagedTable, key_label
from controller.dashboard.topology import Flows, picture
from controller.dashboard.visitors import Visitor
from controller.dashboard.widgets import card, curl, empty_state
from controller.format import NOTHING, Times, holding, is_epoch, lag, moment, named, offsets, span
from controller.status.condition import State
from controller.status.condition_text import reason_of
from controller.status.overview import Overview
from controller.status.status_view import StatusView
from controller.status.stream_status import GroupStatus, KeyStatus, StreamDetails, StreamStatus, WriterStatus
from strandline.core.segment import Segment, SegmentGraph

_STATE: Final = """<span :class="props.row.state_class" style="font-weight: 600">{{ props.row.state }}</span>
<span v-if="props.row.below" class="sl-bad" style="margin-left: 8px">{{ props.row.below }}</span>
<span v-if="props.row.holds" :class="props.row.holds_class" style="margin-left: 8px; white-space: nowrap">
<q-icon name="hourglass_top" size="16px"></q-icon> {{ props.row.holds }}</span>"""


class HolderCard:
    """Which writer holds time back, since when, and when it times out."""

    def __init__(self, stream: str, who: Visitor, exclude: Callable[[str], Awaitable[None]]) -> None:
        self._stream = stream
        self._may_act = who.may_act
        self._writer: str | None = None
        self._do_exclude = exclude
        with ui.row().classes("sl-card items-center").style("gap: 8px 20px") as self._card:
            with ui.column().style("gap: 2px; flex: 1; min-width: 240px"):
                with ui.row().classes("items-baseline").style("gap: 2px 8px"):
                    self._before = ui.label().style("min-width: 0; overflow-wrap: anywhere")
                    self._name = ui.link("", "/").classes("sl-link").style("font-size: 18px; overflow-wrap: anywhere")
                self._story = ui.label().classes("sl-soft")
                self._left_out = ui.label().classes("sl-warn")
            with ui.column().classes("sl-lag"):
                self._lag = ui.label().classes("sl-number")
                self._time = ui.label().classes("sl-soft")
            if who.may_act:
                self._exclude = ui.button("Exclude it", icon="block", on_click=self._ask).props(
                    "outline no-caps color=negative"
                )
                self._exclude.set_visibility(False)

    def show(self, look: StreamStatus, key: KeyStatus) -> None:
        holder = key.holder if not look.sealed else None
        writer = self._writer = holder.writer if holder is not None else None
        self._card.classes(remove=" ".join(EDGES.values()), add=EDGES[COLOURS[key.state]])
        if look.sealed:
            self._before.set_text("The stream is sealed: its time is final.")
        elif writer is None or key.state is State.STALLED:
            behind = " Furthest behind is" if writer is not None else ""
            self._before.set_text(f"{key.state.text.capitalize()}: {reason_of(key, look.seen_at)}.{behind}")
        else:
            held = key.state.stands_still
            self._before.set_text("Held back by" if held else "Time goes on with its slowest writer,")
        self._name.set_text(writer or "")
        self._name.props["href"] = writer_link(self._stream, writer) if writer else "/"
        self._name.set_visibility(writer is not None)
        self._story.set_text(hold_story(key, look.seen_at) if writer is not None else "")
        self._story.set_visibility(writer is not None)
        self._left_out.set_text(f"Marks are incomplete: they leave out {named(key.excluded, NAMED_WRITERS)}")
        self._left_out.set_visibility(bool(key.excluded))
        self._lag.set_text(f"{lag_of(key)} behind" if key.lag_ms is not None else "")
        self._time.set_text("" if key.time is None else f"time {Times().show(key.time)}")
        if self._may_act:
            self._exclude.set_visibility(writer is not None and key.state.stands_still)

    async def _ask(self) -> None:
        if self._writer is not None:
            await self._do_exclude(self._writer)


class FlowCard:
    """From the writers of a stream to its reader groups, and on to what those write, as a picture."""

    def __init__(self, status: StatusView, who: Visitor) -> None:
        self._status = status
        self._who = who
        self._asking: asyncio.Task[Overview] | None = None
        self._look: Overview | None = None
        self._flows = Flows((), ())
        with card("From writers to readers"):
            self._picture = ui.html(sanitize=False).classes("full-width")  # of names that are escaped

    async def show(self, details: StreamDetails, key: KeyStatus, groups: Sequence[GroupStatus]) -> None:
        if groups or details.stream.programs:
            await self._look_around()
        stream = details.stream
        sources = self._flows.sources(stream, details.writers.get(key.key, ()), key.writers)
        self._picture.set_content(picture(sources, self._flows.stream_box(stream)))

    async def _look_around(self) -> None:
        """Asks for all streams and groups, which may take long where there are very many."""
        if self._asking is None:
            self._asking = asyncio.create_task(self._status.overview(), name="what a stream leads to")
        await asyncio.wait([self._asking], timeout=FLOW_WAIT_S)
        if not self._asking.done():
            return
        done, self._asking = self._asking, None
        look = done.result()
        if look is not self._look:
            self._look = look
            streams = [each for each in look.streams if self._who.may_see(each.name)]
            self._flows = Flows(streams, look.groups.allowed(self._who.may_see).groups)


class Charts:
    """Lag and event time over a range of time, drawn again only when there are new marks."""

    def __init__(self, controller: Controller, stream: str) -> None:
        self._controller = controller
        self._stream = stream
        self._moments: list[Moment] = []
        self._read: tuple[Any, ...] = ()  # what the moments are of
        self._since = 0
        self._sampled = False
        self._drawn_at = 0
        self._drawn: tuple[Any, ...] = ()
        self._range = RangePicker("1h", self._turn, controller.clock.now)
        with ui.element("div").classes("sl-two"):
            with card("Lag") as self._lag_card:
                self._why_no_lag = ui.label().classes("sl-soft")
                self._lag_chart = _chart(lag_options([], 0), self._range)
            with card("Event time"):
                self._why_no_time = ui.label().classes("sl-soft")
                self._time_chart = _chart(time_options([], 0), self._range)

    async def show(self, key: KeyStatus, read: Sequence[tuple[str, int]], now: int) -> None:
        """`read`: how far groups have read, by name."""
        drawn = (key.key, self._range.chosen, key.marked_at, tuple(read))
        same_chart = drawn[:2] == self._drawn[:2]
        if same_chart and now - self._drawn_at < (CHART_REFRESH_MS if drawn != self._drawn else CHART_IDLE_MS):
            return
        self._drawn, self._drawn_at = drawn, now
        await self._look(key, now)
        self._lag_card.set_visibility(key.time is None or is_epoch(key.time))
        since, until = self._since, self._range.until(now)
        shown = [each for each in self._moments if since <= each[0] <= until]
        why = why_empty(key, now) if not shown else ""
        for label in (self._why_no_lag, self._why_no_time):
            label.set_text(why)
            label.set_visibility(bool(why))
        for chart, options in (
            (self._lag_chart, lag_options(shown, until, since=since, until=until, sampled=self._sampled)),
            (self._time_chart, time_options(shown, until, read, since=since, until=until)),
        ):
            chart.props["options"] = options

    async def _look(self, key: KeyStatus, now: int) -> None:
        """All marks of the range, if they are few; else which time the stream had at moments that stay the same, so
        that the past looks the same whenever somebody looks."""
        reading, asked, since = self._controller.reading, [(self._stream, key.key)], self._range.since(now)
        if since is None:
            oldest = await reading.oldest_mark(asked)
            self._since = now - CHART_LEAST_MS if oldest is None else min(oldest, now - CHART_LEAST_MS)
        else:
            self._since = since
        at = self._range.moments(self._since, now, CHART_POINTS)
        if self._sampled and self._read == (*self._drawn[:2], at[-1]):
            return
        marks = await reading.timeline(self._stream, key.key, self._since, CHART_POINTS)
        self._sampled, self._read = marks is None, (*self._drawn[:2], at[-1])
        if marks is None:
            (times,) = await reading.times_at(asked, at)
            marks = [(moment, time) for moment, time in zip(at, times, strict=True) if time is not None]
        self._moments = marks

    async def _turn(self) -> None:
        self._drawn = ()  # the page draws it anew in a moment


def _chart(options: dict[str, Any], range: RangePicker) -> ui.echart:
    return zoomable(ui.echart(options).style("height: 220px"), range.zoom)


def why_empty(key: KeyStatus, now: int) -> str:
    """Why the charts of a key show nothing."""
    if key.marked_at is not None:
        ago = span(now - key.marked_at)
        return f"No mark was made in this time: the last one is from {moment(key.marked_at, now)}, {ago} ago."
    if not any(key.writers.values()):
        return "No mark was made yet: no writer has registered or noted its time."
    return f"No mark was made yet: {holding(key.holder)}."


class KeysCard:
    """The time keys of a stream that has several."""

    def __init__(self) -> None:
        columns: list[Column[KeyStatus]] = [
            Column("name", "Time key", sort=lambda key: key.key),
            Column("time", "Time", sort=lambda key: key.time, moment=True),
            Column("lag", "Lag", sort=lambda key: key.lag_ms, right=True),
            Column("rate", "Marks/s", sort=lambda key: key.marks_per_second, right=True, essential=False),
            Column("incomplete", "Incomplete", sort=lambda key: key.incomplete_marks, right=True, essential=False),
            Column("holder", "Held by"),
        ]
        with card("Time keys") as self._card:
            self._table = PagedTable(columns, noun="keys", row=self._row, text=lambda key: key.key, rows_per_page=10)

    def show(self, look: StreamStatus) -> None:
        self._card.set_visibility(len(look.keys) > 1)
        if len(look.keys) > 1:
            self._table.show(look.keys)

    def _row(self, key: KeyStatus) -> dict[str, Any]:
        return {
            "id": key.key,
            "name": key_label(key.key),
            "time": Times().show(key.time),
            "lag": lag_of(key),
            "rate": rate(key.marks_per_second),
            "incomplete": key.incomplete_marks,
            "holder": holding(key.holder) if key.state.stands_still else "nobody",
        }


class WritersCard:
    """All writers, those in trouble first."""

    def __init__(self, stream: str, base: str, who: Visitor) -> None:
        self._stream = stream
        self._now = 0
        self._graph: SegmentGraph | None = None
        self._held = False
        self._marked: int | None = None  # the time of the newest mark
        columns: list[Column[WriterStatus]] = [
            Column("name", "Writer", sort=lambda each: each.name, html=LINKED),
            Column("state", "State", sort=lambda each: f"{not each.holds} {each.state}", html=_STATE),
            Column("time", "Time", sort=lambda each: each.time, moment=True),
            Column("lag", "Lag", sort=self._lag, right=True),
            Column("heard", "Last heard", sort=lambda each: -each.heard_at, right=True, essential=False),
            Column("late", "Late", sort=lambda each: each.late or None, right=True, essential=False),
            Column("refused", "Refused", sort=lambda each: each.refused or None, right=True, essential=False),
            Column("position", "Position", essential=False),
        ]
        with card("Writers") as found:
            found.props("id=writers")
            self._more = ui.label().classes("sl-soft")
            self._table = PagedTable(columns, noun="writers", row=self._row, text=_name_and_state)
            note = {"writer": "w1", "time": 1000, "position": {"0": 10}}
            command = curl(who, "POST", f"{base}/v1/streams/{stream}/notes", note)
            self._empty = empty_state("edit_note", "No writer has noted its time yet:", command)

    def show(self, details: StreamDetails, key: str, now: int) -> None:
        self._graph, self._now = details.graph, now
        found = next((each for each in details.stream.keys if each.key == key), None)
        self._held = found is not None and found.state.stands_still
        self._marked = None if found is None else found.time
        writers = details.writers.get(key, ())
        count = 0 if found is None else sum(found.writers.values())
        self._more.set_text(f"The first {len(writers):,} of {count:,}, by state: the stream's controller shows all.")
        self._more.set_visibility(count > len(writers))
        self._empty.set_visibility(not writers)
        self._table.show(writers)

    def _lag(self, look: WriterStatus) -> int | None:
        return self._now - look.time if look.time is not None and is_epoch(look.time) else None

    def _row(self, look: WriterStatus) -> dict[str, Any]:
        assert self._graph is not None  # there are writers only with one
        return {
            "id": look.name,
            "name": look.name,
            "link": writer_link(self._stream, look.name),
            **writer_state(look.state),
            "below": below_marks(look.state, look.time, self._marked),
            "holds": ("holds" if self._held else "slowest") if look.holds else "",
            "holds_class": "sl-bad" if self._held else "sl-soft",
            "time": Times().show(look.time),
            "lag": lag(look.time, self._now),
            "heard": f"{span(max(0, self._now - look.heard_at))} ago",
            "late": look.late or NOTHING,
            "refused": look.refused or NOTHING,
            "position": offsets(self._graph.frontier(look.position)),
        }


def _name_and_state(look: WriterStatus) -> str:
    return f"{look.name} {look.state} {'holds' if look.holds else ''}"


class SegmentsCard:
    """Segments, how far they are noted, and a drawing of splits and merges, in which a visitor unfolds boxes."""

    def __init__(self) -> None:
        self._now = 0
        self._noted_at: Mapping[str, int] = {}
        self._segments: Sequence[Segment] = ()
        self._unfolded: list[str] = []
        self._picture: SegmentsPicture = segments_picture(())
        self._noted: Mapping[str, int] = {}
        columns: list[Column[Segment]] = [
            Column("name", "Segment", sort=lambda each: each.id),
            Column("noted", "Noted up to", sort=lambda each: self._noted.get(each.id, 0), right=True),
            Column("final", "Final offset", sort=lambda each: each.final_offset, right=True),
            Column("keys", "Keys", sort=lambda each: each.low, essential=False),
            Column("after", "After", essential=False),
            Column("heard", "Last noted", sort=self._noted_ago, right=True),
        ]
        with card("Segments"):
            self._diagram = ui.mermaid("graph LR", on_node_click=self._clicked).classes("full-width sl-diagram")
            self._diagram.set_visibility(False)
            with ui.row().classes("items-center").style("gap: 8px 12px") as self._folding:
                self._folded = ui.label().classes("sl-soft")
                self._choice = ui.select({}, label="Unfold", on_change=self._chosen).props("dense outlined")
                self._choice.style("min-width: 220px")
                self._again = ui.button("Fold again", on_click=self._fold).props("flat dense no-caps")
            self._folding.set_visibility(False)
            self._table = PagedTable(
                columns, noun="segments", row=self._row, text=lambda each: each.id, rows_per_page=10
            )

    def show(self, details: StreamDetails, now: int) -> None:
        self._now, self._noted_at, self._noted = now, details.noted_at, details.noted
        segments = list(details.graph)
        self._table.show(segments)
        if segments != self._segments:
            self._segments = segments
            self._draw()

    def _draw(self) -> None:
        scaled = any(each.predecessors for each in self._segments)
        self._diagram.set_visibility(scaled)
        if not scaled:
            return
        shown = self._picture = segments_picture(self._segments, self._unfolded)
        self._diagram.set_content(shown.mermaid())
        self._folding.set_visibility(bool(shown.folded or self._unfolded))
        self._folded.set_text(
            f"{shown.folded:,} of {len(self._segments):,} segments are folded: click a box to unfold it."
        )
        self._choice.set_options({each.name: each.text for each in shown.boxes if each.is_folded}, value=None)
        self._choice.set_visibility(bool(shown.folded))
        self._again.set_visibility(bool(self._unfolded))

    def _clicked(self, event: events.MermaidNodeClickEventArguments) -> None:
        place = event.node_id.rpartition("-")[2].removeprefix("s")  # what precedes it is the library's
        if place.isdecimal() and int(place) < len(self._picture.boxes):
            self._unfold(self._picture.boxes[int(place)].name)

    def _chosen(self, event: events.ValueChangeEventArguments[str | None]) -> None:
        if event.value is not None:
            self._unfold(event.value)

    def _unfold(self, name: str) -> None:
        if any(each.is_folded and each.name == name for each in self._picture.boxes):
            self._unfolded = [*self._unfolded[-SEGMENT_BOXES:], name]
            self._draw()

    def _fold(self) -> None:
        self._unfolded = []
        self._draw()

    def _noted_ago(self, segment: Segment) -> int | None:
        at = self._noted_at.get(segment.id)
        return None if at is None else self._now - at

    def _row(self, segment: Segment) -> dict[str, Any]:
        at = self._noted_at.get(segment.id)
        low, high = segment.low, segment.high
        return {
            "id": segment.id,
            "name": segment.id,
            "noted": self._noted.get(segment.id, 0),
            "final": NOTHING if segment.final_offset is None else segment.final_offset,
            "keys": NOTHING if low is None or high is None else f"{low:.4g} to {high:.4g}",
            "after": ", ".join(segment.predecessors) or NOTHING,
            "heard": NOTHING if at is None else f"{span(max(0, self._now - at))} ago",
        }


class GroupsCard:
    """The reader groups of a stream: their windows against its marks."""

    def __init__(self, stream: str, who: Visitor) -> None:
        self._stream = stream
        self._who = who
        self._key = ""
        self._newest: int | None = None
        columns: list[Column[GroupStatus]] = [
            Column("name", "Reader group", sort=lambda each: each.name, html=LINKED),
            Column("behind", "Behind the marks", sort=self._behind, right=True),
            Column("lower", "Read up to", sort=lambda each: self._bounds(each)[0], moment=True),
            Column("upper", "Upper", sort=lambda each: self._bounds(each)[1], essential=False, moment=True),
            Column("backlog", "Backlog", sort=lambda each: 0 if each.window.backlog else None, essential=False),
        ]
        with card("Reader groups"):
            self._marks = ui.label().classes("sl-soft")
            self._table = PagedTable(
                columns, noun="groups", row=self._row, text=lambda each: each.name, rows_per_page=10
            )
            self._empty = ui.label("No reader group reads this stream.").classes("sl-soft")

    def lowers(self, looks: Sequence[GroupStatus], key: str) -> list[tuple[str, int]]:
        """How far the first few groups have read, in a key."""
        self._key = key
        found = [(each.name, self._bounds(each)[0]) for each in self._seen(looks)]
        return [(name, lower) for name, lower in found if lower is not None][:CHART_GROUPS]

    def show(self, looks: Sequence[GroupStatus], key: str, marks: KeyStatus | None) -> None:
        self._key = key
        self._newest = marks.time if marks is not None else None
        seen = self._seen(looks)
        self._empty.set_visibility(not seen)
        self._marks.set_visibility(bool(seen) and self._newest is not None)
        self._marks.set_text(f"The time of the newest mark is {Times().show(self._newest)}.")
        self._table.show(seen)

    def _seen(self, looks: Sequence[GroupStatus]) -> list[GroupStatus]:
        return [each for each in looks if self._who.may_see_all(each.window.streams)]

    def _bounds(self, look: GroupStatus) -> tuple[int | None, int | None]:
        bounds = look.window.streams[self._stream].keys.get(self._key)
        return (None, None) if bounds is None else (bounds.lower, bounds.upper)

    def _behind(self, look: GroupStatus) -> int | None:
        lower = self._bounds(look)[0]
        return None if lower is None or self._newest is None else max(0, self._newest - lower)

    def _row(self, look: GroupStatus) -> dict[str, Any]:
        lower, upper = self._bounds(look)
        behind = self._behind(look)
        dated = lower is not None and is_epoch(lower)
        return {
            "id": look.name,
            "name": look.name,
            "link": group_link(look.name),
            "behind": NOTHING if behind is None else span(behind) if dated else str(behind),
            "lower": Times().show(lower),
            "upper": Times().show(upper),
            "backlog": "in backlog" if look.window.backlog else NOTHING,
        }
