"""An event that cannot be read is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from strandline.logs import Event
from strandline.logs.errors import LogCorrupt
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader

EVENTS = [Event(b"%d" % number, key=b"key-%d" % number, segment="0") for number in range(2_000)]


def fill(path: Path) -> None:
    """The event at 707 gets a time that is none, which SQLite allows in no log of ours."""
    with SqliteLog.create(path, 2) as log:
        log.append(EVENTS)
        log.append([Event(None, key=b"", segment="1"), Event(b"", segment="1"), Event(b"x", segment="1")])
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in (
            "ALTER TABLE event RENAME TO sound",
            "CREATE TABLE event (segment TEXT, offset INTEGER, key BLOB, value BLOB, appended_at, "
            "PRIMARY KEY (segment, offset)) WITHOUT ROWID",
            "INSERT INTO event SELECT * FROM sound",
            "DROP TABLE sound",
            "UPDATE event SET appended_at = 'noon' WHERE segment = '0' AND offset = 707",
        ):
            connection.execute(statement)


def read_all(reader: SqliteLogReader, segment: str) -> list[tuple[Any, ...]]:
    end = reader.end_offsets()[segment]
    return [tuple(row.values()) for batch in reader.read(segment, 0, end) for row in batch.to_pylist()]


def rows(reader: SqliteLogReader, segment: str) -> list[Any]:
    return list(reader.rows(segment, 0, reader.end_offsets()[segment]))


@pytest.mark.parametrize("read", [read_all, rows])
def test_an_event_that_cannot_be_read_is_named_and_others_are_read(
    tmp_path: Path, read: Callable[[SqliteLogReader, str], list[Any]]
) -> None:
    path = tmp_path / "orders.log"
    fill(path)
    with SqliteLogReader(path) as reader:
        with pytest.raises(LogCorrupt, match=r"event 707 of segment '0'.*restore the log from a backup") as found:
            read(reader, "0")
        assert (found.value.segment, found.value.offset) == ("0", 707)
        assert len(read(reader, "1")) == 3
        assert len(list(reader.rows("0", 708, 2_000))) == 1_292
        assert sum(batch.num_rows for batch in reader.read("0", 0, 707)) == 707
