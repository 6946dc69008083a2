"""The tables of a store. A new one gets them at once; `migrations/` brings an older one to them.

Whoever writes a stream or a reader group locks its row in `head`, and writes the others under that lock.

Numbers are BIGINT and maps are JSON text: cuts are read whole and never searched by the database. Whether the bytes of
a row are still those that were written is the database's to check: rows have no checksums of ours.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    text,
)

from strandline.limits import NAME_CHARACTERS

REVISION: Final = "0001"  # the newest in migrations/versions, which leads to these tables

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

# Names are sorted by their bytes in every database, whatever its locale.
_NAME = String(NAME_CHARACTERS).with_variant(String(NAME_CHARACTERS, collation="C"), "postgresql")


def _of_stream() -> Column[str]:
    return Column("stream", _NAME, ForeignKey("stream.name", ondelete="CASCADE"), primary_key=True)


# One row: up to when any controller served the store, for how long nobody could be heard until then, the last restore,
# and the stamp of the last change of tokens, see `tokens.py`.
service = Table(
    "service",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("served_until", BigInteger, nullable=False),
    Column("unserved_ms", BigInteger, nullable=False),
    Column("restored_at", BigInteger),
    Column("tokens", BigInteger),  # null: none was ever made
)

NOT_SERVED: Final = {"id": 1, "served_until": 0, "unserved_ms": 0}  # the row of a new store

# One row for each stream and reader group, see `heads.py`. It changes with each commit.
head = Table(
    "head",
    metadata,
    Column("kind", String(8), primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("identity", String(32), nullable=False),  # another one for what is created again under its name
    Column("version", BigInteger, nullable=False),
    Column("stamp", BigInteger, nullable=False),
    Column("structure", BigInteger, nullable=False),
    Column("clock", BigInteger, nullable=False),
    Column("wake_at", BigInteger, nullable=False),  # time alone changes nothing before it
    Column("journaled", BigInteger, nullable=False),  # the seq of the newest entry of its journal
    Column("standing", Text, nullable=False),  # of a stream; no mark, window or group depends on it
    Column("restored_at", BigInteger),
    Index("ix_head_wake_at", "wake_at"),  # without the kind, by which nothing is to be looked up
)

stream = Table(
    "stream",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("open", Boolean, nullable=False),
    Column("config", Text, nullable=False),
    Column("original", Text, nullable=False),
    Column("sealed", Boolean, nullable=False),
    Column("epochs", BigInteger, nullable=False),
    Column("head", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("remainders", Text, nullable=False),  # by key, what remains of forgotten writers
    Column("passed", Text, nullable=False),  # by key, how far reader groups went on that left it out
)

# The greatest epoch of streams and reader groups that were deleted: one of the same name gives out greater ones.
deleted = Table(
    "deleted",
    metadata,
    Column("kind", String(8), primary_key=True),
    Column("name", _NAME, primary_key=True),
    Column("epochs", BigInteger, nullable=False),
)

segment = Table(
    "segment",
    metadata,
    _of_stream(),
    Column("id", _NAME, primary_key=True),
    Column("place", Integer, nullable=False),  # in the order of their creation
    Column("low", Double),
    Column("high", Double),
    Column("predecessors", Text, nullable=False),
    Column("final_offset", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("last_noted_at", BigInteger),  # to within a minute, exact after an orderly stop
)

# The whole state of a writer, up to row `through` of the log.
writer_state = Table(
    "writer_state",
    metadata,
    _of_stream(),
    Column("name", _NAME, primary_key=True),
    Column("state", Text, nullable=False),
    Column("through", BigInteger, nullable=False),
    sqlite_with_rowid=False,  # one tree to write instead of two
)

# The log: what each commit changed in the writers of a stream, one row for all of them. Its seq is the version.
writer_change = Table(
    "writer_change",
    metadata,
    _of_stream(),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("writers", Text, nullable=False),
    Column("stamp", BigInteger, nullable=False),
)

_KNOWN = text("newest IS NOT NULL")

mark = Table(
    "mark",
    metadata,
    _of_stream(),
    Column("key", _NAME, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("time", BigInteger, nullable=False),
    Column("upper", BigInteger, nullable=False),
    Column("cut", Text, nullable=False),
    Column("newest", BigInteger),
    Column("excluded_since", BigInteger),  # the seq under which `excluded` has whom it leaves out; null: nobody
    Column("created_at", BigInteger, nullable=False),
    Index("ix_mark_stream_key_time", "stream", "key", "time", unique=True),
    Index("ix_mark_stream_key_newest", "stream", "key", "newest", "seq", sqlite_where=_KNOWN, postgresql_where=_KNOWN),
    sqlite_with_rowid=False,
)

# Whom marks leave out: one row for all marks in a row that leave out the same writers, with the seq of the first.
excluded = Table(
    "excluded",
    metadata,
    _of_stream(),
    Column("key", _NAME, primary_key=True),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("writers", Text, nullable=False),
    sqlite_with_rowid=False,
)

reader_group = Table(
    "reader_group",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("settings", Text, nullable=False),
    Column("identities", Text, nullable=False),  # of its streams, when it began to read them
    Column("epochs", BigInteger, nullable=False),
    Column("caught_up", Boolean, nullable=False),  # the group was found not to be in backlog
    Column("created_at", BigInteger, nullable=False),
    Column("held", Text),  # what was reported, if the streams now show less (`Held`)
)


def _of_group() -> Column[str]:
    return Column("group", _NAME, ForeignKey("reader_group.name", ondelete="CASCADE"), primary_key=True)


reader = Table(
    "reader",
    metadata,
    _of_group(),
    Column("name", _NAME, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("heard_at", BigInteger, nullable=False),
    Column("served_at", BigInteger, nullable=False),  # the served time of its last call
    Column("registration", _NAME),  # the caller's name for its last registration
)

# How far a group has read in a segment, and which reader owns it.
reader_position = Table(
    "reader_position",
    metadata,
    _of_group(),
    Column("stream", _NAME, primary_key=True),
    Column("segment", _NAME, primary_key=True),
    Column("offset", BigInteger, nullable=False),
    Column("reader", _NAME),
    Column("settled", BigInteger),  # null: everything that was read
)


def _journal(name: str, owner: Column[str]) -> Table:
    """The newest entries of each topic."""
    return Table(
        name,
        metadata,
        owner,
        Column("seq", BigInteger, primary_key=True, autoincrement=False),  # one sequence for all topics
        Column("topic", String(16), nullable=False),
        Column("at", BigInteger, nullable=False),
        Column("kind", String(32), nullable=False),
        Column("by", _NAME),  # the name of the caller's token
        Column("details", Text, nullable=False),
        Index(f"ix_{name}_topic_seq", owner.name, "topic", "seq"),
        sqlite_with_rowid=False,
    )


# Who may call. Rows are added and marked as revoked, never deleted.
token = Table(
    "token",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # SHA-256 of the token, which itself is not stored
    Column("role", String(16), nullable=False),
    Column("pattern", String(NAME_CHARACTERS), nullable=False),  # of the names of streams
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger),  # to within a minute
    Column("writers", String(NAME_CHARACTERS)),  # pattern of the writers' names that it is bound to; null: any
)

# The journals of streams and of reader groups.
journal = _journal("journal", _of_stream())
group_journal = _journal("group_journal", _of_group())

# One row for each controller that serves the store, see `presence.py`.
controller = Table(
    "controller",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", String(NAME_CHARACTERS), nullable=False),
    Column("version", String(64), nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("ended", Boolean, nullable=False),  # in order: it will not be seen again
)
