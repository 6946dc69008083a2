"""Shards, and the controllers that own them: what many controllers on one store need."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

from controller.storage.backfill import fill_checksums
from controller.storage.shards import KINDS, add_shards, fill_shards

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None
only_adds: bool = True

SHARDS = 256  # of a store that exists, in PostgreSQL; a file has one controller, and one shard

COVERED = {  # by the checksums of the earlier version
    "stream": (
        [
            "open",
            "config",
            "original",
            "sealed",
            "epochs",
            "head",
            "clock",
            "created_at",
            "owner",
            "fence",
            "remainders",
        ]
    ),
    "reader_group": ["settings", "epochs", "caught_up", "created_at", "owner", "fence", "held"],
}


def upgrade() -> None:
    """Only adds: tables, columns that may be null, and indexes. The checksums of existing rows stay as they are."""
    make_tables()
    for name in KINDS:
        op.add_column(name, sa.Column("shard", sa.Integer(), nullable=True))
        op.add_column(name, sa.Column("unserved_ms", sa.BigInteger(), nullable=True))
        op.add_column(name, sa.Column("wake_at", sa.BigInteger(), nullable=True))
        op.create_index(f"ix_{name}_shard_wake_at", name, ["shard", "wake_at"])
    connection = op.get_bind()
    add_shards(connection, SHARDS if connection.dialect.name == "postgresql" else 1, revision)
    fill_shards(connection)


def make_tables() -> None:
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
        "cluster",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("shards", sa.Integer(), nullable=False),
        sa.Column("code_from", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_cluster"),
    )


def downgrade() -> None:
    """Drops all of it, and computes the checksums that covered some of it again."""
    for name, others in COVERED.items():
        op.drop_index(f"ix_{name}_shard_wake_at", name)
        for column in ("shard", "unserved_ms", "wake_at"):
            op.drop_column(name, column)
        fill_checksums(op.get_bind(), name, ("name",), others, ("open", "sealed", "caught_up"))
    op.drop_table("shard")
    op.drop_table("controller")
    op.drop_table("cluster")
