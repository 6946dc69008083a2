"""The overview: what is in trouble, and because of whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.dashboard.frame import Refresh, empty_state, frame
from controller.dashboard.limits import ATTENTION_STREAMS
from controller.dashboard.tables import Column, PagedTable, key_label
from controller.dashboard.visiting import Visitor, to_sign_in, visitor
from controller.services.controller import Controller
from controller.services.overview import GroupLook, KeyLook, StreamLook, Trouble
from controller.wording import NOTHING, Times, counts, holding, lag, span

TROUBLES: Final = {
    Trouble.STUCK: ("stuck", "sl-bad"),
    Trouble.HELD: ("held", "sl-warn"),
    Trouble.INCOMPLETE: ("incomplete", "sl-warn"),
    Trouble.NONE: ("fine", "sl-good"),
}
_STATE: Final = '<span :class="props.row.state_class" style="font-weight: 600">{{ props.row.state }}</span>'
_HOLDER: Final = """<a v-if="props.row.holder" :href="props.row.holder_link">{{ props.row.holder }}</a>
<span class="sl-soft" style="margin-left: 6px">{{ props.row.held }}</span>"""
_STREAM_COLUMNS: Final = (
    Column("state", "State", sort="urgency", html=_STATE),
    Column("name", "Stream", html='<a :href="props.row.link">{{ props.row.name }}</a>'),
    Column("lag", "Lag", sort="lag_ms", right=True),
    Column("held", "Held by", sort="silent_ms", html=_HOLDER),
    Column("time", "Time", essential=False),
    Column("rate", "Marks/s", sort="rate_number", right=True, essential=False),
    Column("writers", "Writers", essential=False),
)
_GROUP_COLUMNS: Final = (
    Column("name", "Reader group", html='<a :href="props.row.link">{{ props.row.name }}</a>'),
    Column("backlog", "Backlog", html='<span :class="props.row.backlog_class">{{ props.row.backlog }}</span>'),
    Column("lag", "Lag", sort="lag_ms", right=True),
    Column("readers", "Readers", right=True, essential=False),
    Column("streams", "Streams", essential=False),
)
FIRST_STREAM: Final = (
    """curl -X PUT {base}/v1/streams/orders -H 'content-type: application/json' -d '{{"segments": 3}}'"""
)
FIRST_GROUP: Final = (
    "curl -X PUT {base}/v1/reader-groups/billing -H 'content-type: application/json' "
    """-d '{{"streams": ["orders"], "backlog_threshold_ms": 60000}}'"""
)


def add(app: FastAPI) -> None:
    @ui.page("/")
    async def page(request: Request) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        controller: Controller = app.state.controller
        with frame(request, who, "Overview"):
            view = OverviewView(controller, who, str(request.base_url).rstrip("/"))
            refresh = Refresh(view.update)
            view.build()
        await refresh.now()
        return None


class OverviewView:
    """The page of one visitor."""

    def __init__(self, controller: Controller, who: Visitor, base: str) -> None:
        self._controller = controller
        self._who = who
        self._base = base
        self._urgent: list[tuple[Any, ...]] = []

    def build(self) -> None:
        with ui.element("div").classes("sl-tiles"):
            self._tiles = {name: _tile(name) for name in ("Streams", "Stuck", "Incomplete", "Groups in backlog")}
        self._attention = ui.column().classes("w-full").style("gap: 12px")
        with ui.column().classes("sl-card"):
            ui.label("Streams").classes("sl-h").props("role=heading aria-level=2")
            self._unread = ui.label().classes("sl-soft")
            self._streams = PagedTable(_STREAM_COLUMNS, noun="streams")
            with ui.column().classes("w-full") as self._no_streams:
                empty_state("waves", "There is no stream yet. Create one:", FIRST_STREAM.format(base=self._base))
        with ui.column().classes("sl-card"):
            ui.label("Reader groups").classes("sl-h").props("role=heading aria-level=2")
            self._groups = PagedTable(_GROUP_COLUMNS, noun="groups")
            with ui.column().classes("w-full") as self._no_groups:
                empty_state("groups", "There is no reader group yet. Create one:", FIRST_GROUP.format(base=self._base))

    async def update(self) -> None:
        self._who.check()
        look = await self._controller.overview.look()
        streams = [each for each in look.streams if self._who.may_see(each.name)]
        groups = [each for each in look.groups if all(map(self._who.may_see, each.window.streams))]
        self._show_tiles(streams, groups)
        self._show_attention([each for each in streams if each.trouble >= Trouble.HELD][:ATTENTION_STREAMS])
        self._streams.show(map(_stream_row, streams))
        self._groups.show(_group_row(each) for each in groups)
        self._no_streams.set_visibility(not streams)
        self._no_groups.set_visibility(not groups)
        self._unread.set_text(f"{look.unread} more are being read from the store")
        self._unread.set_visibility(look.unread > 0)

    def _show_tiles(self, streams: Sequence[StreamLook], groups: Sequence[GroupLook]) -> None:
        incomplete = sum(any(key.excluded for key in each.keys) and not each.sealed for each in streams)
        numbers = {
            "Streams": len(streams),
            "Stuck": sum(each.trouble is Trouble.STUCK for each in streams),
            "Incomplete": incomplete,
            "Groups in backlog": sum(each.window.backlog for each in groups),
        }
        for name, number in numbers.items():
            label = self._tiles[name]
            label.set_text(str(number))
            label.classes(remove="sl-bad sl-good")
            if name != "Streams":
                label.classes("sl-bad" if number else "sl-good")

    def _show_attention(self, looks: Sequence[StreamLook]) -> None:
        """A large line for each stream that someone holds; rebuilt only when it is about other streams or writers."""
        about: list[tuple[Any, ...]] = [(each.name, _holder_of(each), each.trouble) for each in looks]
        if about != self._urgent:
            self._urgent = about
            self._attention.clear()
            self._lines: list[ui.label] = []
            with self._attention:
                for each in looks:
                    self._lines.append(_attention_card(each))
        for look, line in zip(looks, self._lines if looks else [], strict=True):
            worst = look.worst
            assert worst is not None
            line.set_text(describe_hold(worst, look.seen_at))


def _tile(name: str) -> ui.label:
    with ui.column().classes("sl-card").style("gap: 2px"):
        number = ui.label(NOTHING).classes("sl-number")
        ui.label(name).classes("sl-soft")
    return number


def _attention_card(look: StreamLook) -> ui.label:
    stuck = look.trouble is Trouble.STUCK
    worst = look.worst
    assert worst is not None
    with ui.row().classes(f"sl-card items-center {'sl-stuck' if stuck else 'sl-held'}").style("gap: 6px 14px"):
        ui.icon("error" if stuck else "hourglass_top", size="26px").classes("sl-bad" if stuck else "sl-warn")
        with ui.column().style("gap: 0; flex: 1; min-width: 220px"):
            with ui.row().classes("items-baseline").style("gap: 6px"):
                ui.link(look.name, f"/streams/{look.name}").classes("sl-link")
                if worst.key:
                    ui.label(f"key {worst.key}").classes("sl-soft")
                if worst.holder is not None and worst.holder.writer is not None:
                    ui.label("is held back by")
                    ui.link(worst.holder.writer, writer_link(look.name, worst.holder.writer)).classes("sl-link")
                else:
                    ui.label("waits for more writers")
            return ui.label().classes("sl-soft")


def describe_hold(look: KeyLook, now: int) -> str:
    """Since when a key is held, for how long its holder was silent, and when that is let go."""
    holder = look.holder
    if holder is None:
        return "nobody holds time back"
    if holder.writer is None:
        return "fewer than min_writers writers have noted"
    parts = []
    if look.since is not None:
        parts.append(f"for {span(now - look.since)}")
    if holder.last_heard_ms_ago is not None:
        parts.append(f"last heard {span(holder.last_heard_ms_ago)} ago")
    if holder.released_in_ms is None:
        parts.append("never let go by itself")
    else:
        parts.append(f"let go in {span(holder.released_in_ms)}" if holder.released_in_ms else "let go now")
    return f"{holder.state.replace('_', ' ')}, " + ", ".join(parts)


def writer_link(stream: str, writer: str) -> str:
    return f"/streams/{stream}/writers/{writer}"


def _holder_of(look: StreamLook) -> str | None:
    worst = look.worst
    return worst.holder.writer if worst is not None and worst.holder is not None else None


def state_of(look: StreamLook) -> tuple[str, str]:
    """How a stream is, in a word, and the word's colour."""
    if look.sealed:
        return "sealed", "sl-soft"
    if look.trouble is Trouble.NONE and all(key.marked_at is None for key in look.keys):
        return ("no marks yet" if look.writers else "no writers"), "sl-soft"
    return TROUBLES[look.trouble]


def _stream_row(look: StreamLook) -> dict[str, Any]:
    worst = look.worst
    state, state_class = state_of(look)
    row: dict[str, Any] = {
        "id": look.name,
        "name": look.name,
        "link": f"/streams/{look.name}",
        "state": state,
        "state_class": state_class,
        "urgency": -1 if look.sealed else int(look.trouble),
        "writers": counts(look.writers),
    }
    if worst is None:
        return row
    times = [key.time for key in look.keys if key.time is not None]
    time = min(times, default=None)
    holder = worst.holder if worst.trouble >= Trouble.HELD else None
    silent = holder.last_heard_ms_ago if holder is not None else None
    rate = sum(key.marks_per_second for key in look.keys)
    keyed = f" ({key_label(worst.key)})" if len(look.keys) > 1 else ""
    return row | {
        "time": Times().show(time),
        "lag": NOTHING if look.sealed else lag(time, look.seen_at),
        "lag_ms": None if time is None else look.seen_at - time,
        "rate": f"{rate:.2f}" if rate < 10 else f"{rate:.0f}",
        "rate_number": rate,
        "holder": holder.writer if holder is not None else None,
        "holder_link": writer_link(look.name, holder.writer) if holder is not None and holder.writer else None,
        "held": _held_text(worst) + keyed if holder is not None else "",
        "silent_ms": silent,
    }


def _held_text(look: KeyLook) -> str:
    holder = look.holder
    if holder is None or holder.writer is None:
        return holding(holder)
    return f"{span(holder.last_heard_ms_ago or 0)} silent"


def _group_row(look: GroupLook) -> dict[str, Any]:
    backlog = look.window.backlog
    return {
        "id": look.name,
        "name": look.name,
        "link": f"/reader-groups/{look.name}",
        "backlog": "in backlog" if backlog else ("caught up" if look.threshold_ms is not None else "no threshold"),
        "backlog_class": "sl-bad" if backlog else ("sl-good" if look.threshold_ms is not None else "sl-soft"),
        "lag": NOTHING if look.window.lag_ms is None else lag(look.window.watermarks.get(""), _now_of(look)),
        "lag_ms": look.window.lag_ms,
        "readers": look.readers,
        "streams": ", ".join(look.window.streams),
    }


def _now_of(look: GroupLook) -> int | None:
    watermark = look.window.watermarks.get("")
    return None if watermark is None or look.window.lag_ms is None else watermark + look.window.lag_ms
