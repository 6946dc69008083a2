"""What a stream that is written and loaded again has to keep, beside what tests/replica and tests/several draw."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from controller.commit.writer_log import WriterLog
from controller.storage import schema
from controller.storage.database import Database, open_database
from controller.storage.writer_states import StoredLog
from controller.streams.loaded_stream import LoadedStream
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from tests.storage.loads import load_stream, made
from tests.storage.writes import write


class Kept:
    """A stream whose every flush is written to a real database."""

    def __init__(self, database: Database, stream: Stream) -> None:
        self._database = database
        self._live = made(stream)
        self._live.log = WriterLog("s", StoredLog(), states_per_writer=1)  # so that rows go all the time

    @property
    def stream(self) -> Stream:
        return self._live.stream

    def __getattr__(self, name: str) -> Any:
        """Every call of a stream, but for the one below."""
        return getattr(self._live.stream, name)

    def drop_segment(self, segment: str, now: int) -> None:
        self._live.drop_segment(segment, now)

    def flush(self) -> None:
        write(self._database, self._live)

    def load_again(self) -> None:
        self.flush()
        stored = load_stream(self._database.reader, self._live.name)
        assert stored is not None
        self._live = LoadedStream.loaded(stored, watch=lambda _: None, status=lambda _: b"{}")
        self._live.log = WriterLog("s", stored.log, states_per_writer=1)


def test_a_segment_that_is_added_or_returns_after_a_drop_and_restart_comes_last(store_url: str) -> None:
    #   places   b 1   z 2   a 3        b is dropped; restart; m comes: behind a, which keeps its place
    with open_database(store_url) as database:
        kept = Kept(database, Stream("s", StreamConfig(), SegmentGraph(open=True), now=0))
        kept.note(Note(writer="w", times={"": 1}, position={"b": 1, "z": 1, "a": 1}), 0)
        kept.load_again()
        kept.drop_segment("b", 0)
        kept.load_again()
        kept.note(Note(writer="w", times={"": 2}, position={"m": 1}), 0)
        kept.load_again()
        with database.reader.begin():
            places = database.reader.execute(select(schema.segment.c.place)).scalars().all()

        assert [segment.id for segment in kept.stream.graph] == ["z", "a", "m"]
        assert len(set(places)) == 3
        kept.drop_segment("z", 0)
        kept.flush()
        kept.note(Note(writer="w", times={"": 3}, position={"z": 1}), 0)
        kept.load_again()
        assert [segment.id for segment in kept.stream.graph] == ["a", "m", "z"]


def test_offsets_of_an_earlier_life_refuse_nothing_after_a_restart_either(store_url: str) -> None:
    with open_database(store_url) as database:
        kept = Kept(database, Stream("s", StreamConfig(), SegmentGraph.equal_shares(2, 0), now=0))
        kept.note(Note(writer="w", times={"": 1}, position={"0": 5}), 0)
        kept.close("w", None, 0)
        kept.note(Note(writer="w", times={"": 1}, position={"1": 1}), 0)
        kept.load_again()
        assert not kept.note(Note(writer="w", times={"": 2}, position={"0": 2}), 0).late
