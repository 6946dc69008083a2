"""Loading a stream: in steps, as long as what is there is large, and exact however often controllers came and went."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator

import pytest
from sqlalchemy import select

from controller.commit import store
from controller.storage import schema
from controller.storage.database import Database, open_database
from controller.storage.diagnosis import StoreMoved, StoreSilent
from controller.storage.heads import new_stamp, serve
from controller.storage.load import (
    CHARACTERS_AT_ONCE,
    FETCHED_ROWS,
    LARGE,
    StoredStream,
    read_stream,
    ready_streams,
)
from controller.storage.news import Found
from controller.storage.save import Commit
from controller.storage.transaction import CommitUnknown
from controller.storage.writer_states import CHANGES, STATES
from controller.streams.loaded_stream import LoadedStream
from strandline.core.config import StreamConfig
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.stream import Stream
from strandline.errors import StoreCorrupt
from strandline.limits import KEYS_PER_STREAM
from tests.counting import counted
from tests.storage.loads import loaded, made
from tests.storage.writes import write

AT_ONCE = StreamConfig(mark_interval_ms=0, max_ahead_ms=None, writer_timeout_ms=None)


def new(config: StreamConfig = AT_ONCE, segments: int = 1, name: str = "s") -> LoadedStream:
    stream = Stream(name, config, SegmentGraph.equal_shares(segments, 0), now=0)
    return made(stream)


def note(live: LoadedStream, writer: str, time: int, *keys: str, now: int = 0) -> None:
    times = dict.fromkeys(keys or ("",), time)
    live.stream.note(Note(writer=writer, times=times, position={"0": time}), now)


class Served:
    """A store, and one controller after the other."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.unserved = Unserved()
        self.begin(1_000)

    def begin(self, now: int) -> None:
        """From now on another controller serves."""
        self.now = now
        service = serve(self.database.writer, now)
        self.unserved = Unserved(service.unserved_ms, service.served_until)

    def flush(self, live: LoadedStream) -> None:
        write(self.database, live)

    def loaded(self) -> LoadedStream:
        return loaded(self.database.reader, unserved=self.unserved)


@pytest.fixture
def served(store_url: str) -> Iterator[Served]:
    with open_database(store_url) as database:
        yield Served(database)


def fill(served: Served, writers: int, keys: int) -> None:
    """A stream with so many writers in one key, and one more writer in so many others."""
    live = new()
    for number in range(writers):
        note(live, f"w{number}", 1)
    note(live, "many-keys", 1, *(f"k{number}" for number in range(keys)))
    served.flush(live)


def test_loading_costs_what_is_there_not_keys_times_writers(served: Served) -> None:
    def cost(writers: int, keys: int) -> int:
        with served.database.writer.begin():
            served.database.writer.execute(schema.stream.delete())
            served.database.writer.execute(schema.head.delete())
        fill(served, writers, keys)
        served.begin(served.now + 60_000)

        def first() -> None:
            live = served.loaded()
            note(live, "w1", 2, now=served.now)
            served.flush(live)

        return counted(first)

    few, many_writers, many_keys, both = cost(100, 10), cost(1_100, 10), cost(100, 210), cost(1_100, 210)
    apart = (many_writers - few) + (many_keys - few)
    assert both - few < 1.2 * apart


def test_a_restart_writes_no_writer_anew(served: Served) -> None:
    fill(served, 50, 1)
    served.begin(60_000)
    live = served.loaded()
    note(live, "w7", 2, now=60_000)
    served.flush(live)
    with served.database.reader.begin():
        rows = served.database.reader.execute(select(schema.writer_change.c.writers)).scalars().all()
    assert rows[-1].count('["w') == 1 and '"w7"' in rows[-1]


def test_silence_while_nobody_served_counts_against_nobody_however_many_controllers_there_were(served: Served) -> None:
    #   controllers   │ a, b note │ gap │ b notes │ gap │ … │ gap
    live, often = new(), 5
    note(live, "a", 1, now=served.now)
    for turn in range(20):
        if turn % often == 0:
            live = served.loaded() if turn else live
            note(live, "b", turn, now=served.now)
            served.flush(live)
        served.begin(served.now + 10_000)
    stream = served.loaded().stream
    silent = {name: stream.silent_ms(each, served.now) for name, each in stream.writers.items()}
    assert silent == {"a": 0, "b": 0}


def test_a_load_that_is_given_up_leaves_the_connection_for_the_next(served: Served) -> None:
    fill(served, 3 * FETCHED_ROWS, 1)
    asked = []

    def go_on() -> None:
        asked.append(1)
        if len(asked) > 1:
            raise StoreSilent(seconds=1)

    with pytest.raises(StoreSilent):
        read_stream(served.database.reader, go_on, "s", served.unserved)
    assert len(served.loaded().stream.writers) == 3 * FETCHED_ROWS + 1


def test_a_long_read_waits_until_it_is_known_how_the_last_commit_ended(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server of which a standby has not confirmed a commit shows it, and may lose it.
    order: list[str] = []
    monkeypatch.setattr(store, "touch", lambda _: order.append("settled"))

    def lost(_: Found) -> Commit:
        looks = iter((None, StoreMoved(path="store.db")))

        def look() -> None:
            if error := next(looks, None):
                raise error

        served.database.check_files = look
        return Commit(new_stamp())

    async def commit_and_load() -> None:
        opened = store.Store(served.database)
        with pytest.raises(CommitUnknown):
            await opened.transact([], {}, [], lost)
        await opened.load(lambda _connection, _go_on: order.append("loaded"))
        await opened.close(1)

    asyncio.run(commit_and_load())
    assert order == ["settled", "loaded"]


def test_a_stream_goes_from_memory_without_help_of_the_collector(served: Served) -> None:
    # Objects that live long are rarely looked at by it.
    fill(served, 10, 3)
    gc.disable()
    try:
        live = served.loaded()
        note(live, "w1", 2)
        served.flush(live)
        live.discard()
        gc.collect()
        counts = live.counts  # the registry keeps them
        del live
        assert gc.collect() == 0, counts
    finally:
        gc.enable()


def test_ready_streams_are_loaded_from_one_read_each_as_it_is(served: Served) -> None:
    fill(served, CHARACTERS_AT_ONCE // 100, 1)
    for name in ("a", "b", "z"):
        live = new(name=name)
        note(live, "w", 1)
        served.flush(live)
    with served.database.writer.begin():
        served.database.writer.execute(schema.stream.update().where(schema.stream.c.name == "b").values(head="{"))
    names = ("a", "s", "b", "none", "z")
    found = ready_streams(served.database.reader, names, served.unserved)
    a, large, unreadable, none, z = found
    assert isinstance(a, StoredStream) and isinstance(z, StoredStream)
    assert (a.stream.name, z.stream.name) == ("a", "z")
    assert [mark.time for mark in z.chains[""].after(0, 9)] == [1]
    assert large is LARGE
    assert isinstance(unreadable, StoreCorrupt) and unreadable.stream == "b"
    assert none is None


def test_a_stream_with_all_the_keys_it_may_have_is_loaded_whole(served: Served) -> None:
    keys = [f"k{number}" for number in range(KEYS_PER_STREAM)]
    live = new()
    for time in (1, 2):
        note(live, "w", time, *keys)
    served.flush(live)
    loaded = served.loaded()
    assert sorted(loaded.chains) == sorted(keys)
    assert {(mark.seq, mark.time) for chain in loaded.chains.values() for mark in chain} == {(1, 1), (2, 2)}
    assert loaded.oldest_seqs == dict.fromkeys(keys, 1)


def test_all_queries_of_a_read_see_one_snapshot(served: Served) -> None:
    live = new()
    served.flush(live)
    connection = served.database.reader

    def states() -> list[str]:
        return [row.name for row in connection.execute(STATES, {"stream": "s"})]

    with connection.begin():
        before = states()
        note(live, "w", 1)
        live.settle()
        served.flush(live)
        assert states() == before
    with connection.begin():
        assert len(connection.execute(CHANGES, {"stream": "s"}).all()) == 2
