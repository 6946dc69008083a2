"""The tables of the first release. Until then they change in `controller/storage/schema.py` alone."""

from collections.abc import Sequence

from alembic import op

from controller.storage.schema import metadata
from controller.storage.shards import add_shards

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    connection = op.get_bind()
    metadata.create_all(connection, checkfirst=False)
    add_shards(connection)


def downgrade() -> None:
    """Drops everything."""
    metadata.drop_all(op.get_bind())
