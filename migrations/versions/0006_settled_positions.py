"""How far a reader has settled what it has read."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    """Adds a column; a position with null there is settled as far as it was read, as before."""
    op.add_column("reader_position", sa.Column("settled", sa.BigInteger(), nullable=True))


def downgrade() -> None:
    """Drops the column. Positions go back to what was settled, so that unsettled events are read again."""
    op.execute('UPDATE reader_position SET "offset" = settled WHERE settled IS NOT NULL')
    op.drop_column("reader_position", "settled")
