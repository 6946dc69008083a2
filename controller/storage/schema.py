"""The tables, as a fresh store gets them. The migrations build the same; a test compares them.

What the owner of a stream writes carries its `fence`: the number of the term of serving that wrote it. A term begins
when a controller starts and has a greater number than all before it.

Numbers go as BIGINT, maps as JSON text: cuts are read whole and never searched by the database. What marks and windows
are made of has a checksum in each row (`checksums.py`), and so has what reader groups stand on.
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

REVISION: Final = "0009"  # the newest in migrations/versions: after it a store has these tables

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(referred_table_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

# Names are in the order of their bytes in every database, whatever language it is set to.
_NAME = String(NAME_CHARACTERS).with_variant(String(NAME_CHARACTERS, collation="C"), "postgresql")


def _of_stream() -> Column[str]:
    return Column("stream", _NAME, ForeignKey("stream.name", ondelete="CASCADE"), primary_key=True)


def _checksum() -> Column[int]:
    """The last column of its table. It covers all others."""
    return Column("checksum", BigInteger)


# One row for each time that a controller began to serve, and how long it did.
served = Table(
    "served",
    metadata,
    Column("fence", Integer, primary_key=True, autoincrement=False),
    Column("owner", String(NAME_CHARACTERS), nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("served_until", BigInteger, nullable=False),
    Column("clock_bound", BigInteger, nullable=False),
    Column("unserved_ms", BigInteger, nullable=False, server_default="0"),  # nobody was heard, until served_until
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
    Column("owner", String(NAME_CHARACTERS), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("remainders", Text, nullable=False, server_default="{}"),  # by key, what forgotten writers left behind
    _checksum(),
)

segment = Table(
    "segment",
    metadata,
    _of_stream(),
    Column("id", _NAME, primary_key=True),
    Column("place", Integer, nullable=False),  # in the order in which they came to be
    Column("low", Double),
    Column("high", Double),
    Column("predecessors", Text, nullable=False),
    Column("final_offset", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("last_noted_at", BigInteger),  # to within a minute, unless the controller stopped in order
    _checksum(),
)

# A writer with all that was ever stored of it, up to `through` in the log.
writer_state = Table(
    "writer_state",
    metadata,
    _of_stream(),
    Column("name", _NAME, primary_key=True),
    Column("state", Text, nullable=False),
    Column("through", BigInteger, nullable=False),
    Column("fence", Integer, nullable=False),
    _checksum(),
    sqlite_with_rowid=False,  # one tree to write instead of two
)

# The log: what a flush changed in writers, one row for all of them.
writer_change = Table(
    "writer_change",
    metadata,
    _of_stream(),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("writers", Text, nullable=False),
    Column("fence", Integer, nullable=False),
    _checksum(),
    sqlite_with_rowid=False,
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
    Column("excluded", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("fence", Integer, nullable=False),
    _checksum(),
    Index("ix_mark_stream_key_time", "stream", "key", "time", unique=True),
    sqlite_with_rowid=False,
)

reader_group = Table(
    "reader_group",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("settings", Text, nullable=False),
    Column("epochs", BigInteger, nullable=False),
    Column("caught_up", Boolean, nullable=False),  # was found not to be in backlog
    Column("created_at", BigInteger, nullable=False),
    Column("owner", String(NAME_CHARACTERS), nullable=False),
    Column("fence", Integer, nullable=False),
    Column("held", Text),  # by key, the watermark that was told where the streams show a lesser one by now
    _checksum(),
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
    Column("served_at", BigInteger, nullable=False, server_default="0"),  # the served time when it was heard
    _checksum(),
)

# How far a group has read in a segment, and which reader goes on there.
reader_position = Table(
    "reader_position",
    metadata,
    _of_group(),
    Column("stream", _NAME, primary_key=True),
    Column("segment", _NAME, primary_key=True),
    Column("offset", BigInteger, nullable=False),
    Column("reader", _NAME),
    Column("settled", BigInteger),  # null: all that was read
    _checksum(),
)


def _journal(name: str, owner: Column[str]) -> Table:
    """A ring for each topic: its newest entry takes the slot of its oldest, so that it never grows."""
    return Table(
        name,
        metadata,
        owner,
        Column("topic", String(16), primary_key=True),
        Column("slot", Integer, primary_key=True, autoincrement=False),
        Column("seq", BigInteger, nullable=False),  # over all topics
        Column("at", BigInteger, nullable=False),
        Column("kind", String(32), nullable=False),
        Column("by", _NAME),  # whose token it was
        Column("details", Text, nullable=False),
        sqlite_with_rowid=False,
    )


# Who may call. Rows are added and marked as revoked, and never go: two counts tell whether anything changed.
token = Table(
    "token",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),  # SHA-256 of the token, which nobody keeps
    Column("role", String(16), nullable=False),
    Column("pattern", String(NAME_CHARACTERS), nullable=False),  # of the names of streams
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("last_used_at", BigInteger),  # to within a minute
    Column("writers", String(NAME_CHARACTERS)),  # of the names of writers that it is bound to; null: to none
)

# What happened to a stream, or to a reader group, that somebody may ask about later.
journal = _journal("journal", _of_stream())
group_journal = _journal("group_journal", _of_group())
