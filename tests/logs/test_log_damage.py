"""An event that cannot be read is named, by readers and by the check of a log."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from controller.cli import main
from strandline.core.segment import NewSegment
from strandline.logs import Event
from strandline.logs.errors import LogCorrupt
from strandline.logs.inspection import LogFaultKind, LogInspection
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader

MARKED = b"seven-hundred-and-seven"
EVENTS = [Event(b"%d" % number, key=b"key-%d" % number, segment="0") for number in range(2_000)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "orders.log"


def fill(path: Path) -> None:
    with SqliteLog.create(path, 2) as log:
        log.append([*EVENTS[:707], Event(MARKED, segment="0"), *EVENTS[708:]])
        log.append([Event(None, key=b"", segment="1"), Event(b"", segment="1"), Event(b"x", segment="1")])


def change(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def spoil(path: Path, *offsets: int) -> None:
    """Gives events of segment 0 a time that is none, which SQLite allows in no log of ours."""
    change(
        path,
        "ALTER TABLE event RENAME TO sound",
        "CREATE TABLE event (segment TEXT, offset INTEGER, key BLOB, value BLOB, appended_at, "
        "PRIMARY KEY (segment, offset)) WITHOUT ROWID",
        "INSERT INTO event SELECT * FROM sound",
        "DROP TABLE sound",
        *(f"UPDATE event SET appended_at = 'noon' WHERE segment = '0' AND offset = {each}" for each in offsets),
    )


def read_all(reader: SqliteLogReader, segment: str) -> list[tuple[Any, ...]]:
    end = reader.end_offsets()[segment]
    return [tuple(row.values()) for batch in reader.read(segment, 0, end) for row in batch.to_pylist()]


def rows(reader: SqliteLogReader, segment: str) -> list[Any]:
    return list(reader.rows(segment, 0, reader.end_offsets()[segment]))


@pytest.mark.parametrize("read", [read_all, rows])
def test_an_event_that_cannot_be_read_is_named_and_others_are_read(
    path: Path, read: Callable[[SqliteLogReader, str], list[Any]]
) -> None:
    fill(path)
    spoil(path, 707)
    with SqliteLogReader(path) as reader:
        with pytest.raises(LogCorrupt, match=r"event 707 of segment '0'.*strandline check --log") as found:
            read(reader, "0")
        assert (found.value.segment, found.value.offset) == ("0", 707)
        assert len(read(reader, "1")) == 3
        assert len(list(reader.rows("0", 708, 2_000))) == 1_292
        assert sum(batch.num_rows for batch in reader.read("0", 0, 707)) == 707


# -- a look at the whole of it ---------------------------------------------------------------------------------------


def found(path: Path) -> list[str]:
    inspection = LogInspection(path)
    try:
        return [str(each) for each in inspection.faults()]
    finally:
        inspection.close()


def test_a_sound_log_has_no_faults_also_after_scaling_sealing_and_truncating(path: Path) -> None:
    fill(path)
    with SqliteLog(path) as log:
        log.scale(["0"], [NewSegment("2", 0.0, 0.25), NewSegment("3", 0.25, 0.5)])
        log.append([Event(b"y", segment="2")])
        log.truncate({"0": 900})
        log.seal()
        assert found(path) == []


def test_each_damaged_or_missing_event_is_named(path: Path) -> None:
    fill(path)
    spoil(path, 3, 1_999)
    change(
        path,
        "DELETE FROM event WHERE segment = '0' AND offset IN (7, 10, 11, 12)",
        "UPDATE segment SET final_offset = 5 WHERE id = '1'",
        "UPDATE event SET segment = '9' WHERE segment = '1' AND offset = 2",
    )
    assert found(path) == [
        "segment '0', event 3: it cannot be read",
        "segment '0', event 7: it is missing",
        "segment '0', event 10: it is missing, and all up to 12",
        "segment '0', event 1999: it cannot be read",
        "segment '1': it was sealed at 5, and its events end at 2",
        "segment '9': 1 events are in it, and the log does not have it",
    ]


def test_the_command_says_what_is_wrong_with_a_log(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(path)
    with SqliteLog(path) as log:  # which a writer has open
        assert main(["check", "--log", str(path)]) == 0
        log.append(EVENTS[:1])
    assert f"{path}: nothing is wrong (2 segments, 2,003 events)" in capsys.readouterr().out

    spoil(path, 3)
    assert main(["check", "--log", str(path)]) == 1
    first, remedy, summary = capsys.readouterr().out.splitlines()
    assert first == "segment '0', event 3: it cannot be read"
    assert remedy.startswith("Events are damaged: restore the log") and summary.startswith(f"{path}: 1 faults (2 ")

    assert main(["check", "--log", str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["faults_found"], told["events"]) == (1, 2_004)
    assert told["faults"][0]["kind"] == LogFaultKind.EVENT and told["faults"][0]["offset"] == 3


def test_what_is_no_log_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--log", str(tmp_path / "none.log")]) == 2
    (tmp_path / "other.log").write_bytes(b"no log" * 100)
    assert main(["check", "--log", str(tmp_path / "other.log")]) == 2
    said = capsys.readouterr().err
    assert "there is no log at" in said and "is not a Strandline log" in said
