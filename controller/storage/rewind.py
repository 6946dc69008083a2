"""Sets a store's clock back, if it ran ahead. No controller may serve the store meanwhile.

The clock of a controller that serves alone follows its host's; that of several is the database server's. Served time,
which measures silence, continues where it was. Event time comes from the application and is not affected. Marks in the
ingestion time domain hold the controller's clock, and every later event must be newer than they say. So if such a
stream is ahead and not sealed, nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, and_, insert, or_, select, update

from controller.limits import NEVER, REWIND_SLICE_STREAMS
from controller.storage import schema
from controller.storage.checksums import CHECKSUMS
from controller.storage.cluster import rewind_shards
from controller.storage.refusals import CannotRewind
from controller.storage.rows import config_of
from controller.storage.terms import REWIND, were_served_together
from strandline.core.config import TimeDomain


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
    connection.execute(
        insert(table).values(
            fence=last.fence + 1,
            owner=REWIND,
            started_at=now,
            served_until=now,
            clock_bound=now,
            unserved_ms=last.unserved_ms - (last.served_until - now),  # keeps served time what it was
        )
    )
    return Rewound(last.clock_bound - now, _set_streams_back(connection, now), now)


def _check_ingestion(connection: Connection, store: str, now: int) -> None:
    table = schema.stream
    ahead = connection.execute(
        select(table.c.name, table.c.config)
        .where(table.c.clock > now, table.c.sealed.is_(False))
        .order_by(table.c.name)
    )
    held = [row.name for row in ahead if config_of(row.config).time_domain is TimeDomain.INGESTION]
    if held:
        raise CannotRewind(store, held)


def _set_streams_back(connection: Connection, now: int) -> int:
    """Sets the clocks of streams back. It is not known any more when time changes them: whoever takes them looks."""
    table = schema.stream
    checksums = CHECKSUMS[table]
    count = 0
    wanted = or_(table.c.clock > now, and_(table.c.wake_at.is_not(None), table.c.wake_at < NEVER))
    while rows := connection.execute(
        select(table).where(wanted).order_by(table.c.name).limit(REWIND_SLICE_STREAMS)
    ).all():
        for row in rows:
            checksums.check(row)  # else the new checksum would make a damaged row look sound
            values = {**row._mapping, "clock": min(row.clock, now), "wake_at": None}
            changed = {name: values[name] for name in ("clock", "wake_at")} | {"checksum": checksums.of(values)}
            connection.execute(update(table).where(table.c.name == row.name).values(changed))
            count += row.clock > now
    return count
