"""The schema: streams with their segments, writers and marks; reader groups; who may call; who serves."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from controller.cluster.records import SHARDS
from controller.storage.shards import add_shards

revision: str = "0001"
down_revision: str | None = None
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None

# Each after those that refer to it.
TABLES = (
    "writer_state",
    "writer_change",
    "stream_counts",
    "shard",
    "segment",
    "reader_position",
    "reader",
    "mark",
    "journal",
    "group_journal",
    "excluded",
    "token",
    "stream",
    "served",
    "reader_group",
    "deleted",
    "controller",
    "cluster",
)

# Sorted by its bytes, whatever the locale of the database.
NAME = sa.String(length=249).with_variant(sa.String(length=249, collation="C"), "postgresql")


def upgrade() -> None:
    make_serving()
    make_streams()
    make_writers_and_marks()
    make_reader_groups()
    connection = op.get_bind()
    add_shards(connection, SHARDS if connection.dialect.name == "postgresql" else 1, revision)


def make_serving() -> None:
    """Terms of serving; controllers that serve together, and the shards of their store; tokens."""
    op.create_table(
        "served",
        sa.Column("fence", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.String(length=249), nullable=False),
        sa.Column("started_at", sa.BigInteger(), nullable=False),
        sa.Column("served_until", sa.BigInteger(), nullable=False),
        sa.Column("clock_bound", sa.BigInteger(), nullable=False),
        sa.Column("unserved_ms", sa.BigInteger(), nullable=False),
        sa.Column("ended", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("fence", name="pk_served"),
    )
    op.create_table(
        "cluster",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("shards", sa.Integer(), nullable=False),
        sa.Column("code_from", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cluster"),
    )
    op.create_table(
        "controller",
        sa.Column("id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("name", sa.String(length=249), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("client_address", sa.Text(), nullable=True),
        sa.Column("version", sa.String(length=64), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("clock_bound", sa.BigInteger(), nullable=False),
        sa.Column("served_until", sa.BigInteger(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        sa.Column("ended_at", sa.BigInteger(), nullable=True),
        sa.Column("began_at", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_controller"),
    )
    op.create_table(
        "shard",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.BigInteger(), nullable=True),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("served_until", sa.BigInteger(), nullable=False),
        sa.Column("clock_floor", sa.BigInteger(), nullable=False),
        sa.Column("unserved_ms", sa.BigInteger(), nullable=False),
        sa.Column("restored_fence", sa.Integer(), nullable=True),
        sa.Column("restored_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["owner"], ["controller.id"], name="fk_shard_controller"),
        sa.PrimaryKeyConstraint("id", name="pk_shard"),
    )
    op.create_table(
        "token",
        sa.Column("name", NAME, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("role", sa.String(length=16), nullable=False),
        sa.Column("pattern", sa.String(length=249), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=True),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.Column("last_used_at", sa.BigInteger(), nullable=True),
        sa.Column("writers", sa.String(length=249), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_token"),
        sa.UniqueConstraint("digest", name="uq_token_digest"),
    )


def make_streams() -> None:
    """Streams with their segments, counts and journals; and what is left of deleted ones."""
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
        sa.Column("identity", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=249), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("remainders", sa.Text(), nullable=False),
        sa.Column("passed", sa.Text(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=True),
        sa.Column("unserved_ms", sa.BigInteger(), nullable=True),
        sa.Column("wake_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_stream"),
    )
    op.create_index("ix_stream_shard_wake_at", "stream", ["shard", "wake_at"])
    op.create_table(
        "deleted",
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("epochs", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "name", name="pk_deleted"),
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
        sa.Column("last_noted_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_segment_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "id", name="pk_segment"),
    )
    op.create_table(
        "stream_counts",
        sa.Column("stream", NAME, nullable=False),
        sa.Column("counts", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_stream_counts_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", name="pk_stream_counts"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "journal",
        sa.Column("stream", NAME, nullable=False),
        sa.Column("topic", sa.String(length=16), nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("by", NAME, nullable=True),
        sa.Column("details", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_journal_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "topic", "slot", name="pk_journal"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_journal_at_stream_seq", "journal", ["at", "stream", "seq"])


def make_writers_and_marks() -> None:
    """Writers, their log, and marks."""
    op.create_table(
        "writer_state",
        sa.Column("stream", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("through", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_writer_state_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "name", name="pk_writer_state"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "writer_change",
        sa.Column("stream", NAME, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("writers", sa.Text(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_writer_change_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "seq", name="pk_writer_change"),
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
        sa.Column("excluded_since", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_mark_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "key", "seq", name="pk_mark"),
        sqlite_with_rowid=False,
    )
    op.create_index("ix_mark_stream_key_time", "mark", ["stream", "key", "time"], unique=True)
    op.create_table(
        "excluded",
        sa.Column("stream", NAME, nullable=False),
        sa.Column("key", NAME, nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("writers", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_excluded_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "key", "seq", name="pk_excluded"),
        sqlite_with_rowid=False,
    )


def make_reader_groups() -> None:
    """Reader groups, their readers, positions and journals."""
    op.create_table(
        "reader_group",
        sa.Column("name", NAME, nullable=False),
        sa.Column("settings", sa.Text(), nullable=False),
        sa.Column("identities", sa.Text(), nullable=False),
        sa.Column("epochs", sa.BigInteger(), nullable=False),
        sa.Column("caught_up", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("owner", sa.String(length=249), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.Column("held", sa.Text(), nullable=True),
        sa.Column("shard", sa.Integer(), nullable=True),
        sa.Column("unserved_ms", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("name", name="pk_reader_group"),
    )
    op.create_table(
        "reader",
        sa.Column("group", NAME, nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("epoch", sa.BigInteger(), nullable=False),
        sa.Column("heard_at", sa.BigInteger(), nullable=False),
        sa.Column("served_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["group"], ["reader_group.name"], name="fk_reader_reader_group", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("group", "name", name="pk_reader"),
    )
    op.create_table(
        "reader_position",
        sa.Column("group", NAME, nullable=False),
        sa.Column("stream", NAME, nullable=False),
        sa.Column("segment", NAME, nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("reader", NAME, nullable=True),
        sa.Column("settled", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["group"], ["reader_group.name"], name="fk_reader_position_reader_group", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("group", "stream", "segment", name="pk_reader_position"),
    )
    op.create_table(
        "group_journal",
        sa.Column("group", NAME, nullable=False),
        sa.Column("topic", sa.String(length=16), nullable=False),
        sa.Column("slot", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("by", NAME, nullable=True),
        sa.Column("details", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["group"], ["reader_group.name"], name="fk_group_journal_reader_group", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("group", "topic", "slot", name="pk_group_journal"),
        sqlite_with_rowid=False,
    )


def downgrade() -> None:
    """Drops everything."""
    for name in TABLES:
        op.drop_table(name)
