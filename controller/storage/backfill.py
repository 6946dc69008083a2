"""Checksums of existing rows, for migrations: one that adds a column before the checksum of a table ends with this.

One after it, which may be null, needs nothing: the checksums of rows without a value stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from zlib import crc32

import msgspec
import sqlalchemy as sa

SLICE_ROWS = 200


def fill_checksums(
    connection: sa.Connection, name: str, keys: Sequence[str], others: Sequence[str], flags: Sequence[str]
) -> None:
    """Writes the checksum of every row of a table, SLICE_ROWS at a time.

    `keys` and `others` name all columns but the checksum, in the order of the table: first `keys`, the primary key,
    then `others`. `flags` names the boolean columns.
    """
    columns = [sa.column(each, sa.Boolean() if each in flags else None) for each in (*keys, *others)]
    table = sa.table(name, *columns, sa.column("checksum", sa.BigInteger()))
    key = [table.c[each] for each in keys]
    rows = sa.select(*(table.c[each] for each in (*keys, *others))).order_by(*key).limit(SLICE_ROWS)
    start, encode = crc32(name.encode()), msgspec.json.Encoder().encode
    of_key = [f"of_{each}" for each in keys]
    put = (
        sa.update(table)
        .where(*(column == sa.bindparam(name) for column, name in zip(key, of_key, strict=True)))
        .values(checksum=sa.bindparam("found"))
    )
    after: sa.ColumnElement[bool] = sa.true()
    while found := [tuple(row) for row in connection.execute(rows.where(after))]:
        values = [dict(zip(of_key, row, strict=False), found=crc32(encode(row), start)) for row in found]
        connection.execute(put, values)
        after = sa.tuple_(*key) > sa.tuple_(*(sa.literal(value) for value in found[-1][: len(keys)]))
