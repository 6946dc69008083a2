"""A store in memory, with the rows that the controller's own code makes and reads; and caches of its one stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from controller.commit.writer_log import WriterLog
from controller.storage import schema
from controller.storage.save import Commit
from controller.storage.writer_states import StoredChange, changed_writers, changes_of, made_writers
from strandline.core.changes import Changes, Missed, StreamFacts
from strandline.core.cut import NOTHING
from strandline.core.mark import Mark
from strandline.core.segment import Segment, SegmentGraph
from strandline.core.stream import Stream

STATES_PER_WRITER = 2  # in the log, so that its rows are soon removed


class StateRow(NamedTuple):
    stream: str
    name: str
    state: str
    through: int


class ChangeRow(NamedTuple):
    stream: str
    seq: int
    writers: str
    stamp: int


class Store:
    """What is stored of the stream."""

    def __init__(self, stream: Stream, **settings: Any) -> None:
        """`settings` are those that all caches of the stream share."""
        self.name = stream.name
        self.open = stream.graph.open
        self.config = stream.config
        self.segments: dict[str, Segment] = {segment.id: segment for segment in stream.graph}
        self.sealed = False
        self.facts = StreamFacts(0, NOTHING, {}, {})
        self.clock = stream.clock
        self.states: dict[str, StateRow] = {}
        self.log: dict[int, ChangeRow] = {}
        self.marks: dict[str, list[Mark]] = {}
        self.version = 0
        self.structure = 0  # rises with each structural change
        self.facts_version = 0  # of the commit that wrote the stream's own row last
        self._settings = settings

    def load(self) -> tuple[Stream, WriterLog]:
        states, changes = (
            [self.states[name] for name in sorted(self.states)],
            [self.log[seq] for seq in sorted(self.log)],
        )
        stored = made_writers(self.name, states, changes)  # type: ignore[arg-type]  # it reads these columns
        last_marks = [marks[-1] for marks in self.marks.values()]
        stream = Stream.restored(
            self.name,
            self.config,
            SegmentGraph(self.segments.values(), open=self.open),
            sealed=self.sealed,
            epochs=self.facts.epochs,
            head=self.facts.head,
            clock=self.clock,
            writers=stored.writers.values(),
            last_marks=last_marks,
            remainders=self.facts.remainders,
            passed=self.facts.passed,
            **self._settings,
        )
        return stream, WriterLog(self.name, stored.log, states_per_writer=STATES_PER_WRITER)

    def commit(self, stream: Stream, log: WriterLog, stamp: int) -> Changes:
        """Writes all changes of a cache."""
        changes, commit = stream.drain(), Commit(stamp)
        log.write(stream.writers, changes.writers, changes.forgotten, commit)
        for (table, _), keys in commit.removed.items():
            assert table is schema.writer_state
            for key in keys:
                self.states.pop(key["name"], None)
        for each in commit.logged:
            self.log = {seq: row for seq, row in self.log.items() if seq >= each["seq"]}
        for values in commit.put.get(schema.writer_state, []):
            self.states[values["name"]] = StateRow(**values)
        for values in commit.added[schema.writer_change]:
            assert values["seq"] not in self.log, "another commit has that version"
            self.log[values["seq"]] = ChangeRow(**values)
        self.version, self.clock = log.seq, stream.clock
        for mark in changes.marks:
            marks = self.marks.setdefault(mark.key, [])
            assert mark.seq == len(marks) + 1
            marks.append(mark)
        if changes.structural:
            self.structure = self.version
            self.config, self.sealed = stream.config, stream.sealed
            self.segments.update(changes.segments)
            for segment in changes.dropped:
                del self.segments[segment]
                for marks in self.marks.values():
                    marks[:] = [replace(mark, cut=mark.cut.without(segment)) for mark in marks]
        if changes.stream:
            self.facts_version = self.version
            self.facts = StreamFacts(stream.epochs, stream.head, dict(stream.passed), stream.remainders)
        return changes

    def changes_since(self, seq: int) -> list[StoredChange]:
        rows: list[Any] = [row for row in self.log.values() if row.seq >= seq]
        return [StoredChange(row.seq, row.stamp, changes_of(row)) for row in rows]


class Cache:
    """One controller's copy of the stream."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._load()

    def _load(self) -> None:
        self.stream, self.log = self._store.load()
        self._compared()

    def _compared(self) -> None:
        store = self._store
        self._version, self._structure, self._facts_version = store.version, store.structure, store.facts_version
        self._seqs = {key: len(marks) for key, marks in store.marks.items()}
        row = store.log.get(store.version)
        self._stamp = 0 if row is None else row.stamp

    def catch_up(self) -> bool:
        """Adopts what others stored, or loads the stream where that cannot be; returns whether it adopted any."""
        store = self._store
        if self._version == store.version:
            return False
        rows = store.changes_since(self._version)
        if self._structure != store.structure or rows[0].seq != self._version:
            self._load()
            return False
        assert rows[0].stamp == self._stamp
        rows = rows[1:]
        marks = [mark for key, marks in store.marks.items() for mark in marks[self._seqs.get(key, 0) :]]
        forgotten, writers = changed_writers(rows, self.stream.writers)
        facts = None if self._facts_version == store.facts_version else store.facts
        self.stream.adopt(Missed(store.clock, forgotten, writers, marks, facts))
        self.log.adopt(rows, min(store.log))
        assert not self.stream.is_changed, "to catch up is no change"
        self._compared()
        return True

    def commit(self, stamp: int) -> Changes:
        changes = self._store.commit(self.stream, self.log, stamp)
        self._compared()
        return changes
