"""The page of the topology: from the writers of all streams to their reader groups, and on to what those write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.dashboard.frame import TOPOLOGY, Refresh, frame
from controller.dashboard.tables import Column, PagedTable
from controller.dashboard.topology import Flows, lines, picture
from controller.dashboard.visitors import Visitor, to_sign_in, visitor
from controller.dashboard.widgets import heading
from controller.status.overview import Overview
from controller.status.status_view import StatusView, StatusViews
from controller.status.stream_status import StreamStatus

_PICTURE: Final = '<div v-html="props.row.picture"></div>'  # of names that are escaped


def add(app: FastAPI) -> None:
    @ui.page(TOPOLOGY)
    async def page(request: Request) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        statuses: StatusViews = app.state.status
        with frame(request, who, "Topology"):
            view = TopologyPage(statuses.seen_by(who.viewer), who)
            refresh = Refresh(view.update)
            view.build()
        await refresh.first()
        return None


class TopologyPage:
    """The page of one visitor."""

    def __init__(self, status: StatusView, who: Visitor) -> None:
        self._status = status
        self._who = who
        self._look: Overview | None = None
        self._flows = Flows((), ())

    def build(self) -> None:
        with ui.column().classes("sl-card"):
            heading("Topology", level=1)
            ui.label(
                "From writers to streams, and on to the reader groups that read them. A group leads on to the "
                "streams that a writer with the group's name writes."
            ).classes("sl-soft")
            columns: list[Column[StreamStatus]] = [
                Column("picture", "Writers, streams, reader groups", html=_PICTURE),
            ]
            self._table = PagedTable(columns, noun="flows", row=self._row, text=self._text, rows_per_page=10)
            self._empty = ui.label("There is no stream yet.").classes("sl-soft")
            self._unknown = ui.label().classes("sl-warn")

    async def update(self) -> None:
        self._who.check()
        look = await self._status.overview()
        if look is self._look:
            return  # nothing else would come out
        self._look = look
        streams = [each for each in look.streams if self._who.may_see(each.name)]
        unread = sum(self._who.may_see(name) for name in look.unread)
        self._flows = Flows(streams, look.groups.allowed(self._who.may_see).groups)
        self._unknown.set_text(f"{unread:,} more are not known at this moment")
        self._unknown.set_visibility(bool(unread))
        self._empty.set_visibility(not streams and not unread)
        self._table.show(self._flows.roots())

    def _row(self, stream: StreamStatus) -> Mapping[str, Any]:
        box = self._flows.stream_box(stream)
        return {
            "id": stream.name,
            "picture": picture(self._flows.counted_sources(stream), box),
            "picture_text": "; ".join(lines(box)),
        }

    def _text(self, stream: StreamStatus) -> str:
        return " ".join(self._flows.names(stream))
