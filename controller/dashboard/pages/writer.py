"""A writer: what it said last, what was refused, and what it is to the stream."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.controller import Controller
from controller.dashboard import actions
from controller.dashboard.frame import Refresh, frame
from controller.dashboard.journal_cards import JournalCard, News
from controller.dashboard.labels import stream_link, writer_state
from controller.dashboard.limits import JOURNAL_SHOWN, NOTES_SHOWN
from controller.dashboard.tables import STATE, Column, PagedTable, key_label
from controller.dashboard.visitors import Visitor, to_sign_in, visitor
from controller.dashboard.widgets import card, gone, heading, tiles
from controller.format import NOTHING, Times, lag, letting_go, moment, offsets, span
from controller.records.journal import REFUSALS, REGISTRATIONS
from controller.streams.loaded_stream import LoadedStream
from strandline.core.writer import KeptNote, Writer
from strandline.errors import StrandlineError, UnknownWriter

_TILES = ("Last heard", "Let go", "Epoch", "Late notes", "Refused", "Position")


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
                _writer(await controller.streams.get(stream), writer)
            except StrandlineError as error:
                gone(error)
                return None
            view = WriterView(controller, who, stream, writer)
            refresh = Refresh(view.update)
            view.build()
        await refresh.first()
        return None


def _writer(loaded: LoadedStream, name: str) -> Writer:
    writer = loaded.stream.writers.get(name)
    if writer is None:
        raise UnknownWriter(stream=loaded.name, writer=name)
    return writer


class WriterView:
    """The page of one visitor."""

    def __init__(self, controller: Controller, who: Visitor, stream: str, writer: str) -> None:
        self._controller = controller
        self._who = who
        self._stream = stream
        self._name = writer
        self._news = News()

    def build(self) -> None:
        with ui.row().classes("items-center w-full").style("gap: 8px 12px"):
            with ui.column().style("gap: 0; min-width: 0"):
                with ui.row().classes("items-baseline").style("gap: 6px"):
                    ui.label("Writer of").classes("sl-soft")
                    ui.link(self._stream, stream_link(self._stream)).classes("sl-link")
                heading(self._name, level=1)
            ui.space()
            if self._who.may_act:
                self._exclude = ui.button("Exclude", icon="block", on_click=self._ask_exclude)
                self._exclude.props("outline no-caps color=negative")
                self._include = ui.button("Bring back", icon="undo", on_click=self._ask_include)
                self._include.props("outline no-caps")
        self._tiles = tiles(*_TILES)
        keys: list[Column[dict[str, Any]]] = [
            Column("name", "Time key"),
            Column("state", "State", html=STATE),
            Column("time", "Time"),
            Column("lag", "Lag", right=True),
            Column("holds", "Holds time back"),
        ]
        notes: list[Column[tuple[str, KeptNote]]] = [
            Column("time", "Noted time", sort=lambda each: each[1].time),
            Column("key", "Key", sort=lambda each: each[0], essential=False),
            Column("position", "Position"),
            Column("newest", "Newest event", sort=lambda each: each[1].newest, essential=False),
        ]
        with card("Time"):
            self._keys = PagedTable(keys, noun="keys", row=dict, text=lambda row: row["name"], rows_per_page=10)
        with ui.element("div").classes("sl-two"):
            with card("Notes that a later mark can still need"):
                self._notes = PagedTable(
                    notes, noun="notes", row=self._note_row, text=lambda each: each[0], rows_per_page=10
                )
                self._no_notes = ui.label("There is none: marks have passed all that it noted.").classes("sl-soft")
            self._refusals = JournalCard("Refusals", empty="Nothing of this writer's was refused.")
            self._epochs = JournalCard("Registrations", empty="No registration is known of.")
            self._journal = JournalCard("Journal of this writer", empty="Nothing is known of it.")

    async def update(self) -> None:
        self._who.check(self._stream)
        now = self._controller.clock.now()
        await self._read_journal(now)
        loaded = await self._controller.streams.get(self._stream)
        writer = _writer(loaded, self._name)
        self._show_keys(loaded, writer, now)
        self._show_tiles(loaded, writer, now)
        self._graph = loaded.stream.graph
        entries = [(key, entry) for key, key_state in writer.key_states.items() for entry in key_state.history]
        entries.sort(key=lambda each: each[1].time, reverse=True)
        self._notes.show(entries[:NOTES_SHOWN])
        self._no_notes.set_visibility(not entries)
        if self._who.may_act:
            excluded = writer.excluded_at is not None
            self._exclude.set_visibility(not excluded and not writer.closed)
            self._include.set_visibility(excluded)

    def _show_keys(self, loaded: LoadedStream, writer: Writer, now: int) -> None:
        rows = []
        for key, state in sorted(loaded.stream.states(writer).items()):
            time, holder = writer.key_states[key].value, loaded.stream.held_by(key, now)
            holds, since = holder is not None and holder.writer == self._name, loaded.held_since(key)
            ago = f", since {moment(since, now)}, for {span(now - since)}" if since is not None else ""
            rows.append(
                {
                    "id": key,
                    "name": key_label(key),
                    **writer_state(state),
                    "time": Times().show(time),
                    "lag": lag(time, now),
                    "holds": f"yes{ago}" if holds else "no",
                }
            )
        self._keys.show(rows)

    def _show_tiles(self, loaded: LoadedStream, writer: Writer, now: int) -> None:
        silent, timeout = loaded.stream.silent_ms(writer, now), loaded.stream.config.writer_timeout_ms
        in_play = not writer.closed and writer.excluded_at is None and not writer.lost
        letting = letting_go(None if timeout is None else max(0, timeout - silent)).removeprefix("let go ")
        late = loaded.counts.late_by_writer[self._name]
        refused = loaded.counts.refused_by_writer[self._name]
        since = "since this controller started"
        self._tiles["Last heard"].show(f"{span(max(0, now - writer.heard_at))} ago")
        self._tiles["Let go"].show(letting.removesuffix(" let go by itself") if in_play else "already")
        self._tiles["Epoch"].show(NOTHING if writer.epoch is None else str(writer.epoch))
        self._tiles["Late notes"].show(str(late), "sl-warn" if late else "", since)
        self._tiles["Refused"].show(str(refused), "sl-warn" if refused else "", since)
        self._tiles["Position"].show(offsets(loaded.stream.graph.frontier(writer.position)))

    def _note_row(self, each: tuple[str, KeptNote]) -> dict[str, Any]:
        key, entry = each
        return {
            "id": f"{key} {entry.time}",
            "key": key_label(key),
            "time": Times().show(entry.time),
            "position": offsets(self._graph.frontier(entry.cut)),
            "newest": Times().show(entry.newest),
        }

    async def _read_journal(self, now: int) -> None:
        journals = self._controller.journals
        if not self._news.has_come(await journals.last_of_stream(self._stream)):
            return
        of_topics = {self._refusals: (REFUSALS,), self._epochs: (REGISTRATIONS,), self._journal: ()}
        for shown, topics in of_topics.items():
            entries = await journals.newest_of_stream(self._stream, JOURNAL_SHOWN, topics=topics, writer=self._name)
            shown.show(entries, now)

    async def _ask_exclude(self) -> None:
        await actions.ask_exclude(self._controller, self._stream, self._name, self._who)

    async def _ask_include(self) -> None:
        await actions.ask_include(self._controller, self._stream, self._name, self._who)
