"""A checksum for each row that marks, windows and reader groups depend on."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from controller.storage.backfill import fill_checksums

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# The columns in the order in which the checksum covers them, the primary key first.
TABLES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "stream": (
        ("name",),
        (
            "open",
            "config",
            "original",
            "sealed",
            "epochs",
            "head",
            "clock",
            "created_at",
            "owner",
            "fence",
            "remainders",
        ),
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
    "reader_position": (("group", "stream", "segment"), ("offset", "reader", "settled")),
}
FLAGS = ("open", "sealed", "caught_up")


def upgrade() -> None:
    """Adds a column to each of these tables, and computes it for the existing rows.

    Earlier damage cannot be found: each row counts as it is.
    """
    for name in TABLES:
        op.add_column(name, sa.Column("checksum", sa.BigInteger(), nullable=True))
    for name, (keys, others) in TABLES.items():
        fill_checksums(op.get_bind(), name, keys, others, FLAGS)


def downgrade() -> None:
    """Drops the checksums."""
    for name in TABLES:
        op.drop_column(name, "checksum")
