"""The tables of a store. A new one gets them at once; `migrations/` brings an older one to them.

A row that the owner of a stream writes has its `fence`: the number of the term of serving that wrote it. A term begins
when a controller starts, and has a greater number than all before it.

Numbers are BIGINT and maps are JSON text: cuts are read whole and never searched by the database. Whether the bytes of
a row are still those that were written is the database's to know: rows have no checksums of ours.

A stream, or a reader group, belongs to a shard, and a shard to one of the controllers that serve the store together
(`cluster.py`, PostgreSQL only). A store in SQLite has one shard, which its controller does not look at.
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


SHARD: Final = "shard"  # the column that follows from a row's name: it is never overwritten


def _of_shard() -> list[Column[int]]:
    """What controllers that share a store keep of a stream or group. A row that one controller alone wrote has none."""
    return [
        Column(SHARD, Integer),
        Column("unserved_ms", BigInteger),  # of the shard, when this row was written
    ]


# One row for each term of serving.
served = Table(
    "served",
    metadata,
    Column("fence", Integer, primary_key=True, autoincrement=False),
    Column("owner", String(NAME_CHARACTERS), nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("served_until", BigInteger, nullable=False),
    Column("clock_bound", BigInteger, nullable=False),
    Column("unserved_ms", BigInteger, nullable=False),  # how long, until served_until, no caller could be heard
    Column("ended", Boolean, nullable=False),  # a later term has begun
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
    Column("clock", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("identity", String(32), nullable=False),  # another one for a stream that is created again under its name
    Column("owner", String(NAME_CHARACTERS), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("remainders", Text, nullable=False),  # by key, what remains of forgotten writers
    Column("passed", Text, nullable=False),  # by key, how far reader groups went on that left it out
    *_of_shard(),
    Column("wake_at", BigInteger),  # time alone changes nothing before it; null: that is not known
    Index("ix_stream_shard_wake_at", SHARD, "wake_at"),
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

# What was counted of a stream since it was made, to within a minute, exact after an orderly stop. No mark, window or
# group depends on it.
stream_counts = Table(
    "stream_counts",
    metadata,
    _of_stream(),
    Column("counts", Text, nullable=False),
    sqlite_with_rowid=False,
)

# The whole state of a writer, up to row `through` of the log.
writer_state = Table(
    "writer_state",
    metadata,
    _of_stream(),
    Column("name", _NAME, primary_key=True),
    Column("state", Text, nullable=False),
    Column("through", BigInteger, nullable=False),
    Column("fence", Integer, nullable=False),
    sqlite_with_rowid=False,  # one tree to write instead of two
)

# The log: what a commit changed in the writers of a stream, one row for all of them.
writer_change = Table(
    "writer_change",
    metadata,
    _of_stream(),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("writers", Text, nullable=False),
    Column("fence", Integer, nullable=False),
)

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
    Column("fence", Integer, nullable=False),
    Index("ix_mark_stream_key_time", "stream", "key", "time", unique=True),
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
    Column("owner", String(NAME_CHARACTERS), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("held", Text),  # by key, the watermark that was reported, if the streams now show a lesser one
    *_of_shard(),
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
    Column("served_at", BigInteger, nullable=False),  # the served time when it was heard
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


def _journal(name: str, owner: Column[str], *further: Index) -> Table:
    """A ring for each topic: when it is full, the newest entry replaces the oldest."""
    return Table(
        name,
        metadata,
        owner,
        Column("topic", String(16), primary_key=True),
        Column("slot", Integer, primary_key=True, autoincrement=False),
        Column("seq", BigInteger, nullable=False),  # one sequence for all topics
        Column("at", BigInteger, nullable=False),
        Column("kind", String(32), nullable=False),
        Column("by", _NAME),  # the name of the caller's token
        Column("details", Text, nullable=False),
        *further,
        sqlite_with_rowid=False,
    )


# Who may call. Rows are added and marked as revoked, never deleted, so two counts show whether anything changed.
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
journal = _journal("journal", _of_stream(), Index("ix_journal_at_stream_seq", "at", "stream", "seq"))
group_journal = _journal("group_journal", _of_group())

# One row for each run of a controller that serves the store together with others.
controller = Table(
    "controller",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),  # random, and never used again
    Column("name", String(NAME_CHARACTERS), nullable=False),
    Column("address", Text, nullable=False),  # for other controllers
    Column("client_address", Text),  # for clients, if they may call it directly
    Column("version", String(64), nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("clock_bound", BigInteger, nullable=False),  # it shows no time that is not below
    Column("served_until", BigInteger, nullable=False),  # callers could be heard until then
    Column("draining", Boolean, nullable=False),
    Column("ended_at", BigInteger),  # null while it may write
    Column("began_at", BigInteger, nullable=False),
)

# Which controller owns which streams and groups. Each change of owner increments the fence.
shard = Table(
    "shard",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("owner", BigInteger, ForeignKey("controller.id")),  # null: nobody's
    Column("fence", Integer, nullable=False),
    Column("served_until", BigInteger, nullable=False),  # when it was taken or released last
    Column("clock_floor", BigInteger, nullable=False),  # no time of its streams is below
    Column("unserved_ms", BigInteger, nullable=False),  # how long nobody served it; only grows
    Column("restored_fence", Integer),  # rows with a lesser fence were written before the last restore
    Column("restored_at", BigInteger),
)

# One row.
cluster = Table(
    "cluster",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", BigInteger, nullable=False),  # moves whenever the owner or the fence of a shard does
    Column("shards", Integer, nullable=False),  # fixed when the store is made
)
