"""A row that cannot be read is named where it is read, and refuses nothing but its own stream or group."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Table, update

from controller.storage import schema
from controller.storage.database import open_database
from controller.storage.groups import group_streams
from controller.storage.marks import MarksGone, StoredMarks
from controller.storage.rows import StreamOrigin
from controller.storage.unreadable import MISSING
from controller.streams.loaded_stream import LoadedStream
from strandline.access import EVERYTHING
from strandline.core.config import StreamConfig
from strandline.core.cut import Cut
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import StoreCorrupt
from tests.storage.filled import OF_GROUPS, Filled
from tests.storage.writes import write

DOCUMENTS = [
    (schema.stream, "config"),
    (schema.stream, "original"),
    (schema.stream, "remainders"),
    (schema.segment, "predecessors"),
    (schema.mark, "cut"),
    (schema.writer_state, "state"),
    (schema.writer_change, "writers"),
    (schema.reader_group, "settings"),
    (schema.reader_group, "identities"),
]
ODD = [
    (schema.stream, "epochs", "'x'"),
    (schema.segment, "low", "'x'"),
    (schema.segment, "id", "CAST(x'ff' AS TEXT)"),  # which is not UTF-8
    (schema.mark, "time", "'x'"),
    (schema.mark, "newest", "1.5"),
    (schema.mark, "excluded_since", "'x'"),
    (schema.writer_change, "stamp", "'x'"),
    (schema.writer_state, "name", "CAST(x'ff' AS TEXT)"),
    (schema.reader, "epoch", "'x'"),
    (schema.reader, "heard_at", "x'01'"),
    (schema.reader_position, "offset", "'x'"),
    (schema.reader_position, "reader", "CAST(x'ff' AS TEXT)"),
]


@pytest.fixture
def filled(store_url: str) -> Iterator[Filled]:
    with open_database(store_url) as database:
        yield Filled(database)


@pytest.mark.parametrize(("table", "column"), DOCUMENTS, ids=lambda each: getattr(each, "name", each))
def test_a_document_that_cannot_be_decoded_is_named_with_its_row(filled: Filled, table: Table, column: str) -> None:
    row = filled.rows(table)[-1]._asdict()
    filled.change(table, row, {column: "{"})
    with pytest.raises(StoreCorrupt, match="it cannot be read") as found:
        filled.read(table)
    error = found.value
    assert (error.table, error.stream or error.group) == (table.name, "g" if table in OF_GROUPS else "s")
    assert all(repr(row[key.name]) in str(error.row) for key in table.primary_key)
    filled.read_stream("t")


@pytest.mark.parametrize(("table", "column", "value"), ODD, ids=lambda each: getattr(each, "name", repr(each)))
def test_a_value_that_its_column_does_not_allow_is_named_with_its_row(
    tmp_path: Path, table: Table, column: str, value: str
) -> None:
    """SQLite keeps anything in any column. `value` is in its SQL."""
    with open_database(str(tmp_path / "store.db")) as database:
        filled = Filled(database)
        row = filled.rows(table)[-1]._asdict()
        key = " AND ".join(f'"{each.name}" = :{each.name}' for each in table.primary_key)
        with closing(sqlite3.connect(tmp_path / "store.db", isolation_level=None)) as beside:
            beside.execute(f'UPDATE {table.name} SET "{column}" = {value} WHERE {key}', row)
        with pytest.raises(StoreCorrupt, match="it cannot be read") as found:
            filled.read(table)
        error = found.value
        assert (error.table, error.stream or error.group) == (table.name, "g" if table in OF_GROUPS else "s")
        assert error.detail.encode()
        filled.read_stream("t")


@pytest.mark.parametrize("table", [schema.mark, schema.writer_change], ids=lambda each: each.name)
def test_a_row_that_is_missing_between_others_is_found(filled: Filled, table: Table) -> None:
    rows = filled.rows(table)
    assert len(rows) >= 3
    filled.remove(table, rows[10] if table is schema.mark else rows[-2])
    with pytest.raises(StoreCorrupt, match=r"it is missing|mark 12 cannot follow mark 10") as found:
        filled.read(table)
    assert (found.value.table, found.value.stream) == (table.name, "s")
    filled.read_stream("t")


@pytest.mark.parametrize(("column", "value"), [("time", 3), ("cut", '{"0":2}')])
def test_a_chain_of_marks_that_goes_back_is_refused_when_it_is_loaded(filled: Filled, column: str, value: Any) -> None:
    rows = [each for each in filled.rows(schema.mark) if each.key == ""]
    if column == "time":  # which no other mark has then
        filled.remove(schema.mark, rows[2])
        filled.remove(schema.mark, rows[1])
        filled.remove(schema.mark, rows[0])
    filled.change(schema.mark, rows[9]._asdict(), {column: value})
    with pytest.raises(StoreCorrupt, match=r"seq 10.*mark 10") as found:
        filled.read_stream()
    assert (found.value.table, found.value.stream) == ("mark", "s")


def test_rows_that_do_not_go_together_are_an_error_of_their_stream(filled: Filled) -> None:
    for row in [each for each in filled.rows(schema.segment) if each.id == "0"]:
        filled.remove(schema.segment, row)
    with pytest.raises(StoreCorrupt) as found:
        filled.read_stream()
    assert found.value.stream == "s"
    filled.read_stream("t")


def test_a_mark_that_cannot_be_decoded_is_refused_wherever_it_is_read(filled: Filled) -> None:
    row = next(each for each in filled.rows(schema.mark) if (each.key, each.seq) == ("", 10))._asdict()
    reads: list[Callable[[StoredMarks], Any]] = [
        lambda marks: marks.between(5, 15),
        lambda marks: marks.get(10),
        lambda marks: marks.some([5, 10, 15]),
        lambda marks: marks.around(10),
    ]
    for read in reads:
        filled.marks(read)
    filled.change(schema.mark, row, {"cut": "{"})
    for read in reads:
        with pytest.raises(StoreCorrupt, match=r"key '', seq 10.*it cannot be read"):
            filled.marks(read)
    assert [mark.seq for mark in filled.marks(lambda marks: marks.some([9, 11]))] == [9, 11]


def test_a_missing_mark_is_pruned_only_if_all_before_are(filled: Filled) -> None:
    rows = [each for each in filled.rows(schema.mark) if each.key == ""]
    for row in rows[:3]:
        filled.remove(schema.mark, row)
    with pytest.raises(MarksGone):
        filled.marks(lambda marks: marks.some([2, 4]))
    assert [mark.seq for mark in filled.marks(lambda marks: marks.between(1, 5))] == [4, 5]
    filled.remove(schema.mark, rows[6])
    with pytest.raises(StoreCorrupt, match=f"seq 7.*{MISSING}"):
        filled.marks(lambda marks: marks.between(1, 9))


def test_a_group_that_cannot_be_read_is_listed_only_for_readers_of_everything(filled: Filled) -> None:
    (row,) = filled.rows(schema.reader_group)
    filled.change(schema.reader_group, row._asdict(), {"settings": "{}"})
    assert group_streams(filled.database.reader, "", 10) == {"g": [EVERYTHING], "h": ["s", "t"]}


def test_a_segment_that_is_dropped_leaves_marks_as_they_are_that_cannot_be_read(store_url: str) -> None:
    with open_database(store_url) as database:
        live = LoadedStream(
            Stream("s", StreamConfig(mark_interval_ms=0, max_ahead_ms=None), SegmentGraph(open=True), now=0),
            StreamOrigin("1", 0, None),
            watch=lambda _: None,
        )
        for time in (1, 2, 3):
            live.stream.note(Note(writer="w", times={"": time}, position={"p": time, "q": time}), time)
        write(database, live)
        with database.writer.begin():
            database.writer.execute(update(schema.mark).where(schema.mark.c.seq == 2).values(cut='{"q":'))
        live.drop_segment("q", 4)
        write(database, live)

        with database.reader.begin():
            marks = StoredMarks(database.reader, "s", "")
            assert [mark.cut for mark in (*marks.between(1, 1), *marks.between(3, 3))] == [Cut({"p": 1}), Cut({"p": 3})]
            with pytest.raises(StoreCorrupt, match="it cannot be read"):
                marks.between(2, 2)
