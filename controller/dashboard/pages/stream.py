"""A stream: who holds its time back, how it came along, and everything that belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.dashboard import actions
from controller.dashboard.charts import Moment, lag_options, scaling_diagram, time_options
from controller.dashboard.frame import Refresh, empty_state, frame
from controller.dashboard.limits import CHART_POINTS, CHART_SPAN_MS, JOURNAL_SHOWN, NAMED_WRITERS, SEGMENTS_DRAWN
from controller.dashboard.pages.overview import describe_hold, state_of, writer_link
from controller.dashboard.stories import JournalList
from controller.dashboard.tables import Column, PagedTable, key_label
from controller.dashboard.visiting import Visitor, to_sign_in, visitor
from controller.services.controller import Controller
from controller.services.live import Live
from controller.services.overview import GroupLook, KeyLook, StreamLook, Trouble
from controller.wording import NOTHING, Times, is_epoch, lag, offsets, span
from strandline.errors import StrandlineError
from strandline.note import DEFAULT_KEY
from strandline.writer import WriterState

_LINKED: Final = '<a :href="props.row.link">{{ props.row.name }}</a>'
_WRITER_COLUMNS: Final = (
    Column("name", "Writer", html=_LINKED),
    Column("state", "State", html='<span :class="props.row.state_class">{{ props.row.state }}</span>'),
    Column("time", "Time", sort="time_number"),
    Column("lag", "Lag", sort="lag_ms", right=True, essential=False),
    Column("heard", "Last heard", sort="silent_ms", right=True),
    Column("position", "Position", essential=False),
)
_SEGMENT_COLUMNS: Final = (
    Column("name", "Segment"),
    Column("noted", "Noted up to", right=True),
    Column("final", "Final offset", right=True),
    Column("keys", "Keys", essential=False),
    Column("after", "After", essential=False),
    Column("noted_at", "Last noted", sort="quiet_ms", right=True, essential=False),
)
_GROUP_COLUMNS: Final = (
    Column("name", "Reader group", html=_LINKED),
    Column("lower", "Read up to"),
    Column("behind", "Behind the marks", sort="behind_ms", right=True),
    Column("upper", "Upper", essential=False),
    Column("backlog", "Backlog"),
)
BAD_STATES: Final = {WriterState.BEHIND, WriterState.TIMED_OUT, WriterState.EXCLUDED}
FIRST_NOTE: Final = (
    "curl -X POST {base}/v1/streams/{stream}/notes -H 'content-type: application/json' "
    """-d '{{"writer": "w1", "time": 1000, "position": {{"0": 10}}}}'"""
)


def add(app: FastAPI) -> None:
    @ui.page("/streams/{stream}")
    async def page(request: Request, stream: str) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        controller: Controller = app.state.controller
        with frame(request, who, stream):
            try:
                who.check(stream)
                view = StreamView(
                    controller, who, await controller.streams.get(stream), str(request.base_url).rstrip("/")
                )
                await view.load()
            except StrandlineError as error:
                gone(error)
                return None
            refresh = Refresh(view.update)
            view.build()
        await refresh.now()
        return None


def gone(error: StrandlineError) -> None:
    """What a page shows of something that is not there."""
    with ui.column().classes("sl-card"):
        ui.label("Not here").classes("sl-title").props("role=heading aria-level=1")
        ui.label(str(error))
        ui.link("To the overview", "/").classes("sl-link")


class StreamView:
    """The page of one visitor."""

    def __init__(self, controller: Controller, who: Visitor, live: Live, base: str) -> None:
        self._controller = controller
        self._who = who
        self._name = live.name
        self._base = base
        self._keys = sorted(live.stream.keys) or [DEFAULT_KEY]
        self._key = self._keys[0]
        self._moments: list[Moment] = []
        self._drawn: list[tuple[str, tuple[str, ...], bool]] = []

    async def load(self) -> None:
        """Reads what the charts begin with."""
        self._who.check(self._name)
        now = self._controller.clock.now()
        self._moments = await self._controller.reading.timeline(
            self._name, self._key, now - CHART_SPAN_MS, CHART_POINTS
        )

    def build(self) -> None:
        with ui.row().classes("items-center w-full").style("gap: 8px 12px"):
            ui.label(self._name).classes("sl-title").props("role=heading aria-level=1")
            self._state = ui.badge().props("outline")
            ui.space()
            if len(self._keys) > 1:
                ui.select({key: key_label(key) for key in self._keys}, value=self._key, label="Time key").props(
                    "dense outlined"
                ).on_value_change(self._turn_key)
            if self._who.may_act:
                ui.button("Evaluate now", icon="bolt", on_click=self._evaluate).props(
                    "outline no-caps dense padding='4px 12px'"
                )
                ui.button("Configure", icon="tune", on_click=self._configure).props(
                    "outline no-caps dense padding='4px 12px'"
                )
        self._build_holder()
        with ui.element("div").classes("sl-two"):
            self._lag_card = ui.column().classes("sl-card")
            with self._lag_card:
                ui.label("Lag over the last hour").classes("sl-h").props("role=heading aria-level=2")
                self._lag_chart = ui.echart(lag_options([], 0)).style("height: 220px")
            with ui.column().classes("sl-card"):
                ui.label("Event time over the last hour").classes("sl-h").props("role=heading aria-level=2")
                self._time_chart = ui.echart(time_options([], 0)).style("height: 220px")
        with ui.column().classes("sl-card"):
            ui.label("Writers").classes("sl-h").props("role=heading aria-level=2")
            self._writers = PagedTable(_WRITER_COLUMNS, noun="writers")
            with ui.column().classes("w-full") as self._no_writers:
                empty_state(
                    "edit_note",
                    "No writer has noted its time yet:",
                    FIRST_NOTE.format(base=self._base, stream=self._name),
                )
        with ui.column().classes("sl-card"):
            ui.label("Segments").classes("sl-h").props("role=heading aria-level=2")
            self._diagram = ui.mermaid("graph LR").classes("w-full")
            self._diagram.set_visibility(False)
            self._segments = PagedTable(_SEGMENT_COLUMNS, noun="segments", rows_per_page=10)
        with ui.element("div").classes("sl-two"):
            with ui.column().classes("sl-card"):
                ui.label("Reader groups").classes("sl-h").props("role=heading aria-level=2")
                self._groups = PagedTable(_GROUP_COLUMNS, noun="groups", rows_per_page=10)
                self._no_groups = ui.label("No reader group reads this stream.").classes("sl-soft")
            with ui.column().classes("sl-card"):
                ui.label("Journal").classes("sl-h").props("role=heading aria-level=2")
                self._journal = JournalList()

    def _build_holder(self) -> None:
        with ui.row().classes("sl-card items-center") as self._holder_card:
            with ui.column().style("gap: 2px; flex: 1; min-width: 240px"):
                with ui.row().classes("items-baseline").style("gap: 8px"):
                    self._holder_before = ui.label()
                    self._holder = ui.link("", "/").classes("sl-link").style("font-size: 18px")
                self._holder_story = ui.label().classes("sl-soft")
                self._left_out = ui.label().classes("sl-warn")
            with ui.column().style("gap: 0").classes("items-end"):
                self._lag = ui.label().classes("sl-number")
                self._time = ui.label().classes("sl-soft")
            if self._who.may_act:
                self._exclude = ui.button("Exclude it", icon="block", on_click=self._ask_exclude).props(
                    "outline no-caps color=negative"
                )

    # -- what changes --------------------------------------------------------------------------------------------

    async def update(self) -> None:
        self._who.check(self._name)
        overview, now = self._controller.overview, self._controller.clock.now()
        live = await self._controller.streams.get(self._name)
        look = overview.of(live)
        key = next((each for each in look.keys if each.key == self._key), None)
        if key is not None:
            self._show_holder(look, key)
            self._show_charts(live, key, now)
        self._show_writers(live, now)
        self._show_segments(live, now)
        whole = await overview.look()
        self._show_groups([each for each in whole.groups if self._name in each.window.streams])
        page = await self._controller.journals.newest_of_stream(self._name, JOURNAL_SHOWN)
        self._journal.show(page)

    def _show_holder(self, look: StreamLook, key: KeyLook) -> None:
        word, colour = state_of(look)
        self._state.set_text(word)
        self._state.props(
            f"color={ {'sl-bad': 'negative', 'sl-warn': 'warning', 'sl-good': 'positive'}.get(colour, 'grey') }"
        )
        self._holder_card.classes(remove="sl-stuck sl-held sl-fine")
        holder = key.holder if not look.sealed else None
        writer = holder.writer if holder is not None else None
        self._holder_card.classes(
            {Trouble.STUCK: "sl-stuck", Trouble.HELD: "sl-held"}.get(key.trouble, "sl-fine") if not look.sealed else ""
        )
        if look.sealed:
            self._holder_before.set_text("The stream is sealed: its time is final.")
        elif holder is None:
            self._holder_before.set_text("Nobody holds time back.")
        elif writer is None:
            self._holder_before.set_text("Waiting for more writers: fewer than min_writers have noted.")
        else:
            self._holder_before.set_text(
                "Held back by" if key.trouble >= Trouble.HELD else "Time goes on with its slowest writer,"
            )
        self._holder.set_text(writer or "")
        self._holder.props["href"] = writer_link(self._name, writer) if writer else "/"
        self._holder.set_visibility(writer is not None)
        self._holder_story.set_text(describe_hold(key, look.seen_at) if writer is not None else "")
        left = key.excluded
        more = f" and {len(left) - NAMED_WRITERS} more" if len(left) > NAMED_WRITERS else ""
        self._left_out.set_text(f"Marks are incomplete: they leave out {', '.join(left[:NAMED_WRITERS])}{more}")
        self._left_out.set_visibility(bool(left))
        self._lag.set_text(lag(key.time, look.seen_at) if not look.sealed else "")
        self._time.set_text(Times().show(key.time))
        if self._who.may_act:
            self._excludable = writer
            self._exclude.set_visibility(writer is not None and key.trouble >= Trouble.HELD)

    def _show_charts(self, live: Live, key: KeyLook, now: int) -> None:
        chain = live.chains.get(self._key)
        last = chain.last if chain is not None else None
        if last is not None and (not self._moments or self._moments[-1][0] < last.created_at):
            self._moments.append((last.created_at, last.time))
        while self._moments and self._moments[0][0] < now - CHART_SPAN_MS:
            self._moments.pop(0)
        if len(self._moments) > 2 * CHART_POINTS:
            self._moments = self._moments[::2] if len(self._moments) % 2 else self._moments[1::2]
        self._lag_card.set_visibility(key.time is None or is_epoch(key.time))
        for chart, options in (
            (self._lag_chart, lag_options(self._moments, now)),
            (self._time_chart, time_options(self._moments, now)),
        ):
            chart.options.clear()
            chart.options.update(options)
            chart.update()

    def _show_writers(self, live: Live, now: int) -> None:
        rows = []
        for writer in live.stream.writers.values():
            states = live.stream.states(writer)
            state = states.get(self._key)
            standing = writer.standings.get(self._key)
            if state is None or standing is None:
                continue
            time = standing.value
            rows.append(
                {
                    "id": writer.name,
                    "name": writer.name,
                    "link": writer_link(self._name, writer.name),
                    "state": str(state).replace("_", " "),
                    "state_class": "sl-bad"
                    if state in BAD_STATES
                    else ("sl-good" if state is WriterState.ACTIVE else "sl-soft"),
                    "time": Times().show(time),
                    "time_number": time,
                    "lag": lag(time, now),
                    "lag_ms": None if time is None else now - time,
                    "heard": f"{span(max(0, now - writer.heard_at))} ago",
                    "silent_ms": now - writer.heard_at,
                    "position": offsets(live.stream.graph.frontier(writer.position)),
                }
            )
        self._writers.show(rows)
        self._no_writers.set_visibility(not rows)

    def _show_segments(self, live: Live, now: int) -> None:
        graph = live.stream.graph
        noted: dict[str, int] = {}
        for writer in live.stream.writers.values():
            for name, offset in writer.noted.items():
                noted[name] = max(offset, noted.get(name, 0))
        rows, drawn = [], []
        for segment in graph:
            at = live.noted_at.get(segment.id)
            keys = (
                NOTHING if segment.low is None or segment.high is None else f"{segment.low:.4g} to {segment.high:.4g}"
            )
            rows.append(
                {
                    "id": segment.id,
                    "name": segment.id,
                    "noted": noted.get(segment.id, 0),
                    "final": segment.final_offset,
                    "keys": keys,
                    "after": ", ".join(segment.predecessors) or NOTHING,
                    "noted_at": NOTHING if at is None else f"{span(max(0, now - at))} ago",
                    "quiet_ms": None if at is None else now - at,
                }
            )
            drawn.append((segment.id, tuple(segment.predecessors), segment.final_offset is not None))
        self._segments.show(rows)
        drawn = drawn[-SEGMENTS_DRAWN:]
        if drawn != self._drawn:
            self._drawn = drawn
            scaled = any(before for _, before, _ in drawn)
            self._diagram.set_visibility(scaled)
            if scaled:
                self._diagram.set_content(scaling_diagram(drawn))

    def _show_groups(self, looks: Sequence[GroupLook]) -> None:
        rows: list[dict[str, Any]] = []
        for look in looks:
            if not all(map(self._who.may_see, look.window.streams)):
                continue
            window = look.window.streams[self._name]
            bounds = window.keys.get(self._key)
            lower, upper = (bounds.lower, bounds.upper) if bounds is not None else (window.lower, window.upper)
            rows.append(
                {
                    "id": look.name,
                    "name": look.name,
                    "link": f"/reader-groups/{look.name}",
                    "lower": Times().show(lower),
                    "upper": Times().show(upper),
                    "behind": NOTHING if window.behind_ms is None else span(window.behind_ms),
                    "behind_ms": window.behind_ms,
                    "backlog": "in backlog" if look.window.backlog else "",
                }
            )
        self._groups.show(rows)
        self._no_groups.set_visibility(not rows)

    # -- what a visitor does -------------------------------------------------------------------------------------

    async def _turn_key(self, event: Any) -> None:
        self._key = event.value
        await self.load()
        await self.update()

    async def _ask_exclude(self) -> None:
        writer = self._excludable
        if writer is not None:
            await actions.confirm(
                f"Exclude {writer}?",
                "Time goes on without it at once. What it writes below the marks' time will be late, and every mark "
                "names it until it is brought back or registers anew.",
                "Exclude",
                lambda: actions.exclude(self._controller, self._name, writer, self._who),
            )

    async def _evaluate(self) -> None:
        await actions.confirm(
            "Evaluate now?",
            "Makes a mark at once if one is possible, whatever the interval.",
            "Evaluate",
            lambda: actions.evaluate(self._controller, self._name, self._key, self._who),
        )

    async def _configure(self) -> None:
        live = await self._controller.streams.get(self._name)
        try:
            settings = await actions.edit(live.stream.config)
        except StrandlineError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        if settings:
            await actions.confirm(
                "Change the configuration?",
                ", ".join(f"{name}: {value}" for name, value in settings.items()),
                "Change",
                lambda: actions.configure(self._controller, self._name, settings, self._who),
            )
