"""The page of the lag of all streams over time."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.controller import Controller
from controller.dashboard.charts import lags_options, zoomable
from controller.dashboard.frame import LAG, Refresh, frame
from controller.dashboard.labels import state_of, stream_link
from controller.dashboard.limits import CHART_LEAST_MS, LAG_KEYS, LAG_LINES, LAG_POINTS, LAG_STREAMS_TOGETHER
from controller.dashboard.ranges import RangePicker
from controller.dashboard.tables import LINKED, STATE, Column, PagedTable
from controller.dashboard.visitors import Visitor, to_sign_in, visitor
from controller.dashboard.widgets import card, heading
from controller.format import NOTHING, is_epoch, moment, span
from controller.status.status_view import StatusView, StatusViews
from controller.status.stream_status import StreamStatus

_WIDTH: Final = 240
_HEIGHT: Final = 28
_CURVE: Final = f"""<svg v-if="props.row.curve" viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img"
:aria-label="props.row.said" style="width: 100%; min-width: 120px; height: {_HEIGHT}px; display: block; color: #d97706">
<path :d="props.row.curve" fill="currentColor" fill-opacity="0.25" stroke="currentColor"
vector-effect="non-scaling-stroke"></path></svg><span v-else>{NOTHING}</span>"""


Point = tuple[int, int]  # a moment, and the lag then


class _Line(NamedTuple):
    """A stream, and its lag at some moments; none where it had no mark, or times that are no dates."""

    look: StreamStatus
    points: Sequence[Point]
    peak: Point | None  # when its lag was greatest


def add(app: FastAPI) -> None:
    @ui.page(LAG)
    async def page(request: Request) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        statuses: StatusViews = app.state.status
        with frame(request, who, "Lag"):
            view = LagPage(app.state.controller, statuses.seen_by(who.viewer), who)
            refresh = Refresh(view.update)
            view.build()
        await refresh.first()
        return None


class LagPage:
    """The page of one visitor."""

    def __init__(self, controller: Controller, status: StatusView, who: Visitor) -> None:
        self._controller = controller
        self._status = status
        self._who = who
        self._lags: dict[str, dict[int, int | None]] = {}  # by stream and moment
        self._series: dict[str, tuple[list[Point], Point | None]] = {}  # by stream, what is drawn of that
        self._range_read: object = ""
        self._oldest: int | None = None  # the oldest mark, where all that is kept is shown
        self._reading: asyncio.Task[None] | None = None
        self._now = self._since = self._until = 0

    def build(self) -> None:
        with ui.row().classes("items-center full-width").style("gap: 8px 12px"):
            heading("Lag of all streams", level=1)
            ui.space()
            self._range = RangePicker("1h", self._turn, self._controller.clock.now)
        with card(f"The {LAG_LINES} that were furthest behind"):
            self._empty = ui.label("No mark was made in this time.").classes("sl-soft")
            self._chart = zoomable(ui.echart(lags_options([], 0)).style("height: 260px"), self._range.zoom)
        with card("Streams"):
            columns: list[Column[_Line]] = [
                Column("name", "Stream", sort=lambda line: line.look.name, html=LINKED),
                Column("state", "State", sort=lambda line: -int(line.look.state), html=STATE, essential=False),
                Column("lag", "Now", sort=lambda line: line.look.lag_ms, right=True),
                Column("peak", "Peak", sort=lambda line: line.peak and line.peak[1], right=True),
                Column("when", "Peak at", sort=lambda line: line.peak and line.peak[0], essential=False),
                Column("curve", "Over time", html=_CURVE),
            ]
            self._table = PagedTable(columns, noun="streams", row=self._row, text=lambda line: line.look.name)
            self._unknown = ui.label().classes("sl-warn")

    async def update(self) -> None:
        self._who.check()
        look = await self._status.overview()
        streams = [each for each in look.streams if self._who.may_see(each.name)]
        unread = sum(self._who.may_see(name) for name in look.unread)
        self._unknown.set_text(f"{unread:,} more are not known at this moment")
        self._unknown.set_visibility(bool(unread))
        if self._reading is not None and self._reading.done():
            done, self._reading = self._reading, None
            done.result()  # raises what went wrong
        if self._reading is None:
            self._reading = asyncio.create_task(self._read(streams), name="lag of all streams")
            await asyncio.wait([self._reading], timeout=1.0)
        self._draw(streams)

    async def _read(self, streams: Sequence[StreamStatus]) -> None:
        """Reads the moments that are new, of a few streams at a time."""
        now, chosen, reading = self._controller.clock.now(), self._range.chosen, self._controller.reading
        keys = {each.name: [key.key for key in each.keys[:LAG_KEYS]] for each in streams}
        since = self._range.since(now)
        if chosen != self._range_read:
            self._range_read, self._lags, self._series, self._oldest = chosen, {}, {}, None
        if since is None:
            if self._oldest is None:
                asked = [(name, key) for name, of_name in keys.items() for key in of_name]
                self._oldest = await reading.oldest_mark(asked)
            since = min(now - CHART_LEAST_MS, now if self._oldest is None else self._oldest)
        moments = self._range.moments(since, now, LAG_POINTS)
        self._now, self._since, self._until = now, since, self._range.until(now)
        self._lags = {name: lags for name, lags in self._lags.items() if name in keys}
        by_news: dict[tuple[int, ...], list[str]] = {}
        for name in keys:
            known = self._lags.get(name, {})
            by_news.setdefault(tuple(each for each in moments if each not in known), []).append(name)
        for news, names in by_news.items():
            for first in range(0, len(names) if news else 0, LAG_STREAMS_TOGETHER):
                together = names[first : first + LAG_STREAMS_TOGETHER]
                found = await reading.times_at([(name, key) for name in together for key in keys[name]], news)
                times = iter(found)
                for name in together:
                    lags = _lags(news, [next(times) for _ in keys[name]])
                    known = self._lags.get(name, {})
                    self._lags[name] = {each: lags[each] if each in lags else known.get(each) for each in moments}
                    points = [(at, lag) for at, lag in self._lags[name].items() if lag is not None]
                    self._series[name] = points, max(points, key=lambda point: point[1], default=None)

    def _draw(self, streams: Sequence[StreamStatus]) -> None:
        lines = [_Line(each, *self._series.get(each.name, ((), None))) for each in streams]
        lines.sort(key=lambda line: -1 if line.peak is None else line.peak[1], reverse=True)
        worst = [(each.look.name, each.points) for each in lines[:LAG_LINES] if each.points]
        options = lags_options(worst, self._since, self._until)
        if self._chart.props.get("options") != options:
            self._chart.props["options"] = options
        self._empty.set_visibility(not worst)
        self._table.show(lines)

    def _row(self, line: _Line) -> Mapping[str, Any]:
        state, state_class = state_of(line.look)
        peak = line.peak
        least = span(min(lag for _, lag in line.points)) if line.points else NOTHING
        return {
            "id": line.look.name,
            "name": line.look.name,
            "link": stream_link(line.look.name),
            "state": state,
            "state_class": state_class,
            "lag": NOTHING if line.look.lag_ms is None else span(line.look.lag_ms),
            "peak": NOTHING if peak is None else span(peak[1]),
            "when": NOTHING if peak is None else moment(peak[0], self._now),
            "curve": self._curve(line),
            "curve_text": " ".join(f"{lag / 1000:.1f}" for _, lag in line.points),
            "said": NOTHING if peak is None else f"lag of {line.look.name}: {least} to {span(peak[1])}",
        }

    def _curve(self, line: _Line) -> str:
        """The lag as an area, as high as its peak."""
        if len(line.points) < 2 or line.peak is None:
            return ""
        wide, high = max(1, self._until - self._since), max(1, line.peak[1])
        places = [
            f"{(at - self._since) / wide * _WIDTH:.1f} {_HEIGHT - max(0, lag) / high * (_HEIGHT - 2):.1f}"
            for at, lag in line.points
        ]
        first, last = places[0].split()[0], places[-1].split()[0]
        return f"M{first} {_HEIGHT} L{' L'.join(places)} L{last} {_HEIGHT} Z"

    async def _turn(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        await self.update()


def _lags(moments: Sequence[int], of_keys: Sequence[Sequence[int | None]]) -> dict[int, int | None]:
    """By moment, how far the key that was furthest behind was behind the clock."""
    found: dict[int, int | None] = {}
    for place, at in enumerate(moments):
        times = [time for each in of_keys if (time := each[place]) is not None and is_epoch(time)]
        found[at] = at - min(times) if times else None
    return found
