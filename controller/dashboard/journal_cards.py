"""The journal on a page: its entries, and the writers that marks left out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Final, NamedTuple

from nicegui import ui

from controller.dashboard.limits import INCOMPLETE_SHOWN, JOURNAL_SHOWN
from controller.dashboard.tables import Column, PagedTable, key_label
from controller.dashboard.widgets import card
from controller.format import NOTHING, Times, moment
from controller.records.journal import REFUSALS
from controller.status.journal_text import left_out, story
from controller.storage.journal import StoredEntry

_ICONS: Final = {
    "refusal": ("block", "sl-bad"),
    "state": ("swap_horiz", "sl-soft"),
    "held": ("hourglass_bottom", "sl-warn"),
    "holding": ("hourglass_top", "sl-warn"),
    "pause": ("pause", "sl-warn"),
    "incomplete": ("rule", "sl-warn"),
    "action": ("person", "sl-good"),
    "registration": ("badge", "sl-soft"),
}
WHEN: Final = """<span class="row items-center no-wrap" style="gap: 8px"><q-icon :name="props.row.icon" size="18px"
:class="props.row.colour"></q-icon><span style="white-space: nowrap">{{ props.row.when }}</span></span>"""


class JournalNews:
    """Whether a journal has to be read again: after a new entry, and once more when that entry is surely durable."""

    def __init__(self) -> None:
        self._last: int | None = None
        self._reads_left = 0

    def has_come(self, last: int) -> bool:
        """`last` is the seq of the newest entry."""
        if last != self._last:
            self._last, self._reads_left = last, 3
        self._reads_left -= 1
        return self._reads_left >= 0


class JournalCard:
    """Shows entries, newest first."""

    def __init__(self, title: str = "Journal", *, empty: str = "Nothing has happened yet.") -> None:
        self._now = 0
        columns: list[Column[Folded]] = [
            Column("when", "When", sort=lambda found: found.entry.seq, html=WHEN),
            Column("what", "What happened"),
        ]
        with card(title):
            name = title.lower().replace(" ", "-")
            self._table = PagedTable(
                columns, noun="entries", name=name, row=self._row, text=self._text, rows_per_page=10
            )
            self._empty = ui.label(empty).classes("sl-soft")

    def show(self, entries: Sequence[StoredEntry], now: int) -> None:
        """Entries, oldest first."""
        self._now = now
        self._empty.set_visibility(not entries)
        self._table.show(folded(entries[::-1])[:JOURNAL_SHOWN])

    def _text(self, found: Folded) -> str:
        times = f": {found.times} times since {moment(found.first_at, self._now)}" if found.times > 1 else ""
        return entry_text(found.entry) + times

    def _row(self, found: Folded) -> dict[str, Any]:
        return {**entry_row(found.entry, self._now), "what": self._text(found)}


def entry_row(entry: StoredEntry, now: int) -> dict[str, Any]:
    """An entry as the fields of a row; WHEN shows `when` with an icon."""
    icon, colour = _ICONS.get(entry.topic, ("circle", "sl-soft"))
    return {
        "id": entry.seq,
        "when": moment(entry.at, now),
        "icon": icon,
        "colour": colour,
        "what": entry_text(entry),
    }


class Folded(NamedTuple):
    """An entry, or refusals of one kind as one: the newest of them, how many they are, and when the first one was."""

    entry: StoredEntry
    times: int
    first_at: int


def folded(entries: Sequence[StoredEntry]) -> list[Folded]:
    """Entries, newest first, with refusals of one kind as one: those with the same code, of the same writer or reader,
    by the same caller."""
    found: dict[Hashable, Folded] = {}
    for each in entries:
        is_refusal = each.topic == REFUSALS
        told = tuple(str(each.details.get(name)) for name in ("code", "writer", "reader", "call", "name"))
        kind: Hashable = (each.kind, each.by, *told) if is_refusal else each.seq
        newest = found.get(kind)
        found[kind] = Folded(each, 1, each.at) if newest is None else Folded(newest.entry, newest.times + 1, each.at)
    return list(found.values())


def entry_text(entry: StoredEntry) -> str:
    """An entry as a sentence."""
    return story(entry.kind, entry.details, Times(), by=entry.by)


class IncompleteCard:
    """The marks that left writers out: from when to when, and which writers."""

    def __init__(self) -> None:
        self._now = 0
        columns: list[Column[StoredEntry]] = [
            Column("when", "From", sort=lambda entry: entry.details["from"]),
            Column("until", "Until"),
            Column("marks", "Marks", right=True),
            Column("key", "Key", essential=False),
            Column("names", "Left out"),
        ]
        with card("Incomplete marks"):
            self._table = PagedTable(columns, noun="marks", row=self._row, text=_left_out, rows_per_page=5)
            self._empty = ui.label("Every mark of which the journal knows is complete.").classes("sl-soft")

    def show(self, entries: Sequence[StoredEntry], now: int) -> None:
        """Entries of the journal, oldest first. If marks still leave writers out, it shows the entry of the
        beginning."""
        self._now = now
        over = {_began(each) for each in entries if each.kind == "incomplete_ended"}
        shown = [each for each in entries if each.kind == "incomplete_ended" or _began(each) not in over]
        self._empty.set_visibility(not shown)
        self._table.show(shown[: -INCOMPLETE_SHOWN - 1 : -1])

    def _row(self, entry: StoredEntry) -> dict[str, Any]:
        told = entry.details
        first, last = told["from_seq"], told.get("to_seq")
        return {
            "id": entry.seq,
            "when": moment(told["from"], self._now),
            "until": moment(told["to"], self._now) if "to" in told else "still",
            "marks": f"{first} to {last}" if last is not None and last != first else f"{first}{'' if last else ' on'}",
            "key": key_label(told["key"]) if told["key"] else NOTHING,
            "names": left_out(told),
        }


def _began(entry: StoredEntry) -> tuple[str, int]:
    return entry.details["key"], entry.details["from_seq"]


def _left_out(entry: StoredEntry) -> str:
    return left_out(entry.details)
