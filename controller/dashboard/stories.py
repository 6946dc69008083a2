"""Journal entries as sentences, and the list in which they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui

from controller.storage.journal import Entry
from controller.wording import Times, span

ICONS = {
    "refusal": ("block", "sl-bad"),
    "state": ("swap_horiz", "sl-soft"),
    "held": ("hourglass_bottom", "sl-warn"),
    "incomplete": ("rule", "sl-warn"),
    "action": ("person", "sl-good"),
}


def story(entry: Entry, times: Times) -> str:
    """What happened, in a sentence."""
    told: dict[str, Any] = entry.details
    key = f" in key {told['key']}" if told.get("key") else ""
    match entry.kind:
        case "state":
            return f"{told['writer']} went from {_state(told['before'])} to {_state(told['after'])}{key}"
        case "held":
            return f"{told['writer'] or 'too few writers'} held time back for {span(told['to'] - told['from'])}{key}"
        case "incomplete":
            return f"marks leave out {_names(told)} from {times.show(told['from_time'])} on{key}"
        case "incomplete_ended":
            return f"marks no longer leave out {_names(told)}{key}"
        case "backlog":
            return f"went into backlog, {_lag(told)}"
        case "caught_up":
            return f"is not in backlog any more, {_lag(told)}"
        case "refused":
            who = told.get("writer") or told.get("reader") or told.get("name")
            return f"refused{f' ({who})' if who else ''}: {told.get('detail', told.get('code', ''))}"
        case kind:
            more = ", ".join(f"{name} {value}" for name, value in told.items() if value not in (None, {}, []))
            by = f" by {entry.by}" if entry.by else ""
            return f"{kind.replace('_', ' ')}{by}" + (f": {more}" if more else "")


def _lag(told: dict[str, Any]) -> str:
    return "with no watermark yet" if told["lag_ms"] is None else f"{span(told['lag_ms'])} behind the clock"


def _state(value: str | None) -> str:
    return (value or "unknown").replace("_", " ")


def _names(told: dict[str, Any]) -> str:
    names = ", ".join(told["excluded"])
    more = told.get("excluded_writers", 0) - len(told["excluded"])
    return names + (f" and {more} more" if more > 0 else "")


class JournalList:
    """Shows entries, newest first; drawn anew only when there is something new."""

    def __init__(self, *, about: str = "Nothing has happened yet.") -> None:
        self._shown: int | None = None
        self._about = about
        self._column = (
            ui.column().classes("w-full").style("gap: 0; max-height: 420px; overflow-y: auto; flex-wrap: nowrap")
        )
        self._column.props("tabindex=0 role=log")

    def show(self, entries: Sequence[Entry]) -> None:
        newest = entries[-1].seq if entries else 0
        if newest == self._shown:
            return
        self._shown = newest
        times = Times()
        self._column.clear()
        with self._column:
            if not entries:
                ui.label(self._about).classes("sl-soft")
            for entry in reversed(entries):
                icon, colour = ICONS.get(entry.topic, ("circle", "sl-soft"))
                with (
                    ui.row()
                    .classes("items-start no-wrap w-full")
                    .style("gap: 10px; padding: 6px 0; border-bottom: 1px solid var(--sl-line)")
                ):
                    ui.icon(icon, size="18px").classes(colour)
                    ui.label(times.show(entry.at)[11:19] or str(entry.at)).classes("sl-soft").style("min-width: 62px")
                    ui.label(story(entry, times)).style("overflow-wrap: anywhere; min-width: 0")
