"""A reader group: who reads what, how far, and how far that is behind."""

from __future__ import annotations

from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.dashboard.frame import Refresh, empty_state, frame
from controller.dashboard.limits import JOURNAL_SHOWN, NAMED_WRITERS
from controller.dashboard.pages.stream import gone
from controller.dashboard.stories import JournalList
from controller.dashboard.tables import Column, PagedTable, key_label
from controller.dashboard.visiting import Visitor, to_sign_in, visitor
from controller.services.controller import Controller
from controller.services.live_group import LiveGroup
from controller.services.overview import GroupLook
from controller.wording import NOTHING, Times, span, yes
from strandline.errors import StrandlineError

_WINDOW_COLUMNS: Final = (
    Column("name", "Stream", html='<a :href="props.row.link">{{ props.row.name }}</a>'),
    Column("key", "Key"),
    Column("lower", "Lower"),
    Column("upper", "Upper"),
    Column("behind", "Behind the marks", sort="behind_ms", right=True),
    Column("complete", "Complete", essential=False),
)
_READER_COLUMNS: Final = (
    Column("name", "Reader"),
    Column("heard", "Last heard", sort="silent_ms", right=True),
    Column("segments", "Segments"),
    Column("epoch", "Epoch", right=True, essential=False),
)
_PLACE_COLUMNS: Final = (
    Column("name", "Segment"),
    Column("offset", "Read up to", right=True),
    Column("owner", "Owned by"),
)
FIRST_READER: Final = (
    "curl -X PUT {base}/v1/reader-groups/{group}/readers/r1 -H 'content-type: application/json' "
    """-d '{{"positions": {{}}}}'"""
)


def add(app: FastAPI) -> None:
    @ui.page("/reader-groups/{group}")
    async def page(request: Request, group: str) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        controller: Controller = app.state.controller
        with frame(request, who, group):
            try:
                who.check(*(await controller.groups.get(group)).membership.settings.streams)
            except StrandlineError as error:
                gone(error)
                return None
            view = GroupView(controller, who, group, str(request.base_url).rstrip("/"))
            refresh = Refresh(view.update)
            view.build()
        await refresh.now()
        return None


class GroupView:
    """The page of one visitor."""

    def __init__(self, controller: Controller, who: Visitor, group: str, base: str) -> None:
        self._controller = controller
        self._who = who
        self._name = group
        self._base = base

    def build(self) -> None:
        with ui.column().style("gap: 0"):
            ui.label("Reader group").classes("sl-soft")
            ui.label(self._name).classes("sl-title").props("role=heading aria-level=1")
        with ui.element("div").classes("sl-tiles"):
            self._facts = {name: _fact(name) for name in ("Lag", "Backlog", "Threshold", "Readers")}
        with ui.column().classes("sl-card"):
            ui.label("Windows").classes("sl-h").props("role=heading aria-level=2")
            self._windows = PagedTable(_WINDOW_COLUMNS, noun="streams", rows_per_page=10)
        with ui.element("div").classes("sl-two"):
            with ui.column().classes("sl-card"):
                ui.label("Readers").classes("sl-h").props("role=heading aria-level=2")
                self._readers = PagedTable(_READER_COLUMNS, noun="readers", rows_per_page=10)
                with ui.column().classes("w-full") as self._no_readers:
                    empty_state(
                        "person_search",
                        "No reader is registered:",
                        FIRST_READER.format(base=self._base, group=self._name),
                    )
            with ui.column().classes("sl-card"):
                ui.label("Positions").classes("sl-h").props("role=heading aria-level=2")
                self._places = PagedTable(_PLACE_COLUMNS, noun="segments", rows_per_page=10)
        with ui.column().classes("sl-card"):
            ui.label("Journal").classes("sl-h").props("role=heading aria-level=2")
            self._journal = JournalList()

    async def update(self) -> None:
        now = self._controller.clock.now()
        self._who.check(*(await self._controller.groups.get(self._name)).membership.settings.streams)
        look = await self._controller.overview.of_group(self._name)
        live = await self._controller.groups.get(self._name)
        self._show_facts(look)
        self._windows.show(_window_rows(look))
        self._show_members(live, now)
        self._journal.show(await self._controller.journals.newest_of_group(self._name, JOURNAL_SHOWN))

    def _show_facts(self, look: GroupLook) -> None:
        window = look.window
        facts = {
            "Lag": NOTHING if window.lag_ms is None else span(window.lag_ms),
            "Backlog": yes(window.backlog),
            "Threshold": "none" if look.threshold_ms is None else span(look.threshold_ms),
            "Readers": str(look.readers),
        }
        for name, text in facts.items():
            self._facts[name].set_text(text)
        self._facts["Backlog"].classes(remove="sl-bad sl-good", add="sl-bad" if window.backlog else "sl-good")

    def _show_members(self, live: LiveGroup, now: int) -> None:
        members = live.membership
        owned: dict[str, list[str]] = {}
        for (stream, segment), owner in sorted(members.owners.items()):
            owned.setdefault(owner, []).append(f"{stream}/{segment}")
        rows: list[dict[str, Any]] = []
        for name, reader in sorted(members.readers.items()):
            own = owned.get(name, [])
            more = f" and {len(own) - NAMED_WRITERS} more" if len(own) > NAMED_WRITERS else ""
            rows.append(
                {
                    "id": name,
                    "name": name,
                    "epoch": reader.epoch,
                    "heard": f"{span(max(0, now - reader.heard_at))} ago",
                    "silent_ms": now - reader.heard_at,
                    "segments": (", ".join(own[:NAMED_WRITERS]) + more) or NOTHING,
                }
            )
        self._readers.show(rows)
        self._no_readers.set_visibility(not rows)
        places = sorted(set(members.offsets) | set(members.owners))
        self._places.show(
            {
                "id": f"{stream}/{segment}",
                "name": f"{stream}/{segment}",
                "offset": members.offsets.get((stream, segment), 0),
                "owner": members.owners.get((stream, segment), "nobody"),
            }
            for stream, segment in places
        )


def _window_rows(look: GroupLook) -> list[dict[str, Any]]:
    rows = []
    for stream, window in look.window.streams.items():
        for key, bounds in sorted(window.keys.items()):
            if key == "" and len(window.keys) > 1 and bounds.lower is None and bounds.upper is None:
                continue  # nobody uses it
            rows.append(
                {
                    "id": f"{stream} {key}",
                    "name": stream + (" (idle)" if stream in look.window.idle else ""),
                    "link": f"/streams/{stream}",
                    "key": key_label(key),
                    "lower": Times().show(bounds.lower),
                    "upper": Times().show(bounds.upper),
                    "behind": NOTHING if window.behind_ms is None else span(window.behind_ms),
                    "behind_ms": window.behind_ms,
                    "complete": yes(bounds.complete),
                }
            )
    return rows


def _fact(name: str) -> ui.label:
    with ui.column().classes("sl-card").style("gap: 2px"):
        text = ui.label(NOTHING).style("font-size: 18px; font-weight: 650; overflow-wrap: anywhere")
        ui.label(name).classes("sl-soft")
    return text
