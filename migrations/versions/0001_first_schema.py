"""The first schema: streams with their segments, writers and marks; reader groups; terms of serving."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# Sorted by its bytes, whatever the locale of the database.
NAME = sa.String(length=249).with_variant(sa.String(length=249, collation="C"), "postgresql")


def upgrade() -> None:
    """Makes the tables of release 0.1."""
    make_served_and_streams()
    make_writers_and_marks()
    make_reader_groups()


def make_served_and_streams() -> None:
    """Terms of serving; streams and their segments."""
    op.create_table(
        "served",
        sa.Column("fence", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.String(length=249), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("served_until", sa.BigInteger(), nullable=False),
        sa.Column("clock_bound", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("fence", name=op.f("pk_served")),
    )
    op.create_table(
        "stream",
        sa.Column("name", NAME, nullable=False),
        sa.Column("open", sa.Boolean(), nullable=False),
        sa.Column("config", sa.Text(), nullable=False),
        sa.Column("original", sa.Text(), nullable=False),
        sa.Column("sealed", sa.Boolean(), nullable=False),
        sa.Column("epochs", sa.BigInteger(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("clock", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=249), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_stream")),
    )
    op.create_table(
        "segment",
        sa.Column("stream", NAME, nullable=False),
        sa.Column("id", NAME, nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("low", sa.Double(), nullable=True),
        sa.Column("high", sa.Double(), nullable=True),
        sa.Column("predecessors", sa.Text(), nullable=False),
        sa.Column("final_offset", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name=op.f("fk_segment_stream"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "id", name=op.f("pk_segment")),
    )


def make_writers_and_marks() -> None:
    """Writers, the notes that later marks may need, and marks."""
    op.create_table(
        "writer",
        sa.Column("stream", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=False),
        sa.Column("tail", sa.Boolean(), nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=True),
        sa.Column("closed", sa.Boolean(), nullable=False),
        sa.Column("closed_epoch", sa.BigInteger(), nullable=True),
        sa.Column("excluded_at", sa.BigInteger(), nullable=True),
        sa.Column("noted", sa.Text(), nullable=False),
        sa.Column("position", sa.Text(), nullable=False),
        sa.Column("standings", sa.Text(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name=op.f("fk_writer_stream"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "name", name=op.f("pk_writer")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "note_history",
        sa.Column("stream", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("writer", NAME, nullable=False),
        sa.Column("time", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cut", sa.Text(), nullable=False),
        sa.Column("newest", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name=op.f("fk_note_history_stream"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "key", "writer", "time", name=op.f("pk_note_history")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "mark",
        sa.Column("stream", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("time", sa.BigInteger(), nullable=False),
        sa.Column("upper", sa.BigInteger(), nullable=False),
        sa.Column("cut", sa.Text(), nullable=False),
        sa.Column("newest", sa.BigInteger(), nullable=True),
        sa.Column("excluded", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name=op.f("fk_mark_stream"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "key", "seq", name=op.f("pk_mark")),
        sqlite_with_rowid=False,
    )
    with op.batch_alter_table("mark", schema=None) as batch_op:
        batch_op.create_index("ix_mark_stream_key_time", ["stream", "key", "time"], unique=True)


def make_reader_groups() -> None:
    """Reader groups, their readers and positions."""
    op.create_table(
        "reader_group",
        sa.Column("name", NAME, nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("epochs", sa.BigInteger(), nullable=False),
        sa.Column("caught_up", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=249), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_reader_group")),
    )
    op.create_table(
        "reader",
        sa.Column("group", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group"], ["reader_group.name"], name=op.f("fk_reader_reader_group"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("group", "name", name=op.f("pk_reader")),
    )
    op.create_table(
        "reader_position",
        sa.Column("group", NAME, nullable=False),
        sa.Column("stream", NAME, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("reader", NAME, nullable=True),
        sa.ForeignKeyConstraint(
            ["group"], ["reader_group.name"], name=op.f("fk_reader_position_reader_group"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("group", "stream", "segment", name=op.f("pk_reader_position")),
    )


def downgrade() -> None:
    """Drops everything."""
    op.drop_table("writer")
    op.drop_table("segment")
    op.drop_table("reader_position")
    op.drop_table("reader")
    op.drop_table("note_history")
    with op.batch_alter_table("mark", schema=None) as batch_op:
        batch_op.drop_index("ix_mark_stream_key_time")

    op.drop_table("mark")
    op.drop_table("stream")
    op.drop_table("served")
    op.drop_table("reader_group")
