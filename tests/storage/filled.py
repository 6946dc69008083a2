"""A store with two streams and two reader groups, and ways to change it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import Row, Table, delete, select, update

from controller.commit.writer_log import WriterLog
from controller.groups.loaded_group import LoadedGroup
from controller.groups.membership import Membership, StreamStart
from controller.storage import schema
from controller.storage.database import Database
from controller.storage.groups import load_group
from controller.storage.marks import StoredMarks
from controller.storage.rows import StreamOrigin, Values
from controller.storage.writer_states import StoredLog
from controller.streams.loaded_stream import LoadedStream
from strandline.core.config import StreamConfig
from strandline.core.cut import Cut
from strandline.core.note import Note
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.served_time import Moment
from strandline.core.stream import Stream
from strandline.wire.groups import GroupSettings
from tests.storage.loads import load_stream, made
from tests.storage.writes import write

OF_GROUPS = (schema.reader_group, schema.reader, schema.reader_position)
NOTES = 20
QUIET_FLUSHES = 8


class Filled:
    """A store with two streams of the same kind, `s` and `t`, and two groups, `g` and `h`, that read them."""

    def __init__(self, database: Database) -> None:
        self.database = database
        streams = [stream("s"), stream("t")]
        write(database, *streams, group("g"), group("h"))
        for time in range(1, NOTES + 1):
            for live in streams:
                note(live, time, "a", "b")
            write(database, *streams)
        for _ in range(QUIET_FLUSHES):  # a is quiet, and gets a row of its own
            for live in streams:
                note(live, NOTES, "b")
            write(database, *streams)
        for live in streams:
            live.stream.scale({"0": NOTES}, [NewSegment("2", 0.0, 0.25), NewSegment("3", 0.25, 0.5)], NOTES)
        write(database, *streams)

    def rows(self, table: Table) -> list[Row[Any]]:
        """Those of the first stream or group."""
        owner = next(iter(table.primary_key))
        with self.database.reader.begin():
            query = select(table).where(owner.in_(["s", "g"])).order_by(*table.primary_key)
            return list(self.database.reader.execute(query).all())

    def change(self, table: Table, row: Values, values: Values) -> None:
        """Changes a row as nobody of ours would."""
        with self.database.writer.begin():
            of_row = [key == row[key.name] for key in table.primary_key]
            assert self.database.writer.execute(update(table).where(*of_row).values(values)).rowcount == 1

    def remove(self, table: Table, row: Row[Any]) -> None:
        with self.database.writer.begin():
            of_row = [key == row._mapping[key.name] for key in table.primary_key]
            self.database.writer.execute(delete(table).where(*of_row))

    def read_stream(self, name: str = "s") -> None:
        assert load_stream(self.database.reader, name) is not None

    def read(self, table: Table) -> None:
        """Reads all that belongs to the first stream, or to the first group."""
        if table in OF_GROUPS:
            assert load_group(self.database.reader, "g") is not None
        else:
            self.read_stream()

    def marks(self, look: Callable[[StoredMarks], Any]) -> Any:
        with self.database.reader.begin():
            return look(StoredMarks(self.database.reader, "s", ""))


def stream(name: str) -> LoadedStream:
    shares = SegmentGraph.equal_shares(2, 0)
    live = made(
        Stream(name, StreamConfig(mark_interval_ms=0, max_ahead_ms=None), shares, now=0),
        StreamOrigin("1", 0, (("0", 0.0, 0.5), ("1", 0.5, 1.0))),
    )
    live.log = WriterLog(name, StoredLog(), states_per_writer=1)  # quiet writers get rows of their own soon
    live.noted_at = {"0": 5}
    return live


def note(live: LoadedStream, time: int, *writers: str) -> None:
    """All writers together, with a mark in each of two keys."""
    for writer in writers:
        times = {"": time, "k": time}
        live.stream.note(Note(writer=writer, times=times, position={"0": time}, newest={"": time}), time)


def group(name: str) -> LoadedGroup:
    membership = Membership(name, GroupSettings(streams=("s", "t")))
    graphs = {each: SegmentGraph.equal_shares(2, 0) for each in ("s", "t")}
    membership.register("r", {"s": {"0": 3}}, graphs, Moment(0, 0))
    membership.start("t", StreamStart(Cut({"1": 7}), "1"))
    membership.held = {"": 5}
    return LoadedGroup(membership, 0)
