"""The log of what flushes changed in writers: bounded, and whoever loads it finds each writer as it was."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import select

from controller.commit.writer_log import LOG_LEAST_WRITERS, LOG_ROW_STATES, LOG_STATES_PER_WRITER
from controller.storage import schema
from controller.storage.database import Database, open_database
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.core.writer import KeptNote
from tests.storage.loads import load_stream, made
from tests.storage.writes import write


class Flushes:
    """A stream of its own, each of whose flushes is committed."""

    def __init__(self, database: Database) -> None:
        config = StreamConfig(mark_interval_ms=None, max_ahead_ms=None)
        stream = Stream("s", config, SegmentGraph.equal_shares(1, 0), now=0, gone_kept_ms=0)
        self._database = database
        self.live = made(stream)

    def note(self, time: int, *writers: str) -> None:
        for writer in writers:
            self.live.stream.note(Note(writer=writer, times={"": time}, position={"0": time}), time)
        self.flush()

    def come_and_go(self, time: int, *writers: str) -> None:
        """Each of these notes and closes, a mark passes it, and it is forgotten; each call has a flush of its own."""
        for writer in writers:
            self.note(time, writer)
            self.live.stream.close(writer, None, time)
            self.flush()
        self.live.stream.evaluate("", time)
        self.note(time + 1, "stays")
        self.live.stream.evaluate("", time)
        self.live.stream.advance(time)  # which is the next call
        self.flush()

    def flush(self) -> None:
        write(self._database, self.live)


def rows_of_writers(database: Database) -> Sequence[str]:
    """Which writers have rows of their own."""
    with database.reader.begin():
        return database.reader.execute(select(schema.writer_state.c.name)).scalars().all()


def logged(database: Database) -> list[list[str]]:
    """Whom each row of the log concerns."""
    with database.reader.begin():
        rows = database.reader.execute(select(schema.writer_change.c.writers).order_by(schema.writer_change.c.seq))
        return [[state[0] for state in json.loads(writers)] for writers in rows.scalars()]


def times(database: Database) -> dict[str, int | None]:
    stored = load_stream(database.reader, "s")
    assert stored is not None
    return {name: writer.key_states[""].time for name, writer in stored.stream.writers.items()}


def histories(stream: Stream) -> dict[str, list[KeptNote]]:
    """What later marks can need."""
    last_time = stream.last_marks[""].time if stream.last_marks else -1
    return {
        name: [kept for kept in writer.key_states[""].history if kept.time > last_time]
        for name, writer in sorted(stream.writers.items())
    }


def test_a_log_stays_in_proportion_to_its_writers(store_url: str) -> None:
    with open_database(store_url) as database:
        flushes = Flushes(database)
        flushes.note(1, "once", "a", "b")
        most = 0
        for time in range(2, 150):
            flushes.note(time, "a", "b")
            most = max(most, sum(map(len, logged(database))))

        bound = LOG_STATES_PER_WRITER * (LOG_LEAST_WRITERS + 3)
        assert bound - 2 <= most <= bound
        assert times(database) == {"once": 1, "a": 149, "b": 149}
        assert rows_of_writers(database) == ["once"]


def test_a_writer_that_goes_on_noting_needs_no_row_of_its_own(store_url: str) -> None:
    with open_database(store_url) as database:
        flushes = Flushes(database)
        flushes.note(1, "a", "b", "c")
        for time in range(2, 120):
            flushes.note(time, "a", *(["b"] if time % 5 == 0 else []))
            stored = load_stream(database.reader, "s")
            assert stored is not None
            assert histories(stored.stream) == histories(flushes.live.stream)
            assert stored.log == flushes.live.log._log
        assert rows_of_writers(database) == ["c"]


def test_a_flush_of_very_many_writers_takes_several_rows_which_go_with_their_stream(store_url: str) -> None:
    names = [f"w{number}" for number in range(2 * LOG_ROW_STATES + 1)]
    with open_database(store_url) as database:
        flushes = Flushes(database)
        flushes.note(1, *names)

        assert [len(row) for row in logged(database)] == [LOG_ROW_STATES, LOG_ROW_STATES, 1]
        assert times(database) == dict.fromkeys(names, 1)
        with database.writer.begin():
            database.writer.execute(schema.stream.delete())
        assert logged(database) == []


def test_forgotten_writers_leave_the_store_and_do_not_return(store_url: str) -> None:
    with open_database(store_url) as database:
        flushes = Flushes(database)
        flushes.note(1, "stays")
        for time in range(2, 200, 2):
            flushes.come_and_go(time, f"pod-{time}")
            assert set(flushes.live.stream.writers) == {"stays"}
            if time % 20 == 0:
                assert set(times(database)) == {"stays"}

        states = sum(map(len, logged(database)))
        assert states <= LOG_STATES_PER_WRITER * (LOG_LEAST_WRITERS + 3)
        assert len(rows_of_writers(database)) <= 1
        stored = load_stream(database.reader, "s")
        assert stored is not None
        assert stored.stream.remainders[""].writers == 99
        assert stored.stream.remainders == flushes.live.stream.remainders
        assert stored.log == flushes.live.log._log
