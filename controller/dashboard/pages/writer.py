"""A writer: what it said last, what was refused, and what it is to the stream."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.dashboard import actions
from controller.dashboard.frame import Refresh, frame
from controller.dashboard.limits import JOURNAL_SHOWN, NOTES_SHOWN
from controller.dashboard.pages.stream import BAD_STATES, gone
from controller.dashboard.stories import JournalList
from controller.dashboard.tables import Column, PagedTable, key_label
from controller.dashboard.visiting import Visitor, to_sign_in, visitor
from controller.services.controller import Controller
from controller.wording import NOTHING, Times, lag, offsets, span
from strandline.errors import StrandlineError, UnknownWriter
from strandline.writer import Writer, WriterState

_KEY_COLUMNS: Final = (
    Column("name", "Time key"),
    Column("state", "State", html='<span :class="props.row.state_class">{{ props.row.state }}</span>'),
    Column("time", "Time"),
    Column("lag", "Lag", right=True),
    Column("holds", "Holds time back"),
)
_NOTE_COLUMNS: Final = (
    Column("time", "Noted time", sort="time_number"),
    Column("key", "Key"),
    Column("position", "Position"),
    Column("newest", "Newest event", essential=False),
)


def add(app: FastAPI) -> None:
    @ui.page("/streams/{stream}/writers/{writer}")
    async def page(request: Request, stream: str, writer: str) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        controller: Controller = app.state.controller
        with frame(request, who, writer):
            try:
                who.check(stream)
                if writer not in (await controller.streams.get(stream)).stream.writers:
                    raise UnknownWriter(stream=stream, writer=writer)
            except StrandlineError as error:
                gone(error)
                return None
            view = WriterView(controller, who, stream, writer)
            refresh = Refresh(view.update)
            view.build()
        await refresh.now()
        return None


class WriterView:
    """The page of one visitor."""

    def __init__(self, controller: Controller, who: Visitor, stream: str, writer: str) -> None:
        self._controller = controller
        self._who = who
        self._stream = stream
        self._name = writer

    def build(self) -> None:
        with ui.row().classes("items-center w-full").style("gap: 8px 12px"):
            with ui.column().style("gap: 0"):
                ui.link(self._stream, f"/streams/{self._stream}").classes("sl-link")
                ui.label(self._name).classes("sl-title").props("role=heading aria-level=1")
            ui.space()
            if self._who.may_act:
                self._exclude = ui.button("Exclude", icon="block", on_click=self._ask_exclude).props(
                    "outline no-caps color=negative"
                )
                self._include = ui.button("Bring back", icon="undo", on_click=self._ask_include).props(
                    "outline no-caps"
                )
        with ui.element("div").classes("sl-tiles"):
            self._facts = {name: _fact(name) for name in ("Last heard", "Let go", "Epoch", "Position")}
        with ui.column().classes("sl-card"):
            ui.label("Time").classes("sl-h").props("role=heading aria-level=2")
            self._keys = PagedTable(_KEY_COLUMNS, noun="keys", rows_per_page=10)
        with ui.element("div").classes("sl-two"):
            with ui.column().classes("sl-card"):
                ui.label("Notes that a later mark can still need").classes("sl-h").props("role=heading aria-level=2")
                self._notes = PagedTable(_NOTE_COLUMNS, noun="notes", rows_per_page=10)
            with ui.column().classes("sl-card"):
                ui.label("Journal of this writer").classes("sl-h").props("role=heading aria-level=2")
                self._journal = JournalList(about="Nothing was refused, and nothing changed.")

    async def update(self) -> None:
        self._who.check(self._stream)
        now = self._controller.clock.now()
        live = await self._controller.streams.get(self._stream)
        writer = live.stream.writers.get(self._name)
        if writer is None:
            raise UnknownWriter(stream=self._stream, writer=self._name)
        states = live.stream.states(writer)
        holders = {key: live.stream.held_by(key, now) for key in states}
        rows: list[dict[str, Any]] = []
        for key, state in sorted(states.items()):
            time, holder = writer.standings[key].value, holders[key]
            holds = holder is not None and holder.writer == self._name
            good = "sl-good" if state is WriterState.ACTIVE else "sl-soft"
            rows.append(
                {
                    "id": key,
                    "name": key_label(key),
                    "state": str(state).replace("_", " "),
                    "state_class": "sl-bad" if state in BAD_STATES else good,
                    "time": Times().show(time),
                    "lag": lag(time, now),
                    "holds": "yes" if holds else "no",
                }
            )
        self._keys.show(rows)
        self._show_facts(
            writer, live.stream.config.writer_timeout_ms, offsets(live.stream.graph.frontier(writer.position)), now
        )
        self._show_notes(writer, lambda cut: offsets(live.stream.graph.frontier(cut)))
        if self._who.may_act:
            excluded = writer.excluded_at is not None
            self._exclude.set_visibility(not excluded and not writer.closed)
            self._include.set_visibility(excluded)
        entries = await self._controller.journals.newest_of_stream(self._stream, 10 * JOURNAL_SHOWN)
        own = [each for each in entries if self._name in (each.details.get("writer"), each.details.get("name"))]
        self._journal.show(own[-JOURNAL_SHOWN:])

    def _show_facts(self, writer: Writer, timeout: int | None, position: str, now: int) -> None:
        silent = max(0, now - writer.heard_at)
        counts = not writer.closed and writer.excluded_at is None and not writer.lost
        let_go = "never by itself" if timeout is None else f"in {span(max(0, timeout - silent))}"
        facts = {
            "Last heard": f"{span(silent)} ago",
            "Let go": let_go if counts else "already",
            "Epoch": NOTHING if writer.epoch is None else str(writer.epoch),
            "Position": position,
        }
        for name, text in facts.items():
            self._facts[name].set_text(text)

    def _show_notes(self, writer: Writer, position: Any) -> None:
        entries = [(key, entry) for key, standing in writer.standings.items() for entry in standing.history]
        entries.sort(key=lambda each: each[1].time, reverse=True)
        self._notes.show(
            {
                "id": f"{key} {entry.time}",
                "key": key_label(key),
                "time": Times().show(entry.time),
                "time_number": entry.time,
                "position": position(entry.cut),
                "newest": Times().show(entry.newest),
            }
            for key, entry in entries[:NOTES_SHOWN]
        )

    async def _ask_exclude(self) -> None:
        await actions.confirm(
            f"Exclude {self._name}?",
            "Time goes on without it at once. What it writes below the marks' time will be late, and every mark names "
            "it until it is brought back or registers anew.",
            "Exclude",
            lambda: actions.exclude(self._controller, self._stream, self._name, self._who),
        )

    async def _ask_include(self) -> None:
        await actions.confirm(
            f"Bring {self._name} back?",
            "It counts again from its last note on, so time may stand until it has caught up.",
            "Bring back",
            lambda: actions.include(self._controller, self._stream, self._name, self._who),
        )


def _fact(name: str) -> ui.label:
    with ui.column().classes("sl-card").style("gap: 2px"):
        text = ui.label(NOTHING).style("font-size: 18px; font-weight: 650; overflow-wrap: anywhere")
        ui.label(name).classes("sl-soft")
    return text
