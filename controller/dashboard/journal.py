"""Journals on pages: entries as sentences, refusals of one kind as one, and the writers that marks left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from controller.dashboard.limits import INCOMPLETE_SHOWN, JOURNAL_SHOWN
from controller.dashboard.tables import Address, Cell, Column, Table
from controller.dashboard.words import key_label
from controller.operators.journal_text import Folded, folded, left_out, story
from controller.operators.wording import Times, moment
from strandline.wire.journal import JournalEntry

ICONS: Final = {
    "refusal": ("✕", "bad"),
    "state": ("⇄", "soft"),
    "held": ("◔", "warn"),
    "holding": ("◔", "warn"),
    "pause": ("◌", "warn"),
    "incomplete": ("◐", "warn"),
    "ahead": ("↷", "bad"),
    "action": ("●", "good"),
    "registration": ("+", "soft"),
}


def when_cell(entry: JournalEntry, now: int) -> Cell:
    icon, colour = ICONS.get(entry.topic, ("○", "soft"))
    return Cell(moment(entry.at, now), icon=icon, colour=colour)


def journal_table(address: Address, name: str, entries: Sequence[JournalEntry], now: int) -> Table[Folded]:
    """The entries of one journal, oldest first, as a table."""

    def sentence(each: Folded) -> str:
        return story(each, Times(), lambda at: moment(at, now), by=each.entry.by)

    columns: list[Column[Folded]] = [
        Column("when", "When", lambda each: each.entry.seq, cell=lambda each: when_cell(each.entry, now)),
        Column("what", "What happened", None, cell=sentence),
    ]
    items = folded(reversed(entries))[:JOURNAL_SHOWN]
    return Table(
        address, name, columns, items, id=lambda each: each.entry.seq, text=sentence,
        noun="entries", rows=10,
    )  # fmt: skip


def incomplete_table(address: Address, entries: Sequence[JournalEntry], now: int) -> Table[JournalEntry]:
    """Which marks left out which writers: entries of the topic, oldest first. If marks still leave writers out, it
    shows the entry of the beginning."""
    over = {_began(each) for each in entries if each.kind == "incomplete_ended"}
    shown = [each for each in entries if each.kind == "incomplete_ended" or _began(each) not in over]

    def until(each: JournalEntry) -> str:
        return moment(each.details["to"], now) if "to" in each.details else "still"

    columns: list[Column[JournalEntry]] = [
        Column("when", "From", lambda each: each.details["from"], lambda at: moment(at, now)),
        Column("until", "Until", None, cell=until),
        Column("marks", "Marks", None, cell=_marks, right=True),
        Column("key", "Key", None, cell=lambda each: key_label(each.details["key"]), essential=False),
        Column("names", "Left out", None, cell=lambda each: left_out(each.details)),
    ]
    return Table(
        address, "incomplete", columns, shown[: -INCOMPLETE_SHOWN - 1 : -1], id=lambda each: each.seq,
        text=lambda each: left_out(each.details), noun="marks", rows=10,
    )  # fmt: skip


def _marks(entry: JournalEntry) -> str:
    first, last = entry.details["from_seq"], entry.details.get("to_seq")
    return f"{first} to {last}" if last is not None and last != first else f"{first}{'' if last else ' on'}"


def _began(entry: JournalEntry) -> tuple[str, int]:
    return entry.details["key"], entry.details["from_seq"]
