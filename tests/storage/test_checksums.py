"""A row that is not what was written is found when it is read, whichever of its columns it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Boolean, Column, Double, Integer, MetaData, Table, delete, insert, select, update

from controller.storage import schema
from controller.storage.checksums import CHECKSUMS, MISMATCH, MISSING, Checksums, with_checksum
from controller.storage.database import open_database
from controller.storage.groups import group_streams, load_group
from controller.storage.load import load_stream
from controller.storage.marks import MarksGone, StoredMarks
from controller.storage.rows import StreamOrigin
from controller.storage.save import write_commit
from controller.storage.terms import begin_term
from controller.storage.timeline import timeline
from controller.streams.loaded_stream import LoadedStream
from strandline.access import EVERYTHING
from strandline.core.config import StreamConfig
from strandline.core.cut import Cut
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import StoreCorrupt
from tests.storage.filled import OF_GROUPS, Filled, other
from tests.terms import commit_of, tenure_of


@pytest.fixture
def filled(store_url: str) -> Iterator[Filled]:
    with open_database(store_url) as database:
        yield Filled(database)


@given(later=st.lists(st.none() | st.integers(0, 9), max_size=3), nulls=st.integers(0, 3))
def test_later_columns_that_are_null_leave_a_checksum_as_it_was(later: list[int | None], nulls: int) -> None:
    """A version that does not know them reads the row, whatever the columns before them have."""

    def checksum(*values: int | None) -> int:
        names = ["name", "epochs", "checksum", *(f"later_{number}" for number in range(len(values)))]
        table = Table("t", MetaData(), *(Column(each, Integer) for each in names))
        return Checksums(table).of(dict(zip(names, (1, 2, None, *values), strict=True)))

    assert checksum(*later) == checksum(*later, *[None] * nulls)
    assert checksum(*later) != checksum(*later, *[None] * nulls, 5)


@pytest.mark.parametrize("table", CHECKSUMS, ids=lambda each: each.name)
def test_no_column_of_a_row_may_be_other_than_it_was_written(filled: Filled, table: Table) -> None:
    """But for whose it is, which has a test of its own, and for its shard, which `strandline check` compares."""
    owner = next(iter(table.primary_key))
    for column in [each for each in table.columns if each is not owner and each.name != schema.SHARD]:
        filled.read(table)
        row = next((each for each in filled.rows(table) if each._mapping[column.name] is not None), None)
        row = row if row is not None else filled.rows(table)[0]
        changed = row._asdict() | {column.name: other(column, row._mapping[column.name])}
        filled.change(table, row._asdict(), changed)
        with pytest.raises(StoreCorrupt) as found:
            filled.read(table)
        error = found.value
        assert (error.table, error.stream or error.group) == (table.name, "g" if table in OF_GROUPS else "s"), column
        assert error.row is not None and (column.primary_key or repr(row.checksum) not in error.detail), column
        filled.read_stream("t")
        filled.change(table, changed, row._asdict())


@pytest.mark.parametrize("table", CHECKSUMS, ids=lambda each: each.name)
def test_a_row_that_was_moved_is_found_where_it_came_to(filled: Filled, table: Table) -> None:
    owner, before, after = ("group", "g", "h") if table in OF_GROUPS else ("stream", "s", "t")
    column = table.primary_key.columns[0].name
    row = filled.rows(table)[-1]._asdict()
    with filled.database.writer.begin():
        there = [key == (after if key.name == column else row[key.name]) for key in table.primary_key]
        filled.database.writer.execute(delete(table).where(*there))
        filled.database.writer.execute(insert(table).values({**row, column: after}))
    load = load_group if table in OF_GROUPS else load_stream
    assert load(filled.database.reader, before) is not None
    with pytest.raises(StoreCorrupt, match=MISMATCH) as found:
        load(filled.database.reader, after)
    assert (found.value.table, getattr(found.value, owner)) == (table.name, after)


@pytest.mark.parametrize("table", CHECKSUMS, ids=lambda each: each.name)
def test_a_row_without_a_checksum_is_damaged(filled: Filled, table: Table) -> None:
    filled.change(table, filled.rows(table)[0]._asdict(), {"checksum": None})
    with pytest.raises(StoreCorrupt, match=MISMATCH):
        filled.read(table)


@pytest.mark.parametrize("table", [schema.mark, schema.writer_change], ids=lambda each: each.name)
def test_a_row_that_is_missing_between_others_is_found(filled: Filled, table: Table) -> None:
    rows = filled.rows(table)
    assert len(rows) >= 3
    filled.remove(table, rows[10] if table is schema.mark else rows[-2])
    with pytest.raises(StoreCorrupt, match=r"it is missing|mark 12 cannot follow mark 10") as found:
        filled.read(table)
    assert (found.value.table, found.value.stream) == (table.name, "s")
    filled.read_stream("t")


def test_what_cannot_be_decoded_is_damaged_though_its_checksum_matches(filled: Filled) -> None:
    for table, column in (
        (schema.stream, "config"),
        (schema.segment, "predecessors"),
        (schema.mark, "cut"),
        (schema.writer_state, "state"),
        (schema.writer_change, "writers"),
        (schema.reader_group, "settings"),
    ):
        row = filled.rows(table)[-1]._asdict()
        filled.change(table, row, with_checksum(table, row | {column: "{"}))
        with pytest.raises(StoreCorrupt, match="it cannot be read"):
            filled.read(table)
        filled.change(table, row, row)
    filled.read_stream()


def test_a_damaged_mark_is_refused_wherever_it_is_read(filled: Filled) -> None:
    row = next(each for each in filled.rows(schema.mark) if (each.key, each.seq) == ("", 10))
    looks: list[Callable[[StoredMarks], Any]] = [
        lambda marks: marks.between(5, 15),
        lambda marks: marks.get(10),
        lambda marks: marks.some([5, 10, 15]),
        lambda marks: marks.around(10),
    ]
    for look in looks:
        filled.marks(look)
    filled.change(schema.mark, row._asdict(), {"time": row.time + 1_000})  # where no search by time finds it any more
    for look in looks:
        with pytest.raises(StoreCorrupt, match="key '', seq 10"):
            filled.marks(look)
    for look in (lambda marks: marks.around(9), lambda marks: marks.around(11)):  # the marks before and after it
        floor, ceiling = filled.marks(look)
        assert floor == ceiling
    with pytest.raises(StoreCorrupt, match="key '', seq 10"):
        timeline(filled.database.reader, "s", "", 0, 1_000)


@pytest.mark.parametrize("column", ["cut", "excluded"])
def test_a_read_names_the_mark_that_cannot_be_decoded(filled: Filled, column: str) -> None:
    row = next(each for each in filled.rows(schema.mark) if (each.key, each.seq) == ("", 10))._asdict()
    filled.change(schema.mark, row, with_checksum(schema.mark, row | {column: "{"}))
    with pytest.raises(StoreCorrupt, match=r"seq 10.*it cannot be read"):
        filled.marks(lambda marks: marks.between(5, 15))


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


def test_a_damaged_group_is_listed_only_for_readers_of_everything(filled: Filled) -> None:
    (row,) = filled.rows(schema.reader_group)
    filled.change(schema.reader_group, row._asdict(), {"settings": row.settings.replace('"s"', '"u"')})
    assert group_streams(filled.database.reader, "", 10) == {"g": [EVERYTHING], "h": ["s", "t"]}


def test_a_segment_that_is_dropped_leaves_damaged_marks_as_they_are(store_url: str) -> None:
    with open_database(store_url) as database:
        term = begin_term(database.writer, "one", 0)
        live = LoadedStream(
            Stream("s", StreamConfig(mark_interval_ms=0, max_ahead_ms=None), SegmentGraph(open=True), now=0),
            StreamOrigin("1", 0, None),
            tenure_of(term),
            stored_fence=None,
            watch=lambda _: None,
        )
        for time in (1, 2, 3):
            live.stream.note(Note(writer="w", times={"": time}, position={"p": time, "q": time}), time)

        def flush() -> None:
            commit = commit_of(term)
            live.write(commit)
            write_commit(database.writer, commit)

        flush()
        with database.writer.begin():
            database.writer.execute(update(schema.mark).where(schema.mark.c.seq == 2).values(upper=99))
        live.drop_segment("q", 4)
        flush()

        with database.reader.begin():
            marks = StoredMarks(database.reader, "s", "")
            assert [mark.cut for mark in (*marks.between(1, 1), *marks.between(3, 3))] == [Cut({"p": 1}), Cut({"p": 3})]
            with pytest.raises(StoreCorrupt, match=MISMATCH):
                marks.between(2, 2)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
WHOLE = st.integers(-(2**63), 2**63 - 1)


def values_of(table: Table) -> st.SearchStrategy[dict[str, Any]]:
    """Any row of a table, but for its checksum and its shard."""
    kinds = {Boolean: st.booleans(), Double: st.floats(0, 1)}

    def of(column: Column[Any]) -> st.SearchStrategy[Any]:
        kind = kinds.get(type(column.type), NAMES if column.type.python_type is str else WHOLE)
        return st.one_of(st.none(), kind) if column.nullable else kind

    covered = [each for each in table.columns if each.name not in ("checksum", schema.SHARD)]
    return st.fixed_dictionaries({column.name: of(column) for column in covered})


@given(data=st.data(), table=st.sampled_from(list(CHECKSUMS)))
def test_rows_that_differ_have_checksums_that_differ(data: st.DataObject, table: Table) -> None:
    one = data.draw(values_of(table))
    name = data.draw(st.sampled_from(list(one)))
    another = one | {name: data.draw(values_of(table))[name]}
    checksums = Checksums(table)
    same = all(one[each] == another[each] for each in one)
    assert (checksums.of(one) == checksums.of(another)) == same


def test_the_two_stores_have_the_same_checksums(tmp_path: Any, postgres_url: str) -> None:
    def all_rows(url: str) -> list[Any]:
        with open_database(url) as database:
            Filled(database)
            with database.reader.begin():
                return [
                    [tuple(row) for row in database.reader.execute(select(table).order_by(*table.primary_key))]
                    for table in CHECKSUMS
                ]

    assert all_rows(str(tmp_path / "store.db")) == all_rows(postgres_url)
