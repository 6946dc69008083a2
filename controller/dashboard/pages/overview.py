"""The page of the overview: the streams in trouble, and the writers that are the cause."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.dashboard.actions import Acts
from controller.dashboard.dialogs import ask
from controller.dashboard.frame import Refresh, frame
from controller.dashboard.labels import (
    COLOURS,
    EDGES,
    group_link,
    in_trouble,
    is_held_back,
    lag_of,
    rate,
    silent_for,
    state_of,
    still_story,
    stream_link,
    writer_link,
)
from controller.dashboard.limits import ATTENTION_STREAMS
from controller.dashboard.tables import LINKED, STATE, Column, PagedTable, key_label
from controller.dashboard.visitors import Visitor, to_sign_in, visitor
from controller.dashboard.widgets import card, curl, empty_state, heading, tiles
from controller.format import NOTHING, Times, counts, holding, is_epoch, lag, span
from controller.status.overview import GroupsFound, Overview
from controller.status.status_view import StatusView, StatusViews
from controller.status.stream_status import GroupStatus, KeyStatus, StreamStatus
from controller.status.unread_text import why_unread
from strandline.errors import StreamLoading

_HOLDER: Final = """<a v-if="props.row.holder" :href="props.row.holder_link">{{ props.row.holder }}</a>
<span class="sl-soft" style="margin-left: 6px">{{ props.row.held }}</span>"""
_STREAM: Final = f"""{LINKED}
<span class="sl-soft" style="display: block">{{{{ props.row.server }}}}</span>"""
_TILES: Final = ("Streams", "Standing still", "Incomplete", "Groups in backlog")


def add(app: FastAPI) -> None:
    @ui.page("/")
    async def page(request: Request) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        statuses: StatusViews = app.state.status
        with frame(request, who, "Overview"):
            view = OverviewPage(statuses.seen_by(who.viewer), who, Acts(app, who))
            refresh = Refresh(view.update)
            view.build(str(request.base_url).rstrip("/"))
            refresh.trouble = view.trouble
        await refresh.first()
        return None


class OverviewPage:
    """The page of one visitor."""

    def __init__(self, status: StatusView, who: Visitor, acts: Acts) -> None:
        self._status = status
        self._acts = acts
        self._who = who
        self._served_by: Mapping[str, str] = {}
        self._look: Overview | None = None
        self._urgent: list[tuple[Any, ...]] = []
        self._lines: list[ui.label] = []
        self._trouble = ""

    def build(self, base: str) -> None:
        heading("Overview", level=1).classes(add="sl-heard", remove="sl-title")
        self._tiles = tiles(*_TILES, large=True)
        self._attention = ui.column().classes("full-width").style("gap: 12px")
        with card("Streams"):
            self._corner("Create a stream", self._ask_stream)
            self._loading = ui.label().classes("sl-soft")
            self._streams = PagedTable(_stream_columns(), noun="streams", row=self._stream_row, text=_stream_text)
            command = curl(self._who, "PUT", f"{base}/v1/streams/orders", {"segments": 3})
            self._no_streams = empty_state("waves", "There is no stream yet. Create one:", command)
        with card("Not known") as self._unknown_card:
            ui.label(
                "There is no status of these at this moment, so that it is not known whether they are fine."
            ).classes("sl-warn")
            self._unknown = PagedTable(_unknown_columns(), noun="names", row=_unknown_row, text=_unknown_text)
        with card("Reader groups"):
            self._corner("Create a reader group", self._ask_group)
            self._groups = PagedTable(_group_columns(), noun="groups", row=_group_row, text=_group_text)
            settings = {"streams": ["orders"], "backlog_threshold_ms": 60_000}
            command = curl(self._who, "PUT", f"{base}/v1/reader-groups/billing", settings)
            self._no_groups = empty_state("groups", "There is no reader group yet. Create one:", command)

    async def update(self) -> None:
        self._who.check()
        look = await self._status.overview()
        if look is self._look:
            return  # nothing else would come out
        self._look, self._served_by = look, look.served_by
        streams: Sequence[StreamStatus] = look.streams
        unread = look.unread
        if self._who.grant is not None:
            streams = [each for each in streams if self._who.may_see(each.name)]
            unread = {name: code for name, code in unread.items() if self._who.may_see(name)}
        found = look.groups.allowed(self._who.may_see)
        groups = found.groups
        loading = sum(code == StreamLoading.code for code in unread.values())
        unknown = _unknown(unread, found, look.served_by)
        self._trouble = in_trouble(each.state for each in streams)
        self._show_tiles(streams, groups, len(unread), len(found.unread))
        self._show_attention([each for each in streams[:ATTENTION_STREAMS] if each.state.stands_still])
        self._streams.show(streams)
        self._groups.show(groups)
        self._no_streams.set_visibility(not streams and not unread)
        self._no_groups.set_visibility(not groups and not found.unread)
        self._loading.set_text(f"{loading} more are being read from the store")
        self._loading.set_visibility(bool(loading))
        self._unknown.show(unknown)
        self._unknown_card.set_visibility(bool(unknown))

    def trouble(self) -> str:
        """What is wrong with the streams, for the title."""
        return self._trouble

    def _corner(self, name: str, act: Callable[[], Awaitable[None]]) -> None:
        """A button at the top right of a card, for visitors who may act."""
        if self._who.may_act:
            ui.button(name, icon="add", on_click=act).props("flat no-caps dense").classes("sl-corner")

    async def _ask_stream(self) -> None:
        await ask(self._acts.create_stream())

    async def _ask_group(self) -> None:
        await ask(self._acts.create_group())

    def _stream_row(self, look: StreamStatus) -> dict[str, Any]:
        controller = self._served_by.get(look.name)
        return {**_stream_row(look), "server": f"served by {controller}" if controller is not None else ""}

    def _show_tiles(
        self, streams: Sequence[StreamStatus], groups: Sequence[GroupStatus], unread: int, unread_groups: int
    ) -> None:
        """The numbers of what is known, and how much is not."""
        numbers = {
            "Standing still": sum(each.state.stands_still for each in streams),
            "Incomplete": sum(any(key.excluded for key in each.keys) and not each.sealed for each in streams),
            "Groups in backlog": sum(each.window.backlog for each in groups),
        }
        self._tiles["Streams"].show(f"{len(streams) + unread:,}", more=_without_status(unread))
        for name, number in numbers.items():
            bad = "sl-warn" if name == "Incomplete" else "sl-bad"
            missing = unread_groups if name == "Groups in backlog" else unread
            good = "" if missing else "sl-good"
            self._tiles[name].show(f"{number:,}", bad if number else good, _without_status(missing))

    def _show_attention(self, looks: Sequence[StreamStatus]) -> None:
        """Shows a large line for each held stream. The lines are rebuilt only when the streams or writers change."""
        about: list[tuple[Any, ...]] = [(each.name, _holder_of(each), each.state) for each in looks]
        if about != self._urgent:
            self._urgent = about
            self._attention.clear()
            with self._attention:
                self._lines = [_attention_card(each) for each in looks]
        self._attention.set_visibility(bool(looks))
        for look, line in zip(looks, self._lines if looks else [], strict=True):
            line.set_text(still_story(look))


def _attention_card(look: StreamStatus) -> ui.label:
    bad = COLOURS[look.state]
    worst = look.worst
    with ui.row().classes(f"sl-card items-center no-wrap {EDGES[bad]}").style("gap: 14px"):
        ui.icon("error" if bad == "sl-bad" else "hourglass_top", size="26px").classes(bad)
        with ui.column().style("gap: 0; flex: 1; min-width: 0"):
            with ui.row().classes("items-baseline").style("gap: 0 6px"):
                ui.link(look.name, stream_link(look.name)).classes("sl-link")
                if worst.key:
                    ui.label(f"key {worst.key}").classes("sl-soft")
                holder = _holder_of(look)
                waits = "" if holder is None else ", and waits for"
                ui.label("is held back by" if is_held_back(look.worst) else f"is {look.state.text}{waits}")
                if holder is not None:
                    ui.link(holder, writer_link(look.name, holder)).classes("sl-link")
            return ui.label().classes("sl-soft")


def _holder_of(look: StreamStatus) -> str | None:
    holder = look.worst.holder
    return holder.writer if holder is not None else None


def _stream_columns() -> list[Column[StreamStatus]]:
    return [
        Column("state", "State", sort=_calmness, html=STATE),
        Column("name", "Stream", sort=lambda look: look.name, html=_STREAM),
        Column("lag", "Lag", sort=lambda look: look.lag_ms, right=True),
        Column("held", "Held by", sort=_silence, html=_HOLDER),
        Column("time", "Time", sort=lambda look: look.time, essential=False, moment=True),
        Column("rate", "Marks/s", sort=_rate, right=True, essential=False),
        Column("writers", "Writers", sort=lambda look: -sum(look.writers.values()), essential=False),
    ]


class _Unknown(NamedTuple):
    """A stream or a reader group without a status."""

    name: str
    link: str
    what: str
    code: str
    controller: str | None


def _unknown(unread: Mapping[str, str], groups: GroupsFound, served_by: Mapping[str, str]) -> list[_Unknown]:
    """What has no status, streams first. A stream that is only not loaded yet will have one in a moment."""
    streams = [
        _Unknown(name, stream_link(name), "stream", code, served_by.get(name))
        for name, code in sorted(unread.items())
        if code != StreamLoading.code
    ]
    of_groups = [
        _Unknown(name, group_link(name), "reader group", each.code, None)
        for name, each in sorted(groups.unread.items())
    ]
    return streams + of_groups


def _unknown_columns() -> list[Column[_Unknown]]:
    return [
        Column("name", "Name", sort=lambda each: each.name, html=LINKED),
        Column("what", "What", sort=lambda each: each.what, essential=False),
        Column("why", "Why", sort=lambda each: each.code),
        Column("server", "Controller", sort=lambda each: each.controller, essential=False),
    ]


def _unknown_row(each: _Unknown) -> dict[str, Any]:
    return {
        "id": f"{each.what} {each.name}",
        "name": each.name,
        "link": each.link,
        "what": each.what,
        "why": why_unread(each.code),
        "server": each.controller or NOTHING,
    }


def _unknown_text(each: _Unknown) -> str:
    return f"{each.name} {each.what} {each.code} {each.controller or ''}"


def _without_status(count: int) -> str:
    return f"{count:,} not known" if count else ""


def _calmness(look: StreamStatus) -> int:
    return 1 if look.sealed else -int(look.state)


def _rate(look: StreamStatus) -> float:
    return sum(key.marks_per_second for key in look.keys)


def _held(look: StreamStatus) -> KeyStatus | None:
    return look.worst if look.state.stands_still else None


def _silence(look: StreamStatus) -> int | None:
    held = _held(look)
    return held.holder.last_heard_ms_ago if held is not None and held.holder is not None else None


def _stream_text(look: StreamStatus) -> str:
    return f"{look.name} {state_of(look)[0]} {_holder_of(look) or ''}"


def _stream_row(look: StreamStatus) -> dict[str, Any]:
    state, state_class = state_of(look)
    held = _held(look)
    holder = held.holder if held is not None else None
    writer = holder.writer if holder is not None else None
    return {
        "id": look.name,
        "name": look.name,
        "link": stream_link(look.name),
        "state": state,
        "state_class": state_class,
        "time": Times().show(look.time),
        "lag": lag_of(look),
        "rate": rate(_rate(look)),
        "writers": counts({state.replace("_", " "): count for state, count in look.writers.items()}),
        "holder": writer,
        "holder_link": writer_link(look.name, writer) if writer is not None else None,
        "held": (story := _held_text(look, held) if held is not None else ""),
        "held_text": f"{writer}: {story}" if writer is not None else story or NOTHING,
    }


def _held_text(look: StreamStatus, held: KeyStatus) -> str:
    keyed = f" ({key_label(held.key)})" if len(look.keys) > 1 else ""
    if held.holder is None or not is_held_back(held):
        return (silent_for(held, look.seen_at) or holding(held.holder)) + keyed
    return f"{span(held.holder.last_heard_ms_ago or 0)} silent{keyed}"


def _group_columns() -> list[Column[GroupStatus]]:
    backlog = '<span :class="props.row.backlog_class" style="font-weight: 600">{{ props.row.backlog }}</span>'
    return [
        Column("backlog", "Backlog", sort=lambda look: not look.window.backlog, html=backlog),
        Column("name", "Reader group", sort=lambda look: look.name, html=LINKED),
        Column("lag", "Lag", sort=_group_behind, right=True),
        Column("readers", "Readers", sort=lambda look: look.readers, right=True, essential=False),
        Column("streams", "Streams", sort=lambda look: ", ".join(look.window.streams), essential=False),
    ]


def _group_behind(look: GroupStatus) -> int | None:
    time = look.window.watermarks.get("")
    return look.seen_at - time if time is not None and is_epoch(time) else None


def _group_text(look: GroupStatus) -> str:
    return " ".join((look.name, *look.window.streams))


def _group_row(look: GroupStatus) -> dict[str, Any]:
    backlog, has_threshold = look.window.backlog, look.threshold_ms is not None
    return {
        "id": look.name,
        "name": look.name,
        "link": group_link(look.name),
        "backlog": "in backlog" if backlog else ("caught up" if has_threshold else "no threshold"),
        "backlog_class": "sl-bad" if backlog else ("sl-good" if has_threshold else "sl-soft"),
        "lag": group_lag(look),
        "readers": look.readers,
        "streams": ", ".join(look.window.streams),
    }


def group_lag(look: GroupStatus) -> str:
    """The lag of a group, if its times are on the clock's scale."""
    return lag(look.window.watermarks.get(""), look.seen_at)
