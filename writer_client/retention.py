"""Retention by time: removes events older than a time, from the log first, and then from the stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import TimeDomain
from strandline.core.note import DEFAULT_KEY
from strandline.logs import Position, TruncatableLog
from strandline.wire.streams import WireMark
from writer_client.errors import NewerBelow

RETENTION_STEPS: Final = 32  # back to a mark made before a time; each is as long as the last mark was made too late


def truncate_before(
    connection: Connection,
    stream: str,
    log: TruncatableLog,
    time: int,
    *,
    key: str = DEFAULT_KEY,
    newer_too: bool = False,
) -> Position:
    """Removes events that are older than a time; returns where each segment that was cut begins now.

    It removes no event with time >= `time`: it cuts at the last mark with only older events below it. If writers do not
    note `newest`, there is no such mark, and it raises NewerBelow. With `newer_too` it cuts at the last mark before the
    time, and also removes events that a writer had written ahead of its notes: leave a margin. Streams in the ingestion
    domain need no `newest`.

    It cuts the log first, and then the stream. If the process ends in between, repeat the call. Raises the errors of
    the log and of the controller.
    """
    cut = _cut(connection, stream, time, key, newer_too=newer_too)
    if not cut:
        return {}
    head = log.truncate(dict(cut))
    connection.run(calls.truncate(stream, head))
    return head


def _cut(connection: Connection, stream: str, time: int, key: str, *, newer_too: bool) -> Mapping[str, int]:
    found = connection.run(calls.marks_at(stream, time, key=key))
    if found.floor is None:
        return {}
    if newer_too:
        return found.floor.cut
    if connection.run(calls.describe(stream)).config.time_domain is TimeDomain.INGESTION:
        return _made_before(connection, stream, time, found.floor)
    if found.floor.newest is None:
        raise NewerBelow(stream=stream, time=time)
    return found.start if found.exact else {}


def _made_before(connection: Connection, stream: str, time: int, mark: WireMark | None) -> Mapping[str, int]:
    """Returns the cut of a mark that was made before the time: all events below it had arrived by then."""
    for _ in range(RETENTION_STEPS):
        if mark is None:
            break
        if mark.created_at < time:
            return mark.cut
        earlier = mark.time - max(1, mark.created_at - time)
        mark = connection.run(calls.marks_at(stream, earlier)).floor
    return {}
