"""Tokens: who may call."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Adds a table; while it is empty, the controller serves as before."""
    op.create_table(
        "token",
        sa.Column(
            "name",
            sa.String(length=249).with_variant(sa.String(length=249, collation="C"), "postgresql"),
            nullable=False,
        ),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("pattern", sa.String(length=249), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_token"),
        sa.UniqueConstraint("digest", name="uq_token_digest"),
    )


def downgrade() -> None:
    """Drops the tokens: a controller of the version before requires none."""
    op.drop_table("token")
