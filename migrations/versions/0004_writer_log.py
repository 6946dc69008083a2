"""Writers as documents, and a log of their changes."""

import json
from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: Sequence[str] | None = None
depends_on: Sequence[str] | None = None


def _name() -> sa.types.TypeEngine[str]:
    return sa.String(length=249).with_variant(sa.String(length=249, collation="C"), "postgresql")


def upgrade() -> None:
    """Converts the stored data: every writer becomes a document that includes its history."""
    make_tables()
    connection = op.get_bind()
    histories: dict[tuple[str, str], dict[str, list[Any]]] = {}
    for row in connection.execute(sa.text("SELECT * FROM note_history ORDER BY time")):
        of_writer = histories.setdefault((row.stream, row.writer), {})
        of_writer.setdefault(row.key, []).append([row.time, json.loads(row.cut), row.newest])
    added = sa.text(
        "INSERT INTO writer_state (stream, name, state, through, fence) VALUES (:stream, :name, :state, 0, :fence)"
    )
    for row in connection.execute(sa.text("SELECT * FROM writer")).all():
        state = json.dumps(document(row, histories.get((row.stream, row.name), {})))
        connection.execute(added, {"stream": row.stream, "name": row.name, "state": state, "fence": row.fence})
    op.drop_table("note_history")
    op.drop_table("writer")


def make_tables() -> None:
    op.create_table(
        "writer_state",
        sa.Column("stream", _name(), nullable=False),
        sa.Column("name", _name(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("through", sa.BigInteger(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_writer_state_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "name", name="pk_writer_state"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "writer_change",
        sa.Column("stream", _name(), nullable=False),
        sa.Column("seq", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("writers", sa.Text(), nullable=False),
        sa.Column("fence", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_writer_change_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "seq", name="pk_writer_change"),
        sqlite_with_rowid=False,
    )


def document(row: Any, histories: dict[str, list[Any]]) -> list[Any]:
    """A writer as release 0.1 reads it."""
    standings = {}
    for key, each in json.loads(row.standings).items():
        named = [each.get(name) for name in ("floor", "time", "newest")]
        more = [each.get("has_noted", False), each.get("lost_at"), each.get("told_floor")]
        standings[key] = [each["phase"], *named, *more, True, histories.get(key, [])]
    said = [row.name, row.heard_at, bool(row.tail), row.epoch, bool(row.closed), row.closed_epoch, row.excluded_at]
    return [*said, json.loads(row.noted), json.loads(row.position), standings]


def downgrade() -> None:
    """Creates the two earlier tables. The state of writers cannot be converted, and is lost."""
    op.drop_table("writer_change")
    op.drop_table("writer_state")
    op.create_table(
        "writer",
        sa.Column("stream", _name(), nullable=False),
        sa.Column("name", _name(), nullable=False),
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
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_writer_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "name", name="pk_writer"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "note_history",
        sa.Column("stream", _name(), nullable=False),
        sa.Column("key", _name(), nullable=False),
        sa.Column("writer", _name(), nullable=False),
        sa.Column("time", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("cut", sa.Text(), nullable=False),
        sa.Column("newest", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["stream"], ["stream.name"], name="fk_note_history_stream", ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("stream", "key", "writer", "time", name="pk_note_history"),
        sqlite_with_rowid=False,
    )
