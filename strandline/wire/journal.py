"""Journals: what happened to a stream or a reader group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from strandline.wire.shapes import Time


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened. `by` is the name of the token that was used, null where there was none.

    What `details` has depends on the kind; a newer controller may tell more.
    """

    seq: int
    at: Time
    topic: str
    kind: str
    by: str | None
    details: Mapping[str, Any]


class JournalPage(msgspec.Struct, frozen=True):
    """Entries, oldest first. `next` is the seq to go on after, null where there is no more. `omitted` counts what
    came too fast to be told, by topic, and for refusals by code."""

    entries: tuple[JournalEntry, ...]
    next: int | None
    omitted: Mapping[str, int]
