"""Retention by time: what is older than a time goes, from the log first, and then from the stream."""

from __future__ import annotations

from collections.abc import Mapping

from strandline.client import calls
from strandline.client.http import Connection
from strandline.core.config import TimeDomain
from strandline.core.note import DEFAULT_KEY
from strandline.limits import RETENTION_STEPS
from strandline.logs import Position, TruncatableLog
from strandline.wire.streams import WireMark
from writer_client.errors import NewerBelow


def truncate_before(
    connection: Connection,
    stream: str,
    log: TruncatableLog,
    time: int,
    *,
    key: str = DEFAULT_KEY,
    newer_too: bool = False,
) -> Position:
    """Removes events that are older than a time; returns where the log begins now in each segment that was cut.

    Nothing at or after the time goes. So it cuts at the last mark below which nothing is as new; where writers do not
    note `newest`, no mark says so, and it raises NewerBelow. With `newer_too` it cuts at the last mark before the time,
    and what a writer had written ahead of its notes goes as well: leave a margin. Ingestion times need no `newest`.

    The log is cut first, and the stream is told then. Where this ends in between, do it again. Raises what the log
    raises, and what the controller does.
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
    """The cut of a mark that was made before the time: what lies below it had come by then."""
    for _ in range(RETENTION_STEPS):
        if mark is None:
            break
        if mark.created_at < time:
            return mark.cut
        earlier = mark.time - max(1, mark.created_at - time)
        mark = connection.run(calls.marks_at(stream, earlier)).floor
    return {}
