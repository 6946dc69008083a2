"""What a commit writes is what is read again."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.exc import IntegrityError

from controller.commit import journal
from controller.storage import schema
from controller.storage.database import Database, open_database
from controller.storage.heads import new_stamp
from controller.storage.rows import StreamOrigin
from controller.storage.save import Commit, write_rows
from controller.storage.transaction import transaction
from controller.streams.loaded_stream import LoadedStream
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from tests.storage.loads import loaded, made
from tests.storage.writes import write

ROW = {
    "name": "s",
    "open": True,
    "config": "{}",
    "original": "null",
    "sealed": False,
    "epochs": 0,
    "head": "{}",
    "remainders": "{}",
    "passed": "{}",
    "created_at": 0,
}


def write_all(database: Database, *rows: dict[str, Any]) -> None:
    commit = Commit(new_stamp())
    for row in rows:
        commit.put_row(schema.stream, row)
    with transaction(database.writer):
        write_rows(database.writer, commit)


def new_stream(name: str) -> LoadedStream:
    config = StreamConfig(mark_interval_ms=0, max_ahead_ms=None)
    return made(Stream(name, config, SegmentGraph.equal_shares(1, 0), now=0), StreamOrigin(name, 0, None))


def note(live: LoadedStream, time: int, writer: str = "w") -> None:
    live.stream.note(Note(writer=writer, times={"": time}, position={"0": time}), time)


def test_a_mark_is_never_overwritten_even_without_a_lock(store_url: str) -> None:
    with open_database(store_url) as database:
        first = new_stream("s")
        note(first, 1)
        write(database, first)
        one, other = loaded(database.reader), loaded(database.reader)
        note(one, 2)
        note(other, 3)
        write(database, one)

        with pytest.raises(IntegrityError):
            write(database, other)

        assert [mark.time for mark in loaded(database.reader).chains[""]] == [1, 2]


def test_of_rows_with_the_same_key_the_last_counts_and_difficult_text_is_stored_as_it_is(store_url: str) -> None:
    hard = '%(x)s \':y \\u0041 \\ "é" 漢 {0} %%'
    with open_database(store_url) as database:
        last = {**ROW, "config": hard, "created_at": 2**63 - 1, "epochs": -(2**63)}
        write_all(database, {**ROW, "config": "first"}, last)
        with database.reader.begin():
            (stored,) = database.reader.execute(select(schema.stream)).all()
        assert (stored.config, stored.created_at, stored.epochs) == (hard, 2**63 - 1, -(2**63))


def test_names_are_in_the_order_of_their_bytes(store_url: str) -> None:
    names = ["A", "Z", "_", "a", "a-b", "aB", "b", "é"]
    with open_database(store_url) as database:
        write_all(database, *({**ROW, "name": name} for name in reversed(names)))
        with database.reader.begin():
            query = select(schema.stream.c.name).order_by(schema.stream.c.name)
            assert database.reader.execute(query).scalars().all() == names


def test_a_commit_about_many_streams_has_as_many_statements_as_one_about_a_single_stream(
    both_stores: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "JOURNAL_BATCH", 1)  # each entry has old ones looked for
    with open_database(both_stores) as database:
        streams = [new_stream(f"s{number}") for number in range(20)]
        write(database, *streams)
        sent: list[str] = []

        def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            sent.append(statement)

        for at, written in enumerate(([streams[0]], streams), 1):
            for each in written:
                note(each, at, f"w{at}")  # one to be journaled
            event.listen(database.writer, "before_cursor_execute", count)
            write(database, *written)
            event.remove(database.writer, "before_cursor_execute", count)
        assert len(sent) == 2 * len(set(sent))
        assert any("DELETE FROM journal" in statement for statement in sent)
