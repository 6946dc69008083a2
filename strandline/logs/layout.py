"""The file format of the embedded `sqlite` log: one file per stream. Only this page describes it.

    segment   id            text, unique; rows are in the order of creation
              low, high     real; the part [low, high) of [0, 1) whose keys are appended here
              predecessors  text; a JSON list of segment ids, sorted, empty for an original segment
              final_offset  integer, or null while it is open; a sealed segment never changes

    event     segment       text
              offset        integer; without gaps in each segment, from 0 or the truncation on; the end offset is the
                            greatest plus 1, so the newest event of a segment is never removed
              key, value    blob, or null
              appended_at   integer; the writer's clock at the commit, in milliseconds

    memo      name          text, unique; the first memo creates the table
              text          text; the last memo committed under the name

    log       identity      text; a random id of the log
              commits       integer; rises with each commit, so that a write-ahead file contains the identity

`application_id` marks a file as such a log, and `user_version` is the version of this format. Events are
clustered by (segment, offset): a range of a segment is one sweep through neighbouring pages. A key's place in
[0, 1) is `key_place`; it is a part of the format, because every writer must send a key to the same segment.

The file is in write-ahead mode, so that readers and the one writer at a time do not wait for each other. Events
below an end offset never change, so a range can be read in pieces, in any number of read transactions.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Final

from strandline.core.segment import Segment
from strandline.logs.errors import LogVersion, NotALog

APPLICATION_ID: Final = 0x5374726C  # "Strl"
FORMAT_VERSION: Final = 1
PAGE_BYTES: Final = 8192  # a clustered row should stay well below a page, and events of 1 KiB are common

DEFINITION: Final = f"""
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {FORMAT_VERSION};
CREATE TABLE segment (
    id TEXT NOT NULL PRIMARY KEY,
    low REAL NOT NULL,
    high REAL NOT NULL,
    predecessors TEXT NOT NULL,
    final_offset INTEGER
) STRICT;
CREATE TABLE event (
    segment TEXT NOT NULL,
    offset INTEGER NOT NULL,
    key BLOB,
    value BLOB,
    appended_at INTEGER NOT NULL,
    PRIMARY KEY (segment, offset)
) STRICT, WITHOUT ROWID;
"""

MEMO_DEFINITION: Final = "CREATE TABLE IF NOT EXISTS memo (name TEXT NOT NULL PRIMARY KEY, text TEXT NOT NULL) STRICT"
MEMOS: Final = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'memo'"

_FORMAT: Final = "SELECT application_id, user_version FROM pragma_application_id, pragma_user_version"
SEGMENTS: Final = "SELECT id, low, high, predecessors, final_offset FROM segment ORDER BY rowid"
FIRST_OFFSET: Final = "SELECT min(offset) FROM event WHERE segment = ?"
# One statement is one moment: a transaction over several segments is in all of these ends or in none.
END_OFFSETS: Final = """
SELECT id, coalesce((SELECT offset + 1 FROM event WHERE segment = id ORDER BY offset DESC LIMIT 1), 0)
FROM segment ORDER BY rowid
"""


def key_place(key: bytes) -> float:
    """A key's place in [0, 1): 53 bits of its BLAKE2b hash, which a float holds exactly."""
    return (int.from_bytes(hashlib.blake2b(key, digest_size=8).digest(), "big") >> 11) / 2**53


def read_only_uri(path: Path) -> str:
    """The SQLite URI that opens an existing file read-only."""
    return f"{path.absolute().as_uri()}?mode=ro"


def check_format(connection: sqlite3.Connection, path: str) -> None:
    """Raises NotALog if a file is not a log, and LogVersion if this release does not know its version."""
    try:
        application_id, version = connection.execute(_FORMAT).fetchone()
    except sqlite3.DatabaseError as error:
        raise NotALog(path=path, reason=str(error)) from error
    if application_id != APPLICATION_ID:
        raise NotALog(path=path, reason=f"its application_id is {application_id}, not {APPLICATION_ID}")
    if version != FORMAT_VERSION:
        raise LogVersion(path=path, version=version, known=FORMAT_VERSION)


def segment_of(row: tuple[str, float, float, str, int | None]) -> Segment:
    """A row of SEGMENTS as a value. The log does not keep the creation time of a segment."""
    name, low, high, predecessors, final_offset = row
    return Segment(
        id=name,
        created_at=0,
        low=low,
        high=high,
        predecessors=tuple(json.loads(predecessors)),
        final_offset=final_offset,
    )
