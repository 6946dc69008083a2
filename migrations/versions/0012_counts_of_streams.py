"""What was counted of a stream since it was made."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None
only_adds: bool = True

NAME = sa.String(length=249).with_variant(sa.String(length=249, collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "stream_counts",
        sa.Column("stream", NAME, nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_stream_counts_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", name="pk_stream_counts"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    op.drop_table("stream_counts")
