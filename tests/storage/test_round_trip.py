"""What a stream that is written and loaded again has to keep, beside what tests/several draws."""

from __future__ import annotations

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


def new(graph: SegmentGraph) -> LoadedStream:
    live = made(Stream("s", StreamConfig(), graph, now=0))
    live.log = WriterLog("s", StoredLog(), states_per_writer=1)  # so that rows go all the time
    return live


def note(live: LoadedStream, time: int, position: dict[str, int]) -> bool:
    """Whether the note was late."""
    return live.stream.note(Note(writer="w", times={"": time}, position=position), 0).late


def load_again(database: Database, live: LoadedStream) -> LoadedStream:
    write(database, live)
    stored = load_stream(database.reader, live.name)
    assert stored is not None
    loaded = LoadedStream.loaded(stored, watch=lambda _: None)
    loaded.log = WriterLog("s", stored.log, states_per_writer=1)
    return loaded


def test_a_segment_that_is_added_or_returns_after_a_drop_and_restart_comes_last(store_url: str) -> None:
    #   places   b 1   z 2   a 3        b is dropped; restart; m comes: behind a, which keeps its place
    with open_database(store_url) as database:
        live = new(SegmentGraph(open=True))
        note(live, 1, {"b": 1, "z": 1, "a": 1})
        live = load_again(database, live)
        live.drop_segment("b", 0)
        live = load_again(database, live)
        note(live, 2, {"m": 1})
        live = load_again(database, live)
        with database.reader.begin():
            places = database.reader.execute(select(schema.segment.c.place)).scalars().all()
        assert [segment.id for segment in live.stream.graph] == ["z", "a", "m"]
        assert len(set(places)) == 3

        live.drop_segment("z", 0)
        write(database, live)
        note(live, 3, {"z": 1})
        live = load_again(database, live)
        assert [segment.id for segment in live.stream.graph] == ["a", "m", "z"]


def test_offsets_of_an_earlier_life_refuse_nothing_after_a_restart_either(store_url: str) -> None:
    with open_database(store_url) as database:
        live = new(SegmentGraph.equal_shares(2, 0))
        note(live, 1, {"0": 5})
        live.stream.close("w", None, 0)
        note(live, 1, {"1": 1})
        assert not note(load_again(database, live), 2, {"0": 2})
