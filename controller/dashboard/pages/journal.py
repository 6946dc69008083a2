"""The page of the journal of all streams, with search and filter."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.controller import Controller
from controller.dashboard.frame import JOURNAL, Refresh, frame
from controller.dashboard.journal_cards import WHEN, entry_row
from controller.dashboard.labels import stream_link
from controller.dashboard.limits import FILTER_CHARACTERS, JOURNALS_READ, JOURNALS_REFRESH_MS, JOURNALS_REST
from controller.dashboard.ranges import RangePicker
from controller.dashboard.tables import Column, PagedTable, keep
from controller.dashboard.visitors import Visitor, to_sign_in, visitor
from controller.dashboard.widgets import heading
from controller.format import NOTHING
from controller.limits import JOURNAL_WORDS
from controller.storage.journal import StoredEntry, Wanted
from strandline.access import EVERYTHING
from strandline.wire.journal import TOPICS

_ALL: Final = "all"
_TOPICS: Final = {
    "refusal": "refusals",
    "state": "states of writers",
    "held": "who held time back",
    "holding": "who began to",
    "pause": "pauses",
    "incomplete": "incomplete marks",
    "registration": "registrations",
    "action": "actions",
}
_STREAM: Final = '<a :href="props.row.link">{{ props.row.stream }}</a>'
_Told = tuple[str, StoredEntry]  # an entry and its stream


def add(app: FastAPI) -> None:
    @ui.page(JOURNAL)
    async def page(request: Request) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        with frame(request, who, "Journal"):
            view = WholeJournalPage(app.state.controller, who)
            refresh = Refresh(view.update)
            view.build(request)
        await refresh.first()
        return None


class WholeJournalPage:
    """The page of one visitor."""

    def __init__(self, controller: Controller, who: Visitor) -> None:
        self._controller = controller
        self._who = who
        self._now = 0
        self._next_read = 0

    def build(self, request: Request) -> None:
        given = request.query_params
        topic = given.get("topic", _ALL)
        with ui.column().classes("sl-card"):
            heading("Journal of all streams", level=1)
            with ui.row().classes("items-center full-width").style("gap: 8px 12px"):
                self._search = (
                    ui.input(placeholder="Search names, kinds and values", value=given.get("search", ""))
                    .props(f'dense outlined clearable debounce=300 maxlength={FILTER_CHARACTERS} aria-label="Search"')
                    .style("flex: 1; min-width: 200px; max-width: 420px")
                )
                topics = {_ALL: "all topics", **{each: _TOPICS[each] for each in TOPICS}}
                self._topic = ui.select(topics, value=topic if topic in topics else _ALL, label="Topic")
                self._topic.props("dense outlined").style("min-width: 180px")
                self._range = RangePicker(_ALL, self._read, self._controller.clock.now)
            self._search.on_value_change(self._turn)
            self._topic.on_value_change(self._turn)
            columns: list[Column[_Told]] = [
                Column("when", "When", sort=lambda told: told[1].at, html=WHEN),
                Column("stream", "Stream", sort=lambda told: told[0], html=_STREAM),
                Column("what", "What happened"),
                Column("by", "By", sort=lambda told: told[1].by, essential=False),
            ]
            self._table = PagedTable(columns, noun="entries", row=self._row, text=lambda _: "", filters=False)
            self._empty = ui.label().classes("sl-soft")

    async def update(self) -> None:
        self._who.check()
        if self._controller.clock.now() >= self._next_read:
            await self._read()

    async def _read(self) -> None:
        """Reads the journals, and again in a while: the longer it takes, the later."""
        self._who.check()
        began = self._now = self._controller.clock.now()
        words = tuple((self._search.value or "").split())[:JOURNAL_WORDS]
        topics = () if self._topic.value == _ALL else (self._topic.value,)
        pattern = EVERYTHING if self._who.grant is None else self._who.grant.pattern
        since, until = self._range.since(began), self._range.until(began)
        end = None if until == began else until
        wanted = Wanted(patterns=(pattern,), topics=topics, words=words, since=since, until=end)
        found = (await self._controller.journals.of_all(wanted, None, JOURNALS_READ)).entries
        ended = self._controller.clock.now()
        self._next_read = ended + max(JOURNALS_REFRESH_MS, JOURNALS_REST * (ended - began))
        self._table.show(found)
        chosen = words or topics or not self._range.is_all
        self._empty.set_text("Nothing in the journals fits." if chosen else "Nothing has happened yet.")
        self._empty.set_visibility(not found)

    def _row(self, told: _Told) -> dict[str, Any]:
        stream, entry = told
        return {
            **entry_row(entry, self._now),
            "id": f"{stream} {entry.seq}",
            "stream": stream,
            "link": stream_link(stream),
            "by": entry.by or NOTHING,
        }

    async def _turn(self) -> None:
        topic = self._topic.value
        keep(ui.context.client, {"search": self._search.value or None, "topic": None if topic == _ALL else topic})
        await self._read()
