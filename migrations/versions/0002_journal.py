"""The journals; when a segment was last noted; the watermarks that were reported to a reader group."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def _name() -> sa.types.TypeEngine[str]:
    return sa.String(length=249).with_variant(sa.String(length=249, collation="C"), "postgresql")


def upgrade() -> None:
    """Adds two tables and two columns; existing data does not change."""
    for table, owner, owners in (("journal", "stream", "stream"), ("group_journal", "group", "reader_group")):
        op.create_table(
            table,
            sa.Column(owner, _name(), nullable=False),
            sa.Column("topic", sa.String(length=16), nullable=False),
            sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
            sa.Column("seq", sa.BigInteger(), nullable=False),
            sa.Column("at", sa.BigInteger(), nullable=False),
            sa.Column("kind", sa.String(length=32), nullable=False),
            sa.Column("by", _name(), nullable=True),
            sa.Column("details", sa.Text(), nullable=False),
            sa.ForeignKeyConstraint([owner], [f"{owners}.name"], name=f"fk_{table}_{owners}", ondelete="CASCADE"),
            sa.PrimaryKeyConstraint(owner, "topic", "slot", name=f"pk_{table}"),
            sqlite_with_rowid=False,
        )
    op.add_column("segment", sa.Column("last_noted_at", sa.BigInteger(), nullable=True))
    op.add_column("reader_group", sa.Column("held", sa.Text(), nullable=True))


def downgrade() -> None:
    """Drops the journals with their entries, and the two columns."""
    op.drop_column("reader_group", "held")
    op.drop_column("segment", "last_noted_at")
    op.drop_table("group_journal")
    op.drop_table("journal")
