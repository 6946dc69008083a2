"""The time in which no caller could be heard, as one number, in place of gaps between terms."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from controller.storage.backfill import fill_checksums

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Adds up the gaps between terms. The times at which writers and readers were last heard do not change, as if they
    were before all gaps. So after the upgrade nobody times out too early; a silent one may time out later, by at most
    that sum."""
    op.add_column("served", sa.Column("unserved_ms", sa.BigInteger(), nullable=False, server_default="0"))
    op.drop_column("reader", "checksum")  # it must be the last column
    op.add_column("reader", sa.Column("served_at", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("reader", sa.Column("checksum", sa.BigInteger(), nullable=True))
    op.execute("UPDATE reader SET served_at = heard_at")
    connection = op.get_bind()
    fill_checksums(connection, "reader", ("group", "name"), ("epoch", "heard_at", "served_at"), ())
    entered = sa.text("UPDATE served SET unserved_ms = :unserved WHERE fence = :fence")
    unserved, before = 0, None
    for row in connection.execute(sa.text("SELECT fence, started_at, served_until FROM served ORDER BY fence")).all():
        if before is not None:
            unserved += max(0, row.started_at - before)
        before = row.served_until
        connection.execute(entered, {"unserved": unserved, "fence": row.fence})


def downgrade() -> None:
    """Drops both columns. Writers' documents do not change: the earlier version ignores the new field at their end."""
    op.drop_column("reader", "served_at")
    fill_checksums(op.get_bind(), "reader", ("group", "name"), ("epoch", "heard_at"), ())
    op.drop_column("served", "unserved_ms")
