"""The tables of the first release. Until then they change in `controller/storage/schema.py` alone."""

from collections.abc import Sequence

from alembic import op

from controller.storage.schema import NOT_SERVED, metadata, service

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def upgrade() -> None:
    metadata.create_all(op.get_bind(), checkfirst=False)
    op.get_bind().execute(service.insert().values(NOT_SERVED))


def downgrade() -> None:
    """Drops everything."""
    metadata.drop_all(op.get_bind())
