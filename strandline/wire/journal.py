"""Journals: what happened to a stream or a reader group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from strandline.wire.shapes import Time

TOPICS: Final = (  # of streams
    "refusal",
    "state",
    "held",
    "holding",
    "pause",
    "incomplete",
    "ahead",
    "registration",
    "action",
)


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """An event. `by` is the name of the token that was used, null without one.

    The fields of `details` depend on the kind; a newer controller may add some.
    """

    seq: int
    at: Time
    topic: str
    kind: str
    by: str | None
    details: Mapping[str, Any]


class JournalPage(msgspec.Struct, frozen=True):
    """Entries, oldest first. The next page begins after the seq `next`; null: this is the last page. `omitted` counts
    entries that came too fast to be recorded, by topic, and refusals by code."""

    entries: tuple[JournalEntry, ...]
    next: int | None
    omitted: Mapping[str, int]
