"""A loaded stream: its state, which may be ahead of the store, and its durable marks, which readers see."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from controller.cluster.records import Kind
from controller.commit.writer_log import WriterLog
from controller.records.counts import StreamCounts
from controller.records.journal import AdminAction, Journal, WrittenEntry, log_entries
from controller.records.journal_recorder import JournalRecorder, resume_cadence
from controller.storage import schema
from controller.storage.counts import NOTHING_COUNTED, counts_values
from controller.storage.journal import JOURNAL_OF_STREAM
from controller.storage.load import StoredStream
from controller.storage.rewind import NEVER
from controller.storage.rows import (
    StreamOrigin,
    excluded_values,
    mark_values,
    segment_values,
    stream_values,
)
from controller.storage.save import Commit
from controller.storage.tenure import Tenure
from controller.storage.writer_states import StoredLog
from strandline.core.chain import MarkChain
from strandline.core.changes import Changes
from strandline.core.mark import Mark
from strandline.core.segment import Segment
from strandline.core.stream import Stream
from strandline.errors import StreamRecreated

RECENT_MARKS: Final = 512  # of each key, in memory; older ones are read from the store
RECENT_OFFSETS: Final = 4_194_304  # in these marks: of a stream with more than 8 192 segments there are fewer
NOTED_AT_MS: Final = 60_000  # how much of `last_noted_at`, and of what is counted, a crash may lose


class LoadedStream:
    """One loaded stream. `stream` has the applied changes; `chains` have the durable marks.

    A caller must not keep it across an `await`: it may have been discarded meanwhile.
    """

    def __init__(
        self,
        stream: Stream,
        origin: StreamOrigin,
        tenure: Tenure,
        *,
        stored_fence: int | None,
        watch: Callable[[LoadedStream], None],
        counts: StreamCounts | None = None,
    ) -> None:
        """`stored_fence` is the fence of the tenure that wrote it last, None for a new stream.

        `watch` is called whenever changes were added to a commit, since the stream's deadlines may have changed.
        """
        self.stream = stream
        self.origin = origin
        self.tenure = tenure
        self.chains: dict[str, MarkChain] = {}
        self.oldest_seqs: dict[str, int] = {}  # by key, of the oldest mark in the store
        self.noted_at: dict[str, int] = {}  # when each segment was last noted
        self.counts = counts if counts is not None else StreamCounts()
        self.journal = Journal(JOURNAL_OF_STREAM)
        self.ending: asyncio.Future[None] | None = None  # set while its deletion is not durable
        self.sealed = stream.sealed  # as the store has it: `stream` is sealed before its last marks are durable
        self._discarded = False
        self.wake: int | None = None  # when its next deadline is due
        self._pruned: dict[str, int] = {}  # by key, the seq of the first mark to keep
        self._earlier = Changes()  # the changes up to the last drop of a segment
        self._stored_fence = stored_fence
        self._watch = watch
        self.log = WriterLog(stream.name, StoredLog())
        self._places: dict[str, int] = {}
        self._listeners: dict[str, asyncio.Future[None]] = {}
        self._recorder = JournalRecorder(self.journal, self.counts)
        self._settling = False
        self._stored_wake_at = 0  # time alone changes nothing before it, as the store has it
        self._noted_until = stream.clock  # notes up to here have their segments' `last_noted_at` in the store
        self._noted_stored: set[str] = set()  # segments of which the store has a `last_noted_at`
        self._stored_counts = NOTHING_COUNTED
        # By key, whom the last mark leaves out, and since which mark; after loading the next one writes it anew.
        self._excluded: dict[str, tuple[int, tuple[str, ...]]] = {}

    @classmethod
    def loaded(
        cls,
        stored: StoredStream,
        tenure: Tenure,
        watch: Callable[[LoadedStream], None],
        counts: StreamCounts | None = None,
    ) -> LoadedStream:
        loaded = cls(stored.stream, stored.origin, tenure, stored_fence=stored.fence, watch=watch, counts=counts)
        for key, marks in stored.heads.items():
            if key not in loaded.counts.made_at:
                loaded.counts.made(key, marks)
                resume_cadence(loaded.counts.cadences[key], key, stored.since)
        loaded.counts.resume(stored.counts)
        loaded._stored_counts = stored.counts
        loaded.chains, loaded.oldest_seqs = stored.chains, stored.first_seqs
        loaded.log = WriterLog(loaded.name, stored.log)
        loaded._places = stored.places
        loaded.noted_at, loaded._noted_stored = stored.noted_at, set(stored.noted_at)
        loaded.journal = Journal(JOURNAL_OF_STREAM, stored.journal)
        loaded._recorder = JournalRecorder(loaded.journal, loaded.counts)
        loaded._recorder.resume(stored.heads, stored.since)
        loaded.store_wake()  # what the store has of it was not read, and may be too late for what comes now
        return loaded

    @property
    def discarded(self) -> bool:
        """Whether it must not be served or written: it is not equal to the store, or its tenure is over."""
        return self._discarded or self.tenure.over

    @property
    def name(self) -> str:
        return self.stream.name

    def check_identity(self, identity: str | None) -> None:
        """Raises StreamRecreated if a caller means an earlier stream of this name."""
        if identity is not None and identity != self.origin.identity:
            raise StreamRecreated(stream=self.name, identity=identity, present=self.origin.identity)

    def resume_holders(self, now: int) -> None:
        """Restores which writer holds time back, and when that began. Scans every writer, so call it once, after
        loading."""
        self._recorder.resume_holders(self.stream, now)

    def held_since(self, key: str) -> int | None:
        """Since when a writer has held time back in a key, if that is known."""
        return self._recorder.held_since(key)

    def incomplete_since(self, key: str) -> int | None:
        """Since when a key's marks have left out the writers that they leave out now, if that is known."""
        return self._recorder.incomplete_since(key)

    def drop_segment(self, segment: str, now: int) -> None:
        """Removes a segment that the log does not have, also from marks that are not written yet.

        Later marks may reach into a new segment of that name.
        """
        self.stream.drop_segment(segment, now)
        self._earlier = self._earlier.then(self.stream.drain())
        self._earlier.marks = [replace(mark, cut=mark.cut.without(segment)) for mark in self._earlier.marks]

    def start_over(self, restored_at: int) -> None:
        """Fences all writers after the store was restored to an earlier moment.

        It is unknown which epochs were given out since. So epochs continue from the milliseconds of the restore, which
        are more than any number of registrations. Every registered writer is fenced: one that was replaced since could
        not be distinguished from its successor.
        """
        stream, changes = self.stream, Changes(stream=True)
        stream.epochs = max(stream.epochs, restored_at) + 1
        for writer in stream.writers.values():
            if writer.epoch is not None:
                writer.epoch = stream.epochs
                changes.writers.add(writer.name)
        self._earlier = self._earlier.then(changes)
        self.journal.act(AdminAction("restored", None, {"restored_at": restored_at}), stream.clock)

    # -- to the store --------------------------------------------------------------------------------------------

    def write(self, commit: Commit) -> Callable[[], None]:
        """Adds all changes since the last call to a commit; returns the function that publishes them."""
        changes = self.stream.drain()
        if self._earlier:
            changes, self._earlier = self._earlier.then(changes), Changes()
        commit.under(self.tenure, Kind.STREAM, self.name, self._stored_fence)
        if self.ending is not None:
            if self._stored_fence is not None:
                commit.delete(Kind.STREAM, self.name, self.stream.epochs)
            return self.discard
        fence = self.tenure.fence
        wake_at = self._wake_at
        if self._stored_fence != fence or changes.stream or wake_at < self._stored_wake_at:
            self._stored_wake_at = wake_at
            tenure, stored_wake_at = self.tenure, None if self.tenure.shard is None else wake_at
            row = stream_values(self.stream, self.origin, tenure.owner, fence, tenure.place, stored_wake_at)
            if self._stored_fence is None:
                commit.add_row(schema.stream, row)
                changes.segments = {segment.id: segment for segment in self.stream.graph}
            else:
                commit.put_row(schema.stream, row)
        self._stored_fence = fence
        # Counts, and all but the first `last_noted_at`, are written once in a while: with each note it costs too much.
        everything = self._settling or self.stream.clock - self._noted_until >= NOTED_AT_MS
        is_new = len(self.noted_at) > len(self._noted_stored)
        if everything or is_new or changes.dropped or changes.segments:
            self._write_segments(changes, commit, everything)
        if everything:
            self._write_counts(commit)
        for mark in changes.marks:
            commit.add_row(schema.mark, mark_values(self.name, mark, self._write_excluded(mark, commit), fence))
        self.log.write(self.stream.writers, changes.writers, changes.forgotten, fence, commit)
        self._recorder.follow(changes, self.stream)
        written = self.journal.write(self.name, commit)
        pruned = self._pruned
        if pruned:
            self._pruned = {}
            commit.pruned += [{"stream": self.name, "key": key, "seq": seq} for key, seq in pruned.items()]
        self._watch(self)
        return partial(self._publish, changes, pruned, written, self.stream.sealed)

    def store_wake(self) -> None:
        """Makes the next commit tell the store when time alone changes this stream next."""
        self._stored_wake_at = NEVER + 1

    @property
    def _wake_at(self) -> int:
        if self.tenure.shard is None:
            return 0  # the store need not know it: no other controller looks
        wake = self.stream.next_wake(exact_before=-math.inf)
        return NEVER if wake is None else wake

    def _write_segments(self, changes: Changes, commit: Commit, everything: bool) -> None:
        for dropped in changes.dropped:
            commit.remove(schema.segment, {"stream": self.name, "id": dropped})
            commit.dropped.append((self.name, dropped))
            self._places.pop(dropped, None)
        self._place(changes.segments.values())
        first_noted = self.noted_at.keys() - self._noted_stored
        self._noted_stored |= first_noted
        names = first_noted | changes.segments.keys()
        if everything:
            names.update(name for name, noted_at in self.noted_at.items() if noted_at >= self._noted_until)
            self._noted_until = self.stream.clock
        for name in names:
            if name in self.stream.graph:
                segment = self.stream.graph[name]
                values = segment_values(self.name, self._places[name], segment, self.noted_at.get(name))
                commit.put_row(schema.segment, values)

    def _write_excluded(self, mark: Mark, commit: Commit) -> int | None:
        """The seq under which the store has whom a mark leaves out."""
        if not mark.excluded:
            self._excluded.pop(mark.key, None)
            return None
        since, writers = self._excluded.get(mark.key, (mark.seq, ()))
        if mark.excluded != writers:
            since = mark.seq
            commit.add_row(schema.excluded, excluded_values(self.name, mark))
        self._excluded[mark.key] = since, mark.excluded
        return since

    def _write_counts(self, commit: Commit) -> None:
        counts = self.counts.stored()
        if counts != self._stored_counts:
            self._stored_counts = counts
            commit.put_row(schema.stream_counts, counts_values(self.name, counts))

    def _place(self, segments: Iterable[Segment]) -> None:
        new = {segment.id for segment in segments if segment.id not in self._places}
        if new:
            # In the order of the graph: a segment that was dropped and came back has another place in the changes.
            in_order = [segment.id for segment in self.stream.graph if segment.id in new]
            last = max(self._places.values(), default=0)
            self._places.update((name, place) for place, name in enumerate(in_order, last + 1))

    def settle(self) -> bool:
        """Before an orderly end: makes the next commit write everything. Returns whether there is anything to write."""
        noted = any(noted_at >= self._noted_until for noted_at in self.noted_at.values())
        self._settling = noted or self.counts.stored() != self._stored_counts
        return self._settling

    # -- to readers ----------------------------------------------------------------------------------------------

    def prune(self, key: str, seq: int) -> None:
        """Removes the marks before a seq, with the next commit."""
        if seq > self.oldest_seqs.get(key, seq):
            self._pruned[key] = max(seq, self._pruned.get(key, seq))

    def _publish(self, changes: Changes, pruned: dict[str, int], written: list[WrittenEntry], sealed: bool) -> None:
        """Publishes marks that are durable now, and wakes the readers that wait for them."""
        log_entries("stream", self.name, written)
        for segment in changes.dropped:
            for each in self.chains.values():
                each.drop_segment(segment)
        for key, seq in pruned.items():
            self.chains[key].prune_before_seq(seq)
            self.oldest_seqs[key] = seq
        for mark in changes.marks:
            chain = self.chains.get(mark.key)
            if chain is None:
                chain = self.chains[mark.key] = MarkChain()
                self.oldest_seqs[mark.key] = mark.seq
            chain.append(mark)
            self.counts.made(mark.key, (mark,))
            if mark.excluded:
                self.counts.incomplete_marks[mark.key] += 1
            most = min(RECENT_MARKS, RECENT_OFFSETS // max(1, len(mark.cut)))
            if len(chain) > 2 * most:
                chain.prune_before_seq(chain.last_seq - most + 1)
            self._wake(mark.key)
        self.sealed = sealed
        if sealed:
            self.release_readers()  # no further mark will come

    def next_mark(self, key: str) -> asyncio.Future[None]:
        """Done when the key has another mark, or when this object is discarded."""
        listener = self._listeners.get(key)
        if listener is None:
            listener = self._listeners[key] = asyncio.get_running_loop().create_future()
        return listener

    def discard(self) -> None:
        """Marks this object as outdated, and wakes all waiting readers, which must get the stream again."""
        self._discarded = True
        self.release_readers()

    def release_readers(self) -> None:
        """Wakes all waiting readers, which must get the stream again."""
        for key in list(self._listeners):
            self._wake(key)

    def _wake(self, key: str) -> None:
        listener = self._listeners.pop(key, None)
        if listener is not None and not listener.done():
            listener.set_result(None)
