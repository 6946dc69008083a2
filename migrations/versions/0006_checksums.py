"""A checksum for each row that marks, windows and reader groups are made of."""

from collections.abc import Sequence
from zlib import crc32

import msgspec
import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

SLICE_ROWS = 1_000

# The columns in the order in which the checksum covers them, those of the primary key first.
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "stream": (
        ("name",),
        ("open", "config", "original", "sealed", "epochs", "head", "clock", "created_at", "owner", "fence"),
    ),
    "segment": (
        ("stream", "id"),
        ("place", "low", "high", "predecessors", "final_offset", "created_at", "last_noted_at"),
    ),
    "writer_state": (("stream", "name"), ("state", "through", "fence")),
    "writer_change": (("stream", "seq"), ("writers", "fence")),
    "mark": (
        ("stream", "key", "seq"),
        ("time", "upper", "cut", "newest", "excluded", "created_at", "fence"),
    ),
    "reader_group": (("name",), ("settings", "epochs", "caught_up", "created_at", "owner", "fence", "held")),
    "reader": (("group", "name"), ("epoch", "heard_at")),
    "reader_position": (("group", "stream", "segment"), ("offset", "reader")),
}
BOOLEANS = ("open", "sealed", "caught_up")


def upgrade() -> None:
    """Adds a column to each of these tables and works it out for the rows that are there, a slice at a time.

    Nobody can tell what of them was damaged before: they count as they are.
    """
    for name in TABLES:
        op.add_column(name, sa.Column("checksum", sa.BigInteger(), nullable=True))
    for name, (keys, others) in TABLES.items():
        fill(op.get_bind(), name, keys, others)


def fill(connection: sa.Connection, name: str, keys: Sequence[str], others: Sequence[str]) -> None:
    columns = [sa.column(each, sa.Boolean() if each in BOOLEANS else None) for each in (*keys, *others)]
    table = sa.table(name, *columns, sa.column("checksum", sa.BigInteger()))
    key = [table.c[each] for each in keys]
    rows = sa.select(*(table.c[each] for each in (*keys, *others))).order_by(*key).limit(SLICE_ROWS)
    start, encode = crc32(name.encode()), msgspec.json.Encoder().encode
    put = (
        sa.update(table)
        .where(*(column == sa.bindparam(f"of_{column.name}") for column in key))
        .values(checksum=sa.bindparam("found"))
    )
    of_key = [f"of_{each}" for each in keys]
    after: sa.ColumnElement[bool] = sa.true()
    while found := [tuple(row) for row in connection.execute(rows.where(after))]:
        values = [dict(zip(of_key, row, strict=False), found=crc32(encode(row), start)) for row in found]
        connection.execute(put, values)
        after = sa.tuple_(*key) > sa.tuple_(*(sa.literal(value) for value in found[-1][: len(keys)]))


def downgrade() -> None:
    """Drops the checksums."""
    for name in TABLES:
        op.drop_column(name, "checksum")
