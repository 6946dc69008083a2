"""What caches of streams read to catch up: the log's rows and the marks since those that they have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from sqlalchemy import delete, text

from controller.storage import schema
from controller.storage.database import Database, open_database
from controller.storage.heads import head_of
from controller.storage.kinds import kind_of
from controller.storage.marks import MarksSince, StoredMarks, marks_since, since_of
from controller.storage.news import Known, lock_and_look, look
from controller.storage.rows import AnyRow, Query, StreamOrigin
from controller.storage.subjects import Kind, Subject
from controller.storage.writer_states import StoredChange, changes_since, log_of
from controller.streams.loaded_stream import LoadedStream
from strandline.core.config import StreamConfig
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import StoreCorrupt
from tests.storage.loads import loaded, made
from tests.storage.writes import write


class Streams:
    """Three streams in a store, each of whose notes is a commit."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self._loaded = {}
        for name in ("a", "b", "c"):
            config = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=100)
            stream = Stream(name, config, SegmentGraph.equal_shares(1, 0), now=0)
            self._loaded[name] = made(stream, StreamOrigin(name, 0, None))
            self.flush(name)

    def note(self, name: str, writer: str, time: int, *keys: str, now: int = 0) -> list[Mark]:
        note = Note(writer=writer, times=dict.fromkeys(keys or ("",), time), position={"0": time})
        marks = self._loaded[name].stream.note(note, now).marks
        self.flush(name)
        return list(marks)

    def flush(self, name: str) -> None:
        write(self.database, self._loaded[name])

    def loaded(self, name: str) -> LoadedStream:
        return self._loaded[name]

    def version(self, name: str) -> int:
        return self._loaded[name].log.seq

    def stream(self, name: str) -> Stream:
        return self._loaded[name].stream

    def changes_since(self, **since: int) -> dict[str, list[StoredChange]]:
        rows = self._rows(changes_since(self.database.reader.dialect.name, since))
        return {stream: log_of(row for row in rows if row.stream == stream) for stream in since}

    def marks_since(self, **since: dict[str, int]) -> dict[str, MarksSince]:
        rows = self._rows(marks_since(self.database.reader.dialect.name, since))
        return {stream: since_of(row for row in rows if row.known_stream == stream) for stream in since}

    def _rows(self, query: Query) -> Sequence[AnyRow]:
        with self.database.reader.begin():
            (rows,) = kind_of(self.database.reader).select_all(self.database.reader, [query])
        return rows


@pytest.fixture
def streams(both_stores: str) -> Iterator[Streams]:
    with open_database(both_stores) as database:
        yield Streams(database)


def test_the_changes_since_a_row_begin_with_that_row_and_one_that_is_missing_is_an_error(streams: Streams) -> None:
    for time in (10, 20, 30):
        streams.note("a", "w", time)
        streams.note("b", "w", time)
    found = streams.changes_since(a=2, b=4)
    assert [each.seq for each in found["a"]] == [2, 3, 4]
    assert [each.writers[0].position for each in found["a"]] == [{"0": 10}, {"0": 20}, {"0": 30}]
    assert [each.seq for each in found["b"]] == [4]
    assert streams.changes_since(a=5, nobody=1) == {"a": [], "nobody": []}
    change = schema.writer_change.c
    with streams.database.writer.begin():
        streams.database.writer.execute(delete(schema.writer_change).where(change.stream == "a", change.seq == 3))
    with pytest.raises(StoreCorrupt, match="it is missing"):
        streams.changes_since(a=2)


def test_each_commit_has_a_row_in_the_log_which_stays_short(streams: Streams) -> None:
    for offset in range(1, 100):
        streams.stream("a").truncate({"0": offset}, 0)
        streams.flush("a")
        if offset == 1:
            assert [(each.seq, each.writers) for each in streams.changes_since(a=1)["a"]] == [(1, []), (2, [])]
    assert streams.version("a") == 100
    assert len(streams.changes_since(a=1)["a"]) <= 32


def test_marks_since_have_keys_that_are_not_given(streams: Streams) -> None:
    marks = [mark for time in (10, 20, 30) for mark in streams.note("a", "w", time)]
    marks += streams.note("a", "w", 40, "", "k", "l")
    streams.note("b", "w", 10)
    of_key = {key: [mark for mark in marks if mark.key == key] for key in ("", "k", "l")}
    assert streams.marks_since(a={"": 2}) == {"a": MarksSince([*of_key[""][2:], *of_key["k"], *of_key["l"]])}
    found = streams.marks_since(a={"": 4, "l": 1}, c={}, b={"": 1})
    assert found == {"a": MarksSince(of_key["k"]), "b": MarksSince(), "c": MarksSince()}


def test_a_cache_follows_marks_that_are_removed_also_those_that_it_did_not_know(streams: Streams) -> None:
    def note(*times: int) -> None:
        for time in times:
            streams.note("a", "w", time, "", "k")

    def prune(seqs: dict[str, int]) -> None:
        for key, seq in seqs.items():
            streams.loaded("a").prune(key, seq)
        streams.flush("a")
        cache.take_in(look(streams.database.reader, {cache.subject: cache.known}), 0.0)

    note(10, 20, 30, 40)
    cache = loaded(streams.database.reader, "a")
    prune({"": 3})
    assert not cache.discarded
    assert cache.oldest_seqs == {"": 3, "k": 1}
    assert [mark.seq for mark in cache.chains[""]] == [3, 4]
    note(50, 60, 70)
    prune({"": 6, "k": 2})
    assert not cache.discarded
    assert cache.oldest_seqs == {"": 6, "k": 2}
    whole = loaded(streams.database.reader, "a")
    found, expected = ({key: list(chain) for key, chain in each.chains.items()} for each in (cache, whole))
    assert found == expected


def test_marks_since_name_whom_they_leave_out(streams: Streams) -> None:
    streams.note("a", "late", 5)
    streams.note("a", "w", 10)
    marks = [mark for time in (20, 30, 40) for mark in streams.note("a", "w", time, now=200)]
    assert marks
    assert {mark.excluded for mark in marks} == {("late",)}
    last = marks[0].seq - 1
    assert streams.marks_since(a={"": last}) == {"a": MarksSince(marks)}
    assert streams.marks_since(a={"": last + 1}) == {"a": MarksSince(marks[1:])}


LONG = 30_000  # rows
GROW = f"""
INSERT INTO writer_change SELECT stream, seq + i, writers, stamp FROM writer_change, generate_series(1, {LONG}) i
    WHERE stream = 'a' AND seq = 2;
INSERT INTO mark SELECT stream, key, seq + i, time + i, upper + i, cut, newest, excluded_since, created_at
    FROM mark, generate_series(1, {LONG}) i WHERE stream = 'a';
INSERT INTO head SELECT kind, name || i, identity, version, stamp, structure, clock, wake_at, journaled, standing
    FROM head, generate_series(1, {LONG}) i WHERE name = 'b';
UPDATE head SET version = version + {LONG} WHERE name = 'a';
ANALYZE"""
ROWS_READ = "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables"


def test_postgresql_reads_little_more_than_is_lacking_of_many_streams_and_a_long_history(postgres_url: str) -> None:
    with open_database(postgres_url) as database:
        streams, writer, subject = Streams(database), database.writer, Subject(Kind.STREAM, "a")
        streams.note("a", "w", 10)
        with writer.begin():
            for statement in GROW.split(";"):
                writer.execute(text(statement))
        with writer.begin():
            head = head_of(writer, subject)
        assert head is not None
        known = Known(head._replace(version=head.version - 1), {"": LONG})
        with writer.begin():
            before = writer.execute(text(ROWS_READ)).scalar_one()
            found = lock_and_look(writer, [subject], {subject: known}, ())()
            StoredMarks(writer, "a", "").start(LONG)
            read = writer.execute(text(ROWS_READ)).scalar_one() - before
        assert [mark.seq for mark in found.streams["a"].since.marks] == [LONG + 1]
        assert [change.seq for change in found.streams["a"].changes] == [head.version]
        assert read < 100
