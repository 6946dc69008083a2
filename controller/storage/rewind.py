"""Sets a store's clock back, if it ran ahead. No controller may serve the store meanwhile.

The clock of a controller that serves alone follows its host's; that of several is the database server's. Served time,
which measures silence, continues where it was. Event time comes from the application and is not affected. Marks in the
ingestion time domain hold the controller's clock, and every later event must be newer than they say. So if such a
stream is ahead and not sealed, nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, select, update

from controller.storage import schema
from controller.storage.cluster import rewind_shards
from controller.storage.refusals import CannotRewind
from controller.storage.rows import config_of
from controller.storage.terms import REWIND, enter_term, were_served_together
from controller.storage.unreadable import decoded
from strandline.core.config import TimeDomain

NEVER: Final = 2**62  # the moment of what time alone does not change


@dataclass(frozen=True, slots=True)
class Rewound:
    """By how much the clock was set back, 0 if it was not, how many streams were ahead with it, and to which time."""

    by_ms: int
    streams: int
    to: int


def rewind(connection: Connection, store: str, now: int) -> Rewound:
    """Sets the clock back to `now`, the host's time, within the caller's transaction; where several controllers have
    served the store, to the store's own time. Raises CannotRewind and StoreCorrupt."""
    if were_served_together(connection):
        to, by_ms = rewind_shards(connection)
        if not by_ms:
            return Rewound(0, 0, to)
        _check_ingestion(connection, store, to)
        return Rewound(by_ms, _set_streams_back(connection, to), to)
    table = schema.served
    last = connection.execute(select(table).order_by(table.c.fence.desc()).limit(1)).one_or_none()
    if last is None or last.clock_bound <= now:
        return Rewound(0, 0, now)
    _check_ingestion(connection, store, now)
    enter_term(
        connection,
        fence=last.fence + 1,
        owner=REWIND,
        started_at=now,
        served_until=now,
        clock_bound=now,
        unserved_ms=last.unserved_ms - (last.served_until - now),  # keeps served time what it was
    )
    return Rewound(last.clock_bound - now, _set_streams_back(connection, now), now)


def _check_ingestion(connection: Connection, store: str, now: int) -> None:
    table = schema.stream
    ahead = select(table).where(table.c.clock > now, table.c.sealed.is_(False)).order_by(table.c.name)
    configs = ((row.name, decoded(table, row, lambda row: config_of(row.config))) for row in connection.execute(ahead))
    held = [name for name, config in configs if config.time_domain is TimeDomain.INGESTION]
    if held:
        raise CannotRewind(store=store, streams=held)


def _set_streams_back(connection: Connection, now: int) -> int:
    """Sets the clocks of streams back. Their next deadlines become unknown: whoever loads them computes them again."""
    table = schema.stream
    ahead = table.c.clock > now
    connection.execute(update(table).where(ahead | (table.c.wake_at < NEVER)).values(wake_at=None))
    return connection.execute(update(table).where(ahead).values(clock=now)).rowcount
