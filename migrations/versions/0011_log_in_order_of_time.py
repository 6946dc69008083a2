"""SQLite: the rows of the log of writers lie in the order of time, whatever their stream."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None
only_adds: bool = True  # earlier versions read and write either table

COLUMNS = "stream, seq, writers, fence, checksum"


def upgrade() -> None:
    make_again(with_rowid=True)


def downgrade() -> None:
    make_again(with_rowid=False)


def make_again(*, with_rowid: bool) -> None:
    """Makes the table again with or without SQLite's row ids. PostgreSQL's tables have no such choice."""
    if op.get_bind().dialect.name == "postgresql":
        return
    op.rename_table("writer_change", "earlier_writer_change")
    op.create_table(
        "writer_change",
        sa.Column("stream", sa.String(length=249), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("writers", sa.Text(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("checksum", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_writer_change_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "seq", name="pk_writer_change"),
        sqlite_with_rowid=with_rowid,
    )
    op.execute(
        f"INSERT INTO writer_change ({COLUMNS}) SELECT {COLUMNS} FROM earlier_writer_change ORDER BY stream, seq"
    )
    op.drop_table("earlier_writer_change")
