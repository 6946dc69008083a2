"""The same histories over a store of the controller's own, with what its caches write, adopt and load there; marks are
removed meanwhile, as retention does. After each commit all marks in the store are those of the single stream."""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from random import Random
from typing import Any, Final

from controller.operators.store_check import StoreCheck
from controller.storage.database import Database, open_database
from controller.storage.marks import StoredMarks
from controller.storage.news import look
from controller.storage.rows import StreamOrigin
from controller.storage.subjects import Kind, Subject
from controller.streams.loaded_stream import LoadedStream
from strandline.core.mark import Mark
from strandline.core.stream import Stream
from tests.drawn import Draw, Suite
from tests.several.caches import START, World
from tests.storage import loads
from tests.storage.writes import write

S: Final = Subject(Kind.STREAM, "s")
PRUNE_SHARE: Final = 0.12  # of commits


class Called:
    """A stream as calls reach it in a controller."""

    def __init__(self, loaded: LoadedStream) -> None:
        self._loaded = loaded

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded.stream, name)

    def __deepcopy__(self, memo: dict[int, Any]) -> Stream:
        return deepcopy(self._loaded.stream, memo)

    def drop_segment(self, segment: str, now: int) -> None:
        self._loaded.drop_segment(segment, now)


class StoredCache:
    """One controller's cache."""

    def __init__(self, world: StoredWorld) -> None:
        self._world = world
        self.loaded = world.load_whole()

    @property
    def stream(self) -> Any:  # a stream, but for what a controller adds to a call
        return Called(self.loaded)

    def catch_up(self) -> bool:
        """Adopts what others stored, or loads the stream where that cannot be; returns whether it adopted any."""
        version = self.loaded.head.version
        self.loaded.take_in(look(self._world.database.reader, {S: self.loaded.known}), 0.0)
        if self.loaded.discarded:
            self.loaded = self._world.load_whole()
            return False
        return self.loaded.head.version != version


class StoredWorld(World):
    """One history. It stands in for the store of its caches as well."""

    def __init__(self, random: Random, database: Database) -> None:
        super().__init__(random)
        self.database = database
        ranges = None if self._single.graph.open else ()
        write(database, loads.made(self._single, StreamOrigin("1", START, ranges)))
        self._single, self._store = self.load_whole().stream, self  # type: ignore[assignment]  # it only loads
        self._caches = [StoredCache(self) for _ in self._caches]  # type: ignore[misc]  # of the same kind
        self._marks: dict[str, list[Mark]] = {}

    def load_whole(self) -> LoadedStream:
        return loads.loaded(self.database.reader, "s", self._unserved)

    def load(self) -> tuple[Stream, None]:
        return self.load_whole().stream, None

    def step(self) -> None:
        calls, cache = self._call()
        loaded: LoadedStream = cache.loaded  # type: ignore[attr-defined]  # of a StoredCache
        expected = self._single.drain()
        for mark in expected.marks:
            self._marks.setdefault(mark.key, []).append(mark)
        for segment in expected.dropped:
            for key, marks in self._marks.items():
                self._marks[key] = [replace(mark, cut=mark.cut.without(segment)) for mark in marks]
        if self._random.random() < PRUNE_SHARE:
            for key, chain in loaded.chains.items():
                loaded.prune(key, self._random.randint(1, chain.last_seq))
        write(self.database, loaded)
        self._check_stored(calls, loaded)

    def _check_stored(self, calls: object, loaded: LoadedStream) -> None:
        """What is in the store is that of the single stream, and what is in memory is that of the store."""
        stored = self.load_whole()
        facts = ("head", "sealed", "standing", "oldest_seqs", "_newest_seqs", "_places")
        self._compare(calls, *({name: getattr(each, name) for name in facts} for each in (stored, loaded)))
        with self.database.reader.begin():
            for key, marks in self._marks.items():
                first = stored.oldest_seqs[key]
                found = StoredMarks(self.database.reader, "s", key).between(first, len(marks))
                self._compare(calls, marks[first - 1 :], found)
                self.counts["marks read"] += len(found)


def run(draw: Draw) -> Counter[str]:
    with open_database(f"sqlite:///{draw.folder}/store.db") as database:
        world = StoredWorld(draw.random, database)
        for _ in draw.steps(60):
            world.step()
        check = StoreCheck(database.reader)
        check.run()
        assert not check.faults
    assert world.counts["marks read"] > 0
    return world.counts


STORED: Final = Suite("stored-caches", run, AssertionError)
