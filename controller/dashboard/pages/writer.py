"""The page of a writer: its state and time in each key, its notes, its refusals and its journal."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.cluster.records import Kind
from controller.controller import Controller
from controller.dashboard.actions import Acts
from controller.dashboard.dialogs import ask
from controller.dashboard.frame import Refresh, frame
from controller.dashboard.journal_cards import JournalCard, JournalNews
from controller.dashboard.labels import stream_link, writer_state
from controller.dashboard.limits import JOURNAL_READ, NOTES_SHOWN
from controller.dashboard.tables import STATE, Column, PagedTable, key_label
from controller.dashboard.visitors import Visitor, to_sign_in, visitor
from controller.dashboard.widgets import card, gone, heading, served_by, show_server, tiles
from controller.format import NOTHING, Times, lag, moment, offsets, span
from controller.records.journal import REFUSALS, REGISTRATIONS
from controller.status.status_view import StatusView, StatusViews
from controller.status.writer_status import WriterDetails, WriterKey, WriterNote
from strandline.errors import NotOwner, StrandlineError

_TILES = ("Last heard", "Times out", "Epoch", "Late notes", "Refused", "Position")


def add(app: FastAPI) -> None:
    @ui.page("/streams/{stream}/writers/{writer}")
    async def page(request: Request, stream: str, writer: str) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        statuses: StatusViews = app.state.status
        status = statuses.seen_by(who.viewer)
        with frame(request, who, writer):
            try:
                who.check(stream)
                await status.of_writer(stream, writer)
            except NotOwner:
                pass  # the page says so, and goes on when some controller serves the stream
            except StrandlineError as error:
                gone(error)
                return None
            view = WriterPage(app.state.controller, status, who, Acts(app, who), stream, writer)
            refresh = Refresh(view.update)
            view.build()
        await refresh.first()
        return None


class WriterPage:
    """The page of one visitor."""

    def __init__(
        self, controller: Controller, status: StatusView, who: Visitor, acts: Acts, stream: str, writer: str
    ) -> None:
        self._controller = controller
        self._status = status
        self._acts = acts
        self._who = who
        self._stream = stream
        self._name = writer
        self._news = JournalNews()

    def build(self) -> None:
        with ui.row().classes("items-center full-width").style("gap: 8px 12px"):
            with ui.column().style("gap: 0; min-width: 0"):
                with ui.row().classes("items-baseline").style("gap: 6px"):
                    ui.label("Writer of").classes("sl-soft")
                    ui.link(self._stream, stream_link(self._stream)).classes("sl-link")
                    self._server = served_by()
                heading(self._name, level=1)
            ui.space()
            if self._who.may_act:
                self._exclude = ui.button("Exclude", icon="block", on_click=self._ask_exclude)
                self._exclude.props("outline no-caps color=negative")
                self._include = ui.button("Include", icon="undo", on_click=self._ask_include)
                self._include.props("outline no-caps")
                self._close = ui.button("Close", icon="done", on_click=self._ask_close).props("outline no-caps")
        self._tiles = tiles(*_TILES)
        keys: list[Column[dict[str, Any]]] = [
            Column("name", "Time key"),
            Column("state", "State", html=STATE),
            Column("time", "Time", moment=True),
            Column("lag", "Lag", right=True),
            Column("holds", "Holds time back"),
        ]
        notes: list[Column[WriterNote]] = [
            Column("time", "Noted time", sort=lambda each: each.time, moment=True),
            Column("key", "Key", sort=lambda each: each.key, essential=False),
            Column("position", "Position"),
            Column("newest", "Newest event", sort=lambda each: each.newest, essential=False, moment=True),
        ]
        with card("Time"):
            self._keys = PagedTable(keys, noun="keys", row=dict, text=lambda row: row["name"], rows_per_page=10)
        with ui.element("div").classes("sl-two"):
            with card("Notes that a later mark can still need"):
                self._notes = PagedTable(
                    notes, noun="notes", row=self._note_row, text=lambda each: each.key, rows_per_page=10
                )
                self._no_notes = ui.label("None: marks have passed every note of this writer.").classes("sl-soft")
            self._refusals = JournalCard("Refusals", empty="No note of this writer was refused.")
            self._epochs = JournalCard("Registrations", empty="The journal has no registration of it.")
            self._journal = JournalCard("Journal of this writer", empty="The journal has no entry about it.")

    async def update(self) -> None:
        self._who.check(self._stream)
        now = self._controller.clock.now()
        show_server(self._server, self._status.served_by(Kind.STREAM, self._stream))
        details = await self._status.of_writer(self._stream, self._name)
        found = await self._status.of_streams((self._stream,))
        held_back = {key.key for stream in found.streams for key in stream.keys if key.held_back}
        await self._read_journal(details.last_entry, now)
        self._graph = details.graph
        self._show_keys(details, held_back)
        self._show_tiles(details)
        self._notes.show(details.notes[:NOTES_SHOWN])
        self._no_notes.set_visibility(not details.notes)
        if self._who.may_act:
            self._exclude.set_visibility(not details.excluded and not details.closed)
            self._include.set_visibility(details.excluded)
            self._close.set_visibility(not details.closed)

    def _show_keys(self, details: WriterDetails, held_back: Set[str]) -> None:
        """`held_back` are the keys that some writer holds back; marks wait also for one that keeps up."""
        rows = [
            {
                "id": each.key,
                "name": key_label(each.key),
                **writer_state(each.state),
                "time": Times().show(each.time),
                "lag": lag(each.time, details.seen_at),
                "holds": _holding(each, details.seen_at) if each.key in held_back else "no",
            }
            for each in details.keys
        ]
        self._keys.show(rows)

    def _show_tiles(self, details: WriterDetails) -> None:
        since = "since the stream was made"
        late, refused = details.late, details.refused
        self._tiles["Last heard"].show(f"{span(max(0, details.seen_at - details.heard_at))} ago")
        self._tiles["Times out"].show(_timeout(details))
        self._tiles["Epoch"].show(NOTHING if details.epoch is None else str(details.epoch))
        self._tiles["Late notes"].show(str(late), "sl-warn" if late else "", since)
        self._tiles["Refused"].show(str(refused), "sl-warn" if refused else "", since)
        self._tiles["Position"].show(offsets(details.graph.frontier(details.position)))

    def _note_row(self, each: WriterNote) -> dict[str, Any]:
        return {
            "id": f"{each.key} {each.time}",
            "key": key_label(each.key),
            "time": Times().show(each.time),
            "position": offsets(self._graph.frontier(each.position)),
            "newest": Times().show(each.newest),
        }

    async def _read_journal(self, last: int, now: int) -> None:
        journals = self._controller.journals
        if not self._news.has_come(last):
            return
        of_topics = {self._refusals: (REFUSALS,), self._epochs: (REGISTRATIONS,), self._journal: ()}
        for shown, topics in of_topics.items():
            entries = await journals.newest_of_stream(self._stream, JOURNAL_READ, topics=topics, writer=self._name)
            shown.show(entries, now)

    async def _ask_exclude(self) -> None:
        await ask(self._acts.exclude(self._stream, self._name))

    async def _ask_include(self) -> None:
        await ask(self._acts.include(self._stream, self._name))

    async def _ask_close(self) -> None:
        await ask(self._acts.close(self._stream, self._name))


def _holding(key: WriterKey, now: int) -> str:
    """Whether it holds back a key that some writer does, and since when."""
    if not key.holds:
        return "no"
    since = key.held_since
    return "yes" if since is None else f"yes, since {moment(since, now)}, for {span(now - since)}"


def _timeout(details: WriterDetails) -> str:
    """When it times out if nothing more is heard of it."""
    if not details.counts:
        return NOTHING
    if details.times_out_in_ms is None:
        return "never"
    return f"in {span(details.times_out_in_ms)}" if details.times_out_in_ms else "now"
