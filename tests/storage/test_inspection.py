"""A check of a whole store finds what is wrong with it, names it, and finds nothing where nothing is wrong."""

from __future__ import annotations

import sqlite3
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, insert, select, text, update

from controller.storage import schema
from controller.storage.database import open_database
from controller.storage.inspection import FaultKind, Inspection, StoreFault, opened
from controller.storage.refusals import StoreAway
from tests.storage.filled import NOTES, OF_GROUPS, Filled


@pytest.fixture
def filled(store_url: str) -> Iterator[Filled]:
    with open_database(store_url) as database:
        yield Filled(database)


def faults(url: str) -> list[StoreFault]:
    with opened(url) as connection:
        return list(Inspection(connection).faults())


def alter(filled: Filled, table: Table, number: int, **values: Any) -> None:
    """Changes a row of the first stream or group."""
    filled.change(table, filled.rows(table)[number]._asdict(), values)


LOOKED_AT = (
    schema.stream,
    schema.segment,
    schema.mark,
    schema.writer_state,
    schema.writer_change,
    schema.reader_group,
    schema.reader,
    schema.reader_position,
)


def test_a_sound_store_shows_no_fault_and_all_rows(filled: Filled, store_url: str) -> None:
    with opened(store_url) as connection:
        inspection = Inspection(connection)
        assert list(inspection.faults()) == []
        rows = sum(len(list(connection.execute(select(table)))) for table in LOOKED_AT)
    assert (inspection.streams, inspection.groups, inspection.rows) == (2, 2, rows)
    for row in filled.rows(schema.mark)[:3]:  # the oldest marks may be gone
        filled.remove(schema.mark, row)
    assert faults(store_url) == []


@pytest.mark.parametrize(
    ("table", "column"),
    [
        (schema.stream, "config"),
        (schema.segment, "predecessors"),
        (schema.mark, "cut"),
        (schema.writer_state, "state"),
        (schema.writer_change, "writers"),
        (schema.reader_group, "settings"),
    ],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_row_that_cannot_be_read_is_named(filled: Filled, store_url: str, table: Table, column: str) -> None:
    row = filled.rows(table)[-1]._asdict()
    filled.change(table, row, {column: "{"})
    (fault,) = [each for each in faults(store_url) if each.kind is FaultKind.ROW]
    assert (fault.table, fault.stream or fault.group) == (table.name, "g" if table in OF_GROUPS else "s")
    assert all(repr(row[key.name]) in str(fault.row) for key in table.primary_key)


@pytest.mark.parametrize(
    ("number", "cut", "said"),
    [
        (5, '{"0":4}', "the cut of mark 6 goes back in segment '0': 4 is below 5"),
        (NOTES - 1, '{"0":9000}', f"it names offset 9000 in the segment '0', which ends at {NOTES}"),
        (NOTES - 1, '{"0":20,"7":1}', "it names the segment '7', which the stream does not have"),
    ],
)
def test_marks_whose_cuts_do_not_go_together_are_named(
    filled: Filled, store_url: str, number: int, cut: str, said: str
) -> None:
    alter(filled, schema.mark, number, cut=cut)
    (fault,) = faults(store_url)
    assert (fault.kind, fault.stream, fault.table, fault.reason) == (FaultKind.ORDER, "s", "mark", said)
    assert f"seq {number + 1}" in str(fault)


def test_a_mark_with_a_time_that_is_not_above_the_one_before_is_named(filled: Filled, store_url: str) -> None:
    fifth, sixth = filled.rows(schema.mark)[4:6]  # which exchange their times
    for row, values in ((sixth, {"time": 99, "upper": 99}), (fifth, {"time": 6, "upper": 6}), (sixth, {"time": 5})):
        filled.change(schema.mark, row._asdict(), values)
    (fault,) = faults(store_url)
    assert (fault.kind, fault.table) == (FaultKind.ORDER, "mark") and "seq 6" in str(fault)
    assert fault.reason == "the time of mark 6 is 5, which must be above 6"


@pytest.mark.parametrize("many", [1, 4])
def test_marks_and_rows_of_the_log_that_are_missing_are_named(filled: Filled, store_url: str, many: int) -> None:
    for row in filled.rows(schema.mark)[9 : 9 + many]:
        filled.remove(schema.mark, row)
    log = filled.rows(schema.writer_change)
    filled.remove(schema.writer_change, log[-2])
    found = faults(store_url)
    said = "it is missing" if many == 1 else "it is missing, with 3 more behind it"
    assert [(each.kind, each.table, each.row, each.reason) for each in found] == [
        (FaultKind.MISSING, "mark", "stream 's', key '', seq 10", said),
        (FaultKind.MISSING, "writer_change", f"stream 's', seq {log[-2].seq}", "it is missing"),
    ]


def test_a_writer_told_of_a_missing_mark_is_named(filled: Filled, store_url: str) -> None:
    row = filled.rows(schema.writer_state)[0]
    document = row.state.replace('"noted",null', f'"joined",{NOTES}')
    assert document != row.state
    alter(filled, schema.writer_state, 0, state=document)
    assert faults(store_url) == []  # the newest mark has that time
    for mark in filled.rows(schema.mark)[NOTES - 5 : NOTES]:
        filled.remove(schema.mark, mark)
    alter(filled, schema.writer_state, 0, state=document.replace(f'"joined",{NOTES},{NOTES}', f'"joined",{NOTES},3'))
    assert [(each.kind, each.table) for each in faults(store_url)] == [(FaultKind.MISSING, "writer_state")]


def test_a_segment_that_is_missing_and_epochs_that_were_never_given_out_are_named(
    filled: Filled, store_url: str
) -> None:
    (sealed,) = [each for each in filled.rows(schema.segment) if each.id == "0"]
    filled.remove(schema.segment, sealed)
    alter(filled, schema.reader, 0, epoch=9)
    segment, reader = faults(store_url)
    assert str(segment) == "stream 's', table segment, row with stream 's', id '0': it is missing"
    assert segment.kind is FaultKind.MISSING
    of_reader = "reader group 'g', table reader, row with group 'g', name 'r'"
    assert str(reader) == f"{of_reader}: its epoch 9 was not given out: the newest is 1"


def test_rows_of_nobody_are_counted(tmp_path: Path) -> None:
    with open_database(str(tmp_path / "store.db")) as database:
        Filled(database)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as beside:
        beside.execute("DELETE FROM stream WHERE name = 't'")  # unless it is told to, it looks at no foreign keys
    found = faults(str(tmp_path / "store.db"))
    assert f"table mark: {2 * NOTES} of its rows belong to no row of the table stream" in map(str, found)
    assert {each.table for each in found} == {
        "segment",
        "writer_state",
        "writer_change",
        "mark",
        "journal",
    }


def test_a_table_that_cannot_be_read_hides_nothing_of_the_others(filled: Filled, store_url: str) -> None:
    alter_raw = update(schema.reader_group).where(schema.reader_group.c.name == "g").values(settings="{")
    with filled.database.writer.begin():
        filled.database.writer.execute(alter_raw)
        filled.database.writer.execute(text("ALTER TABLE writer_change RENAME TO away"))
    found = faults(store_url)
    assert any(each.kind is FaultKind.DATABASE and "could not be read" in each.reason for each in found)
    assert any((each.table, each.group) == ("reader_group", "g") for each in found)


# -- a file of SQLite's ----------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A store that nobody serves."""
    path = tmp_path / "store.db"
    with open_database(str(path)) as database:
        Filled(database)
    return path


@pytest.mark.parametrize(("first", "said"), [(0, "the store's file is damaged"), (-1, "SQLite reports: row")])
def test_damage_that_sqlite_finds_in_its_file_is_told(file: Path, first: int, said: str) -> None:
    """Of a page, or of its last byte."""
    with closing(sqlite3.connect(file)) as connection:
        ((size,),) = connection.execute("PRAGMA page_size")
        ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'ix_mark_stream_key_time'")
    content = bytearray(file.read_bytes())
    for place in range((page - 1) * size + first % size, page * size):
        content[place] ^= 0xA5
    file.write_bytes(content)
    found = faults(str(file))
    assert any(each.kind is FaultKind.DATABASE and said in each.reason for each in found), found


def test_a_file_whose_own_description_is_damaged_is_refused_in_a_sentence(file: Path) -> None:
    content = file.read_bytes()
    assert content.count(b"CREATE TABLE mark") == 1
    file.write_bytes(content.replace(b"CREATE TABLE mark", b"CREATE \xd4ABLE mark"))
    with pytest.raises(StoreAway, match="it is damaged: restore a backup"):
        open_database(str(file))
    with pytest.raises(StoreAway, match="it is damaged: restore a backup"):
        faults(str(file))


@pytest.mark.parametrize("name", ["left.db", "link"])
def test_what_a_crash_left_beside_the_file_is_seen_and_stays(file: Path, tmp_path: Path, name: str) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as crashed:
        crashed.execute("PRAGMA wal_autocheckpoint = 0")
        crashed.execute("UPDATE mark SET cut = '{' WHERE stream = 's' AND key = '' AND seq = 4")
        for suffix in ("", "-wal"):
            (tmp_path / f"left.db{suffix}").write_bytes(Path(f"{file}{suffix}").read_bytes())
    (tmp_path / "link").symlink_to("left.db")
    before = {path.name: path.read_bytes() for path in tmp_path.glob("left.db*")}
    (fault,) = faults(str(tmp_path / name))
    assert (fault.table, fault.row) == ("mark", "stream 's', key '', seq 4")
    assert {path.name: path.read_bytes() for path in tmp_path.glob("left.db*") if "shm" not in path.name} == before


def test_a_look_leaves_nothing_behind(file: Path) -> None:
    before = {path.name: path.read_bytes() for path in file.parent.iterdir()}
    assert faults(str(file)) == []
    assert {path.name: path.read_bytes() for path in file.parent.iterdir()} == before


@pytest.mark.full
def test_a_large_store_takes_no_more_memory_than_a_small_one(file: Path) -> None:
    def peak() -> int:
        tracemalloc.start()
        try:
            assert faults(str(file)) == []
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak()
    small = peak()
    with open_database(str(file)) as database, database.writer.begin():
        last = database.writer.execute(select(schema.mark).where(schema.mark.c.stream == "s")).all()[NOTES - 1]
        for first in range(NOTES + 1, NOTES + 20_001, 1_000):
            numbers = range(first, first + 1_000)
            rows = [last._asdict() | {"seq": number, "time": number, "upper": number} for number in numbers]
            database.writer.execute(insert(schema.mark), rows)
    assert peak() < small + 500_000
