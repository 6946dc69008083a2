"""Journals as JSON objects, and back. The same rules as in `wire.py`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strandline.wire.fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class JournalEntry:
    """Something that happened. `by` is the name of the token that was used, null where there was none.

    What `details` has depends on the kind; a newer controller may tell more.
    """

    seq: int
    at: int
    topic: str
    kind: str
    by: str | None
    details: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JournalPage:
    """Entries, oldest first. `next` is the seq to go on after, null where there is no more. `omitted` counts what
    came too fast to be told, by topic, and for refusals by code."""

    entries: tuple[JournalEntry, ...]
    next: int | None
    omitted: Mapping[str, int]


def journal_from_wire(value: object, where: str = "the answer") -> JournalPage:
    given = Fields(value, where)
    return JournalPage(
        entries=given.list("entries", _entry),
        next=given.number_or_none("next"),
        omitted=given.numbers("omitted"),
    )


def _entry(value: object, where: str) -> JournalEntry:
    given = Fields(value, where)
    return JournalEntry(
        seq=given.number("seq"),
        at=given.number("at"),
        topic=given.text("topic"),
        kind=given.text("kind"),
        by=given.text_or_none("by"),
        details=given.by_name("details", lambda value, _: value),
    )
