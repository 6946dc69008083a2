"""What remains of forgotten writers."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Adds a column; no writer was forgotten before."""
    op.add_column("stream", sa.Column("remainders", sa.Text(), nullable=False, server_default="{}"))


def downgrade() -> None:
    """Drops the column: `min_writers` no longer counts the writers that were forgotten, and `newest` forgets them."""
    op.drop_column("stream", "remainders")
