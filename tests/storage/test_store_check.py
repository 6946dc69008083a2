"""A check of a whole store finds what of it cannot be read, names it, and finds nothing where nothing is wrong.

What a load refuses is in test_unreadable.py.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import Table, delete, insert

from controller.operators.store_check import AT_ONCE, StoreCheck, fault_text
from controller.storage import schema
from controller.storage.database import looking_into, open_database
from controller.storage.marks import LOADED_MARKS
from controller.storage.refusals import StoreAway
from controller.storage.rows import Values
from strandline.errors import StoreCorrupt
from tests.storage.filled import NOTES, OF_GROUPS, Filled


@pytest.fixture
def filled(store_url: str) -> Iterator[Filled]:
    with open_database(store_url) as database:
        yield Filled(database)


def faults(url: str, streams: int = 2) -> list[StoreCorrupt]:
    with looking_into(url) as connection:
        check = StoreCheck(connection)
        check.run()
    assert dict(check.checked) == {"streams": streams, "reader_groups": 2}
    return check.faults


def test_a_sound_store_shows_no_fault(filled: Filled, store_url: str) -> None:
    assert faults(store_url) == []
    for row in filled.rows(schema.mark)[:3]:  # the oldest marks may be gone
        filled.remove(schema.mark, row)
    assert faults(store_url) == []


@pytest.mark.parametrize(
    ("table", "column"),
    [(schema.stream, "config"), (schema.mark, "cut"), (schema.reader_group, "settings")],
    ids=lambda each: getattr(each, "name", each),
)
def test_a_row_that_cannot_be_read_is_named(filled: Filled, store_url: str, table: Table, column: str) -> None:
    row = filled.rows(table)[-1]._asdict()
    filled.change(table, row, {column: "{"})
    (fault,) = faults(store_url)
    assert (fault.table, fault.stream or fault.group) == (table.name, "g" if table in OF_GROUPS else "s")
    assert all(repr(row[key.name]) in str(fault.row) for key in table.primary_key)


@pytest.mark.parametrize(
    ("seqs", "values", "said"),
    [
        ([4], {"cut": "{"}, "key '', seq 4: it cannot be read"),
        ([6], {"cut": '{"0":4}'}, "the cut of mark 6 goes back in segment '0': 4 is below 5"),
        ([8], {"excluded_since": 7}, "table excluded, row with stream 's', key '', seq 7: it is missing"),
        ([10], None, "key '', seq 10: it is missing"),
        (range(2, 2 + AT_ONCE), None, "key '', seq 2: it is missing"),
    ],
)
def test_marks_that_are_too_old_to_be_loaded_are_read_too(
    filled: Filled, store_url: str, seqs: Iterable[int], values: Values | None, said: str
) -> None:
    rows = [each for each in filled.rows(schema.mark) if each.key == ""]
    numbers = range(NOTES + 1, NOTES + 2 * (AT_ONCE + LOADED_MARKS))
    newer = [rows[-1]._asdict() | {"seq": number, "time": number, "upper": number} for number in numbers]
    with filled.database.writer.begin():
        filled.database.writer.execute(insert(schema.mark), newer)
    assert faults(store_url) == []
    for row in [each for each in filled.rows(schema.mark) if each.key == "" and each.seq in seqs]:
        if values is None:
            filled.remove(schema.mark, row)
        else:
            filled.change(schema.mark, row._asdict(), values)
    (fault,) = faults(store_url)
    assert said in fault_text(fault) and fault.stream == "s"


def test_a_stream_without_its_head_is_named(filled: Filled, store_url: str) -> None:
    with filled.database.writer.begin():
        filled.database.writer.execute(delete(schema.head).where(schema.head.c.name.in_(["s", "g"])))
    assert [fault_text(each) for each in faults(store_url)] == [
        "stream s, table head: it is missing",
        "reader group g, table head: it is missing",
    ]


def test_rows_of_nobody_are_counted(tmp_path: Path) -> None:
    with open_database(str(tmp_path / "store.db")) as database:
        Filled(database)
    with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as beside:
        beside.execute("DELETE FROM stream WHERE name = 't'")  # unless it is told to, it looks at no foreign keys
    found = faults(str(tmp_path / "store.db"), streams=1)
    assert f"table mark: {2 * NOTES} of its rows belong to no row of the table stream" in map(fault_text, found)
    assert {each.table for each in found} == {"segment", "writer_state", "writer_change", "mark", "journal"}


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
    assert any(said in each.reason for each in found), found


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
