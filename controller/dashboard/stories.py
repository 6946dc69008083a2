"""The list in which journal entries stand, each as a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui

from controller.storage.journal import Entry
from controller.stories import story
from controller.wording import Times

ICONS = {
    "refusal": ("block", "sl-bad"),
    "state": ("swap_horiz", "sl-soft"),
    "held": ("hourglass_bottom", "sl-warn"),
    "incomplete": ("rule", "sl-warn"),
    "action": ("person", "sl-good"),
}


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
                    ui.label(story(entry.kind, entry.details, times, by=entry.by)).style(
                        "overflow-wrap: anywhere; min-width: 0"
                    )
