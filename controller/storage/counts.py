"""What was counted of a stream as a row and back. Nothing else depends on it: what cannot be read counts as nothing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from controller.storage.rows import Values, to_json


class Totals(msgspec.Struct, frozen=True):
    """Counts of a stream: refusals by code, and incomplete marks by key."""

    notes: int = 0
    late_notes: int = 0
    refusals: Mapping[str, int] = {}
    incomplete_marks: Mapping[str, int] = {}


class StoredCounts(msgspec.Struct, frozen=True):
    """All that is kept. Only the writers with the greatest counts have counts of their own."""

    totals: Totals = Totals()
    late_by_writer: Mapping[str, int] = {}
    refused_by_writer: Mapping[str, int] = {}


NOTHING_COUNTED = StoredCounts()
_counts = msgspec.json.Decoder(StoredCounts)


def counts_values(stream: str, counts: StoredCounts) -> Values:
    return {"stream": stream, "counts": to_json(counts)}


def counts_of(text: str | None) -> StoredCounts:
    """The counts of a row; nothing if there is none, or if it cannot be read."""
    try:
        return NOTHING_COUNTED if text is None else _counts.decode(text)
    except (ValueError, msgspec.MsgspecError):
        return NOTHING_COUNTED
