"""What lists show of a stream, as a row: what was counted, and its status at a moment.

Nothing else depends on it: what cannot be read counts as nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Select, and_, select

from controller.storage import schema
from controller.storage.kinds import KINDS
from controller.storage.rows import Values, to_json
from controller.storage.subjects import Kind

STATUSES_COMPARED: Final = 2_000  # at a time


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


def status_values(stream: str, version: int, counts: StoredCounts, status: bytes) -> Values:
    """The row of a stream as it is in a version; `status` is JSON."""
    return {"stream": stream, "version": version, "counts": to_json(counts), "status": status.decode()}


def counts_of(text: str | None) -> StoredCounts:
    """The counts of a row; nothing if there is none, or if it cannot be read."""
    try:
        return NOTHING_COUNTED if text is None else _counts.decode(text)
    except (ValueError, msgspec.MsgspecError):
        return NOTHING_COUNTED


_of_status, _head = schema.stream_status.c, schema.head.c


@cache  # building a statement costs more than running it
def _statuses(database: str) -> Select[Any]:
    query = select(_of_status.stream, _of_status.status)
    return query.where(KINDS[database].among(_of_status.stream, "names"))


def stored_statuses(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """The status of each of these streams as JSON, as far as there is one."""
    with connection.begin():
        rows = connection.execute(_statuses(connection.dialect.name), {"names": to_json(list(names))})
        return {row.stream: row.status for row in rows}


def outdated_statuses(connection: Connection, before: int, after: str) -> tuple[list[str], str]:
    """Of the next streams by name, those of which the store has the status of an earlier version, though nothing was
    written to them since a moment; and the name after which to continue, empty after the last stream."""
    is_old = and_(_head.version > _of_status.version, _head.clock <= before)
    of_stream = and_(_head.kind == Kind.STREAM.value, _head.name == _of_status.stream)
    query = select(_of_status.stream, is_old).join(schema.head, of_stream).where(_of_status.stream > after)
    with connection.begin():
        rows = connection.execute(query.order_by(_of_status.stream).limit(STATUSES_COMPARED)).all()
    return [name for name, old in rows if old], rows[-1][0] if len(rows) == STATUSES_COMPARED else ""
