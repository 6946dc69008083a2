"""A commit about many streams goes to the database in as many statements as one about a single stream."""

from __future__ import annotations

from typing import Any

from sqlalchemy import event

from controller.storage.database import open_database
from controller.storage.rows import StreamOrigin
from controller.streams.loaded_stream import LoadedStream
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from tests.storage.loads import made
from tests.storage.writes import write


def new_stream(name: str) -> LoadedStream:
    config = StreamConfig(mark_interval_ms=0, max_ahead_ms=None)
    return made(Stream(name, config, SegmentGraph.equal_shares(1, 0), now=0), StreamOrigin(name, 0, None))


def test_streams_that_are_written_together_share_their_statements(both_stores: str) -> None:
    with open_database(both_stores) as database:
        streams = [new_stream(f"s{number}") for number in range(20)]
        write(database, *streams)
        sent: list[str] = []

        def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
            sent.append(statement)

        for at, written in enumerate(([streams[0]], streams), 1):
            for each in written:
                each.stream.note(Note(writer=f"w{at}", times={"": at}, position={"0": at}), at)  # one to be journaled
            event.listen(database.writer, "before_cursor_execute", count)
            write(database, *written)
            event.remove(database.writer, "before_cursor_execute", count)
        assert len(sent) == 2 * len(set(sent))
        assert any("DELETE FROM journal" in statement for statement in sent)
