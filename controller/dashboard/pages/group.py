"""The page of a reader group: its windows, its readers with their positions, and its backlog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.cluster.records import Kind
from controller.controller import Controller
from controller.dashboard.actions import Acts
from controller.dashboard.dialogs import ask, ask_about
from controller.dashboard.frame import Refresh, frame
from controller.dashboard.journal_cards import JournalCard, JournalNews
from controller.dashboard.labels import stream_link
from controller.dashboard.limits import GROUP_JOURNAL_READ, NAMED_WRITERS
from controller.dashboard.pages.overview import group_lag
from controller.dashboard.tables import LINKED, Column, PagedTable, key_label
from controller.dashboard.visitors import Visitor, to_sign_in, visitor
from controller.dashboard.widgets import (
    SMALL,
    card,
    curl,
    empty_state,
    gone,
    heading,
    served_by,
    show_server,
    tiles,
)
from controller.format import NOTHING, Times, is_epoch, moment, named, span, yes
from controller.status.group_members import GroupMembers, ReaderStatus
from controller.status.status_view import StatusView, StatusViews
from controller.status.stream_status import GroupStatus
from strandline.core.order import SegmentRef
from strandline.errors import NotOwner, StrandlineError
from strandline.wire.groups import KeyWindow, StreamWindow

_TILES = ("Lag", "Backlog", "Threshold", "Readers")
_BACKLOG = ("backlog", "caught_up")
_OFFLINE = """<q-btn label="Take offline" flat dense no-caps no-wrap color="negative" style="overflow-wrap: normal"
:aria-label="'Take ' + props.row.name + ' offline'" @click="$emit('act', props.row.name)"></q-btn>"""


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


def add(app: FastAPI) -> None:
    @ui.page("/reader-groups/{group}")
    async def page(request: Request, group: str) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        statuses: StatusViews = app.state.status
        status = statuses.seen_by(who.viewer)
        with frame(request, who, group):
            try:
                who.check(*(await status.of_group(group)).group.window.streams)
            except NotOwner:
                pass  # the page says so, and goes on when some controller serves it
            except StrandlineError as error:
                gone(error)
                return None
            view = GroupPage(app.state.controller, status, who, Acts(app, who), group)
            refresh = Refresh(view.update)
            view.build(str(request.base_url).rstrip("/"))
        await refresh.first()
        return None


class GroupPage:
    """The page of one visitor."""

    def __init__(self, controller: Controller, status: StatusView, who: Visitor, acts: Acts, group: str) -> None:
        self._controller = controller
        self._acts = acts
        self._status = status
        self._who = who
        self._name = group
        self._since = ""  # since when it is in backlog, or is not
        self._news = JournalNews()
        self._offsets: Mapping[SegmentRef, int] = {}
        self._owners: Mapping[SegmentRef, str] = {}
        self._sorted: list[SegmentRef] = []

    def build(self, base: str) -> None:
        with ui.row().classes("items-center full-width").style("gap: 8px 12px"):
            with ui.column().style("gap: 0; min-width: 0"):
                ui.label("Reader group").classes("sl-soft")
                heading(self._name, level=1)
                self._server = served_by()
            ui.space()
            if self._who.may_act:
                ui.button("Change", icon="tune", on_click=self._ask_change).props(SMALL)
                ui.button("Delete", icon="delete", on_click=self._ask_delete).props(SMALL).props("color=negative")
        self._tiles = tiles(*_TILES)
        with card("Windows against the marks"):
            self._windows = PagedTable(
                _window_columns(), noun="streams", row=_window_row, text=lambda each: each.stream, rows_per_page=10
            )
        with ui.element("div").classes("sl-two"):
            with card("Readers"):
                readers = _reader_columns()
                if self._who.may_act:
                    readers.append(Column("act", "Action", html=_OFFLINE))
                self._readers = PagedTable(
                    readers,
                    noun="readers",
                    row=_reader_row,
                    text=lambda each: each.name,
                    rows_per_page=10,
                    act=self._ask_offline,
                )
                url = f"{base}/v1/reader-groups/{self._name}/readers/r1"
                command = curl(self._who, "PUT", url, {"positions": {}})
                self._no_readers = empty_state("person_search", "No reader is registered:", command)
            with card("Positions"):
                places: list[Column[SegmentRef]] = [
                    Column("name", "Segment", sort=_place_name),
                    Column("offset", "Read up to", sort=self._offset, right=True),
                    Column("owner", "Owned by", sort=self._owner),
                ]
                self._places = PagedTable(
                    places, noun="segments", row=self._place_row, text=_place_name, rows_per_page=10
                )
                self._no_places = ui.label("No position is known yet.").classes("sl-soft")
            self._backlog = JournalCard("Backlog changes", empty="Its backlog has not changed.")
            self._journal = JournalCard()

    async def update(self) -> None:
        now = self._controller.clock.now()
        show_server(self._server, self._status.served_by(Kind.GROUP, self._name))
        details = await self._status.of_group(self._name)
        look = details.group
        self._who.check(*look.window.streams)
        await self._read_journal(details.last_entry, now)
        self._show_tiles(look)
        self._windows.show(await self._windows_of(look))
        self._show_members(details.members)

    async def _read_journal(self, last: int, now: int) -> None:
        if not self._news.has_come(last):
            return
        entries = await self._controller.journals.newest_of_group(self._name, GROUP_JOURNAL_READ)
        changes = [each for each in entries if each.kind in _BACKLOG]
        self._backlog.show(changes, now)
        self._journal.show(entries, now)
        self._since = f"since {moment(changes[-1].at, now)}" if changes else ""

    def _show_tiles(self, look: GroupStatus) -> None:
        backlog, lag_ms, since = look.window.backlog, look.window.lag_ms, self._since
        if not backlog and look.threshold_ms is not None and lag_ms is not None and lag_ms > look.threshold_ms:
            since = f"{since}; a group that has caught up stays so until it is idle".removeprefix("; ")
        self._tiles["Lag"].show(group_lag(look))
        self._tiles["Backlog"].show(yes(backlog), "sl-bad" if backlog else "sl-good", since)
        self._tiles["Threshold"].show("none" if look.threshold_ms is None else span(look.threshold_ms))
        self._tiles["Readers"].show(str(look.readers))

    async def _windows_of(self, look: GroupStatus) -> list[_WindowOf]:
        read = await self._status.of_streams(look.window.streams)
        newest = {(each.name, key.key): key.mark.time for each in read.streams for key in each.keys if key.mark}
        found = []
        for stream, window in look.window.streams.items():
            for key, bounds in sorted(window.keys.items()):
                if key == "" and len(window.keys) > 1 and bounds.lower is None and bounds.upper is None:
                    continue  # nobody uses it
                idle = stream in look.window.idle
                found.append(_WindowOf(stream, key, bounds, window, newest.get((stream, key)), idle))
        return found

    def _show_members(self, members: GroupMembers) -> None:
        self._readers.show(members.readers)
        self._no_readers.set_visibility(not members.readers)
        self._offsets, self._owners = members.offsets, members.owners
        places = members.offsets.keys() | members.owners.keys()
        if places != set(self._sorted):  # there may be very many, and they are seldom others
            self._sorted = sorted(places)
        self._places.show(self._sorted)
        self._no_places.set_visibility(not places)

    async def _ask_change(self) -> None:
        await ask_about(self._acts.configure_group(self._name))

    async def _ask_delete(self) -> None:
        await ask(self._acts.delete_group(self._name))

    async def _ask_offline(self, reader: str) -> None:
        await ask(self._acts.take_offline(self._name, reader))

    def _offset(self, place: SegmentRef) -> int:
        return self._offsets.get(place, 0)

    def _owner(self, place: SegmentRef) -> str:
        return self._owners.get(place, "nobody")

    def _place_row(self, place: SegmentRef) -> dict[str, Any]:
        name = _place_name(place)
        return {"id": name, "name": name, "offset": self._offset(place), "owner": self._owner(place)}


def _window_columns() -> list[Column[_WindowOf]]:
    return [
        Column("name", "Stream", sort=lambda each: each.stream, html=LINKED),
        Column("key", "Key", sort=lambda each: each.key, essential=False),
        Column("lower", "Read up to", sort=lambda each: each.bounds.lower, moment=True),
        Column("upper", "Upper", sort=lambda each: each.bounds.upper, essential=False, moment=True),
        Column("newest", "Newest mark", sort=lambda each: each.newest, essential=False, moment=True),
        Column("behind", "Behind the marks", sort=lambda each: each.behind, right=True),
        Column("complete", "Complete", sort=lambda each: each.bounds.complete, essential=False),
    ]


def _window_row(each: _WindowOf) -> dict[str, Any]:
    dated = each.newest is not None and is_epoch(each.newest)
    state = " (at its end)" if each.whole.end_of_stream else " (idle)" if each.idle else ""
    return {
        "id": f"{each.stream} {each.key}",
        "name": each.stream + state,
        "link": stream_link(each.stream),
        "key": key_label(each.key),
        "lower": Times().show(each.bounds.lower),
        "upper": Times().show(each.bounds.upper),
        "newest": Times().show(each.newest),
        "behind": NOTHING if each.behind is None else span(each.behind) if dated else str(each.behind),
        "complete": yes(each.bounds.complete),
    }


def _reader_columns() -> list[Column[ReaderStatus]]:
    return [
        Column("name", "Reader", sort=lambda each: each.name),
        Column("heard", "Last heard", sort=lambda each: each.silent_ms, right=True),
        Column("segments", "Segments", sort=lambda each: -len(each.segments) or None),
        Column("epoch", "Epoch", sort=lambda each: each.epoch, right=True, essential=False),
    ]


def _reader_row(each: ReaderStatus) -> dict[str, Any]:
    return {
        "id": each.name,
        "name": each.name,
        "heard": f"{span(each.silent_ms)} ago",
        "segments": named([_place_name(place) for place in each.segments], NAMED_WRITERS) or NOTHING,
        "epoch": each.epoch,
    }


def _place_name(place: SegmentRef) -> str:
    return "/".join(place)
