"""An event that is not what was appended is refused and named; logs of an earlier version go on as they were."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.cli import main
from strandline.core.segment import NewSegment
from strandline.errors import StrandlineError
from strandline.logs import Event
from strandline.logs.checksums import EventChecksums
from strandline.logs.errors import LogCorrupt
from strandline.logs.inspection import LogFaultKind, LogInspection
from strandline.logs.layout import WITHOUT_CHECKSUMS
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


def as_before(path: Path) -> None:
    """Makes of a new log one as the version before had it."""
    change(path, "ALTER TABLE event DROP COLUMN checksum", f"PRAGMA user_version = {WITHOUT_CHECKSUMS}")


def read_all(reader: SqliteLogReader, segment: str) -> list[tuple[Any, ...]]:
    end = reader.end_offsets()[segment]
    return [tuple(row.values()) for batch in reader.read(segment, 0, end) for row in batch.to_pylist()]


def rows(reader: SqliteLogReader, segment: str) -> list[Any]:
    return list(reader.rows(segment, 0, reader.end_offsets()[segment]))


@pytest.mark.parametrize("read", [read_all, rows])
@pytest.mark.parametrize("bit", [0x01, 0x80])
def test_a_flipped_bit_is_named_and_undamaged_events_are_read(
    path: Path, read: Callable[[SqliteLogReader, str], list[Any]], bit: int
) -> None:
    fill(path)
    content = bytearray(path.read_bytes())
    assert content.count(MARKED) == 1
    content[content.find(MARKED)] ^= bit
    path.write_bytes(content)
    with SqliteLogReader(path) as reader:
        with pytest.raises(LogCorrupt, match=r"event 707 of segment '0'.*strandline check --log") as found:
            read(reader, "0")
        assert (found.value.segment, found.value.offset) == ("0", 707)
        assert len(read(reader, "1")) == 3
        assert len(list(reader.rows("0", 708, 2_000))) == 1_292
        assert sum(batch.num_rows for batch in reader.read("0", 0, 707)) == 707


@pytest.mark.parametrize("read", [read_all, rows])
@pytest.mark.parametrize(
    "changed",
    [
        "value = x'00'", "value = NULL", "key = x'00'", "key = NULL", "appended_at = appended_at + 1",
        "appended_at = appended_at + 1099511627776", "checksum = 0", "key = value, value = key",
    ],
)  # fmt: skip
def test_no_column_of_an_event_may_be_other_than_it_was_appended(
    path: Path, read: Callable[[SqliteLogReader, str], list[Any]], changed: str
) -> None:
    fill(path)
    change(path, f"UPDATE event SET {changed} WHERE segment = '0' AND offset = 3")
    with SqliteLogReader(path) as reader, pytest.raises(LogCorrupt) as found:
        read(reader, "0")
    assert found.value.offset == 3


def test_events_that_changed_places_are_found(path: Path) -> None:
    fill(path)
    for before, after in ((5, -1), (6, 5), (-1, 6)):
        change(path, f"UPDATE event SET offset = {after} WHERE segment = '0' AND offset = {before}")
    change(path, "DELETE FROM event WHERE segment = '1'", "UPDATE event SET segment = '1', offset = 0 WHERE offset = 9")
    with SqliteLogReader(path) as reader:
        for segment, offset in (("0", 5), ("1", 0)):
            for read in (reader.rows, reader.read):
                with pytest.raises(LogCorrupt) as found:
                    list(read(segment, offset, offset + 1))
                assert found.value.offset == offset


def test_a_log_of_the_previous_version_is_read_and_appended(path: Path) -> None:
    fill(path)
    with SqliteLogReader(path) as reader:
        before = read_all(reader, "0")
    as_before(path)
    with SqliteLog.create(path, 2) as log:
        assert log.append([Event(b"new", segment="0")]) == {"0": 2_001}
    with SqliteLogReader(path) as reader:
        assert read_all(reader, "0")[:-1] == before and rows(reader, "0")[-1].value == b"new"
    assert found(path) == []


# Values as they go into a file, and what Arrow makes of them, have the same checksums.
BYTES = st.one_of(st.none(), st.binary(max_size=40))
NUMBERS = st.integers(0, 2**53)


@given(events=st.lists(st.tuples(NUMBERS, BYTES, BYTES, NUMBERS), max_size=20), before=st.integers(0, 5))
def test_many_at_once_have_the_checksums_of_each_by_itself(events: list[Any], before: int) -> None:
    import pyarrow as pa

    checksums = EventChecksums("0")
    kinds = (pa.int64(), pa.binary(), pa.binary(), pa.int64())
    columns = [pa.array([each[n] for each in events], kind)[before:] for n, kind in enumerate(kinds)]
    assert checksums.of_all(*columns) == [checksums.of(*each) for each in events[before:]]


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
    change(
        path,
        "UPDATE event SET value = x'00' WHERE segment = '0' AND offset IN (3, 1999)",
        "DELETE FROM event WHERE segment = '0' AND offset IN (7, 10, 11, 12)",
        "UPDATE segment SET final_offset = 5 WHERE id = '1'",
        "UPDATE event SET segment = '9' WHERE segment = '1' AND offset = 2",
    )
    assert found(path) == [
        "segment '0', event 3: its checksum does not match",
        "segment '0', event 7: it is missing",
        "segment '0', event 10: it is missing, and all up to 12",
        "segment '0', event 1999: its checksum does not match",
        "segment '1': it was sealed at 5, and its events end at 2",
        "segment '9': 1 events are in it, and the log does not have it",
    ]


@pytest.mark.parametrize("seed", range(3))
def test_a_flipped_bit_never_gives_a_reader_another_event(path: Path, tmp_path: Path, seed: int) -> None:
    with SqliteLog.create(path, 1) as log:
        log.append([Event(each.value, each.key, segment="0") for each in EVENTS[:400]])
    with SqliteLogReader(path) as reader:
        appended = [(each.offset, each.key, each.value, each.appended_at) for each in rows(reader, "0")]
    content, choice, damaged = path.read_bytes(), random.Random(seed), 0
    used = [place for place, byte in enumerate(content) if byte]
    for _ in range(80):
        place, bit = choice.choice(used), 1 << choice.randrange(8)
        flipped = bytearray(content)
        flipped[place] ^= bit
        copy = tmp_path / "flipped.log"
        copy.write_bytes(flipped)
        try:
            with SqliteLogReader(copy) as reader:
                read = [tuple(row.values()) for batch in reader.read("0", 0, 400) for row in batch.to_pylist()]
                plain = [(each.offset, each.key, each.value, each.appended_at) for each in reader.rows("0", 0, 400)]
        except (StrandlineError, sqlite3.Error):
            damaged += 1
            continue
        assert plain == appended, f"seed {seed}: bit {bit} of byte {place}"
        assert [(key, value, offset) for key, value, _, offset, _ in read] == [
            each[1:3] + each[:1] for each in appended
        ]
    assert damaged > 10


def test_the_command_says_what_is_wrong_with_a_log(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(path)
    with SqliteLog(path) as log:  # which a writer has open
        assert main(["check", "--log", str(path)]) == 0
        log.append(EVENTS[:1])
    assert f"{path}: nothing is wrong (2 segments, 2,003 events)" in capsys.readouterr().out

    change(path, "UPDATE event SET value = x'00' WHERE segment = '0' AND offset = 3")
    assert main(["check", "--log", str(path)]) == 1
    first, remedy, summary = capsys.readouterr().out.splitlines()
    assert first == "segment '0', event 3: its checksum does not match"
    assert remedy.startswith("Events are damaged: restore the log") and summary.startswith(f"{path}: 1 faults (2 ")

    assert main(["check", "--log", str(path), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)
    assert (told["faults_found"], told["events"]) == (1, 2_004)
    assert told["faults"][0]["kind"] == LogFaultKind.EVENT and told["faults"][0]["offset"] == 3

    as_before(path)
    assert main(["check", "--log", str(path)]) == 0
    assert "have no checksums" in capsys.readouterr().out


def test_what_is_no_log_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "--log", str(tmp_path / "none.log")]) == 2
    (tmp_path / "other.log").write_bytes(b"no log" * 100)
    assert main(["check", "--log", str(tmp_path / "other.log")]) == 2
    said = capsys.readouterr().err
    assert "there is no log at" in said and "is not a Strandline log" in said
