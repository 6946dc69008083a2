"""The page of the controllers that serve the store."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.controller import Controller
from controller.dashboard.actions import Acts
from controller.dashboard.dialogs import ask
from controller.dashboard.frame import CONTROLLERS, Refresh, frame
from controller.dashboard.tables import STATE, Column, PagedTable
from controller.dashboard.visitors import Visitor, to_sign_in, visitor
from controller.dashboard.widgets import heading, not_allowed
from controller.format import NOTHING, moment, span
from strandline.errors import StrandlineError
from strandline.wire.controllers import ControllerReply, ControllerState

_DRAIN: Final = """<q-btn v-if="props.row.may_drain" label="Drain" flat dense no-caps color="negative"
:aria-label="'Drain ' + props.row.name" @click="$emit('act', props.row.name)"></q-btn>"""
_COLOURS: Final = {
    ControllerState.LIVE: "sl-good",
    ControllerState.DRAINING: "sl-warn",
    ControllerState.NO_LEASE: "sl-bad",
    ControllerState.ENDED: "sl-soft",
}


def add(app: FastAPI) -> None:
    @ui.page(CONTROLLERS)
    async def page(request: Request) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        with frame(request, who, "Controllers"):
            try:
                who.check_every_stream()
            except StrandlineError as error:
                not_allowed(error)
                return None
            view = ControllersPage(app.state.controller, who, Acts(app, who))
            refresh = Refresh(view.update)
            view.build()
        await refresh.first()
        return None


class ControllersPage:
    """The page of one visitor."""

    def __init__(self, controller: Controller, who: Visitor, acts: Acts) -> None:
        self._controller = controller
        self._who = who
        self._acts = acts

    def build(self) -> None:
        with ui.column().classes("sl-card"):
            heading("Controllers", level=1)
            self._seen_by = ui.label().classes("sl-soft")
            self._table = PagedTable(
                self._columns(), noun="controllers", row=self._row, text=lambda each: each.name or "", act=self._ask
            )

    async def update(self) -> None:
        self._who.check_every_stream()
        found = self._controller.controllers()
        alone = "One controller serves this store, alone."
        several = f"As {found.asked} sees them. Each serves the streams and reader groups of its shards."
        self._seen_by.set_text(alone if found.asked is None else several)
        self._table.show(found.controllers)

    def _columns(self) -> list[Column[ControllerReply]]:
        columns: list[Column[ControllerReply]] = [
            Column("name", "Name", sort=lambda each: each.name),
            Column("state", "State", sort=lambda each: each.state, html=STATE),
            Column("since", "Since", sort=lambda each: each.since, essential=False),
            Column("shards", "Shards", sort=lambda each: each.shards, right=True),
            Column("beat", "Last beat", sort=lambda each: each.beat_age_ms, right=True),
            Column("version", "Version", sort=lambda each: each.version, essential=False),
            Column("address", "Address", sort=lambda each: each.address, essential=False),
        ]
        return [*columns, Column("act", "Action", html=_DRAIN)] if self._who.may_act else columns

    def _row(self, each: ControllerReply) -> dict[str, Any]:
        return {
            "id": each.name or "",
            "name": each.name or "this one",
            "state": each.state.replace("_", " "),
            "state_class": _COLOURS[each.state],
            "since": moment(each.since, self._controller.clock.now()),
            "shards": NOTHING if each.shards is None else each.shards,
            "beat": NOTHING if each.beat_age_ms is None else f"{span(each.beat_age_ms)} ago",
            "version": each.version,
            "address": each.address or NOTHING,
            "may_drain": each.name is not None and each.state is ControllerState.LIVE,
        }

    async def _ask(self, name: str) -> None:
        await ask(self._acts.drain(name))
