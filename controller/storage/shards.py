"""Shards, for migrations and for a store that is made at once: which one a stream or a reader group belongs to."""

from __future__ import annotations

from zlib import crc32

import sqlalchemy as sa

from controller.cluster.records import SHARDS

SLICE_ROWS = 1_000
KINDS = {"stream": "stream", "reader_group": "group"}  # by table


def shard_of(kind: str, name: str, shards: int) -> int:
    """The shard of a stream ("stream") or a reader group ("group"), in a store with so many. It never changes."""
    return crc32(f"{kind}/{name}".encode()) % shards


def add_shards(connection: sa.Connection) -> None:
    """Enters how many shards the store has, and adds them. Nobody owns them yet."""
    shards = SHARDS if connection.dialect.name == "postgresql" else 1
    names = ("id", "fence", "served_until", "clock_floor", "unserved_ms")
    shard = sa.table("shard", *(sa.column(name, sa.BigInteger()) for name in names))
    connection.execute(sa.insert(shard), [dict.fromkeys(names, 0) | {"id": number} for number in range(shards)])
    cluster = sa.table("cluster", *(sa.column(name, sa.BigInteger()) for name in ("id", "version", "shards")))
    connection.execute(sa.insert(cluster).values(id=1, version=0, shards=shards))


def fill_shards(connection: sa.Connection) -> None:
    """Enters the shards of all streams and reader groups that have none, SLICE_ROWS at a time."""
    shards = connection.execute(sa.select(sa.table("cluster", sa.column("shards", sa.Integer())).c.shards)).scalar_one()
    for name, kind in KINDS.items():
        table = sa.table(name, sa.column("name", sa.String()), sa.column("shard", sa.Integer()))
        without = sa.select(table.c.name).where(table.c.shard.is_(None)).limit(SLICE_ROWS)
        put = sa.update(table).where(table.c.name == sa.bindparam("of_name")).values(shard=sa.bindparam("its"))
        while names := connection.execute(without).scalars().all():
            connection.execute(put, [{"of_name": each, "its": shard_of(kind, each, shards)} for each in names])
