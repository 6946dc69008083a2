"""The writers that a token is bound to."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Adds a column; a token with null there may act for every writer, as before."""
    op.add_column("token", sa.Column("writers", sa.String(length=249), nullable=True))


def downgrade() -> None:
    """Drops the column, and the tokens that were bound to writers: they could act for all writers otherwise."""
    op.execute("DELETE FROM token WHERE writers IS NOT NULL")
    op.drop_column("token", "writers")
