"""A stream in memory: its state, which may be ahead of the store, and its durable marks, which readers see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from controller.commit.writer_log import WriterLog
from controller.limits import NOTED_AT_MS, RECENT_MARKS
from controller.records.counts import StreamCounts
from controller.records.journal import Act, Journal, Told, log_entries
from controller.records.journal_recorder import JournalRecorder
from controller.storage import schema
from controller.storage.journal import JOURNAL_OF_STREAM
from controller.storage.load import StoredStream
from controller.storage.rows import (
    StreamOrigin,
    mark_values,
    segment_values,
    stream_values,
)
from controller.storage.save import Commit
from controller.storage.writer_states import StoredLog
from strandline.core.chain import MarkChain
from strandline.core.changes import Changes
from strandline.core.segment import Segment
from strandline.core.stream import Stream


class LoadedStream:
    """One loaded stream. `stream` has what was applied; `chains` have what is durable.

    Nobody may hold on to it over an `await`: it may have been discarded meanwhile.
    """

    def __init__(
        self,
        stream: Stream,
        origin: StreamOrigin,
        *,
        stored_fence: int | None,
        watch: Callable[[LoadedStream], None],
        counts: StreamCounts | None = None,
    ) -> None:
        """`stored_fence` is that of the term that wrote it last, None for a stream that is new.

        `watch` is told whenever changes were taken to be written, since its deadlines may be others now.
        """
        self.stream = stream
        self.origin = origin
        self.chains: dict[str, MarkChain] = {}
        self.oldest_seqs: dict[str, int] = {}  # of the marks in the store, by key
        self.noted_at: dict[str, int] = {}  # when each segment was last noted
        self.counts = counts if counts is not None else StreamCounts()
        self.journal = Journal(JOURNAL_OF_STREAM)
        self.ending: asyncio.Future[None] | None = None  # while its deletion is not durable yet
        self.sealed = stream.sealed  # as the store has it: `stream` is sealed before its last marks are durable
        self.discarded = False
        self.wake: int | None = None  # when the deadlines look at it next
        self._pruned: dict[str, int] = {}  # by key, the seq of the first mark to stay
        self._earlier = Changes()  # up to the last drop of a segment
        self._stored_fence = stored_fence
        self._watch = watch
        self.log = WriterLog(stream.name, StoredLog())
        self._places: dict[str, int] = {}
        self._listeners: dict[str, asyncio.Future[None]] = {}
        self._recorder = JournalRecorder(self.journal, self.counts)
        self._settling = False
        self._noted_until = stream.clock  # notes up to here have their segments' `last_noted_at` in the store

    @classmethod
    def loaded(
        cls, stored: StoredStream, watch: Callable[[LoadedStream], None], counts: StreamCounts | None = None
    ) -> LoadedStream:
        loaded = cls(stored.stream, stored.origin, stored_fence=stored.fence, watch=watch, counts=counts)
        for key, marks in stored.heads.items():
            if key not in loaded.counts.made_at:
                loaded.counts.made(key, (mark.created_at for mark in marks))
        loaded.chains, loaded.oldest_seqs = stored.chains, stored.first_seqs
        loaded.log = WriterLog(loaded.name, stored.log)
        loaded._places = stored.places
        loaded.noted_at = stored.noted_at
        loaded.journal = Journal(JOURNAL_OF_STREAM, stored.journal)
        loaded._recorder = JournalRecorder(loaded.journal, loaded.counts)
        loaded._recorder.resume(stored.heads)
        return loaded

    @property
    def name(self) -> str:
        return self.stream.name

    def held_since(self, key: str) -> int | None:
        """From when on someone has held time back in a key, where that is known."""
        return self._recorder.held_since(key)

    def incomplete_since(self, key: str) -> int | None:
        """From when on a key's marks have left out whom they leave out now, as far as that is known."""
        return self._recorder.incomplete_since(key)

    def drop_segment(self, segment: str, now: int) -> None:
        """Takes a segment out that the log does not have, also from marks that are not written yet.

        Marks that are made afterwards may reach into a segment of that name which came to be since.
        """
        self.stream.drop_segment(segment, now)
        self._earlier = self._earlier.then(self.stream.drain())
        self._earlier.marks = [replace(mark, cut=mark.cut.without(segment)) for mark in self._earlier.marks]

    def begin_anew(self, restored_at: int) -> None:
        """The store was brought back to an earlier moment, and nobody knows which epochs were given out since.

        So epochs go on from the milliseconds of that moment, of which there are more than there can be registrations;
        and whoever has one is fenced: a writer that was replaced since could not be told from its successor.
        """
        stream, changes = self.stream, Changes(stream=True)
        stream.epochs = max(stream.epochs, restored_at) + 1
        for writer in stream.writers.values():
            if writer.epoch is not None:
                writer.epoch = stream.epochs
                changes.writers.add(writer.name)
        self._earlier = self._earlier.then(changes)
        self.journal.act(Act("restored", None, {"restored_at": restored_at}), stream.clock)

    # -- to the store --------------------------------------------------------------------------------------------

    def write(self, commit: Commit) -> Callable[[], None]:
        """Adds to a commit everything that changed since the last time; returns what shows it to readers."""
        changes = self.stream.drain()
        if self._earlier:
            changes, self._earlier = self._earlier.then(changes), Changes()
        if self.ending is not None:
            return self._write_end(commit)
        fence = commit.term.fence
        if self._stored_fence is None:
            row = stream_values(self.stream, self.origin, commit.term.owner, fence)
            commit.add_row(schema.stream, row)
            changes.segments = {segment.id: segment for segment in self.stream.graph}
        else:
            if self._stored_fence != fence:
                commit.taken[self.name] = self._stored_fence
                changes.stream = True  # its checksum covers who owns it
            commit.owned.add(self.name)
            if changes.stream:
                row = stream_values(self.stream, self.origin, commit.term.owner, fence)
                commit.put_row(schema.stream, row)
        self._stored_fence = fence
        if self._settling or changes.dropped or changes.segments or self._noted_at_is_due:
            self._write_segments(changes, commit)
        for mark in changes.marks:
            commit.add_row(schema.mark, mark_values(self.name, mark, fence))
        self.log.write(self.stream.writers, changes.writers, changes.forgotten, commit)
        self._recorder.follow(changes, self.stream)
        told = self.journal.write(self.name, commit)
        pruned = self._pruned
        if pruned:
            self._pruned = {}
            commit.pruned += [{"stream": self.name, "key": key, "seq": seq} for key, seq in pruned.items()]
        self._watch(self)
        return partial(self._publish, changes, pruned, told, self.stream.sealed)

    def _write_end(self, commit: Commit) -> Callable[[], None]:
        if self._stored_fence is not None:
            if self._stored_fence != commit.term.fence:
                commit.taken[self.name] = self._stored_fence
            commit.owned.add(self.name)
            commit.remove(schema.stream, {"name": self.name})
        return self.discard

    @property
    def _noted_at_is_due(self) -> bool:
        return self.stream.clock - self._noted_until >= NOTED_AT_MS

    def _write_segments(self, changes: Changes, commit: Commit) -> None:
        for dropped in changes.dropped:
            commit.remove(schema.segment, {"stream": self.name, "id": dropped})
            commit.dropped.append((self.name, dropped))
            self._places.pop(dropped, None)
        self._place(changes.segments.values())
        names = set(changes.segments)
        if self._settling or self._noted_at_is_due:
            # When segments were last noted is written once in a while: nobody wants to pay for it with every note.
            names.update(name for name, noted_at in self.noted_at.items() if noted_at >= self._noted_until)
            self._noted_until = self.stream.clock
        for name in names:
            if name in self.stream.graph:
                segment = self.stream.graph[name]
                values = segment_values(self.name, self._places[name], segment, self.noted_at.get(name))
                commit.put_row(schema.segment, values)

    def _place(self, segments: Iterable[Segment]) -> None:
        new = {segment.id for segment in segments if segment.id not in self._places}
        if new:
            # In the order of the graph: one that was dropped and came again stands elsewhere among the changes.
            in_order = [segment.id for segment in self.stream.graph if segment.id in new]
            last = max(self._places.values(), default=0)
            self._places.update((name, place) for place, name in enumerate(in_order, last + 1))

    def settle(self) -> bool:
        """Before an orderly end: the next commit leaves nothing for a later one. Whether it has anything to do."""
        self._settling = any(noted_at >= self._noted_until for noted_at in self.noted_at.values())
        return self._settling

    # -- to readers ----------------------------------------------------------------------------------------------

    def prune(self, key: str, seq: int) -> None:
        """Lets marks before a seq go, with the next commit."""
        if seq > self.oldest_seqs.get(key, seq):
            self._pruned[key] = max(seq, self._pruned.get(key, seq))

    def _publish(self, changes: Changes, pruned: dict[str, int], told: list[Told], sealed: bool) -> None:
        """Shows marks that are durable now, and wakes whoever waits for them."""
        log_entries("stream", self.name, told)
        for segment in changes.dropped:
            for each in self.chains.values():
                each.drop_segment(segment)
        for key, seq in pruned.items():
            self.chains[key].prune_before_seq(seq)
            self.oldest_seqs[key] = seq
        for mark in changes.marks:
            chain = self.chains.get(mark.key)
            if chain is None:
                chain = self.chains[mark.key] = MarkChain(mark.key)
                self.oldest_seqs[mark.key] = mark.seq
            chain.append(mark)
            self.counts.made(mark.key, (mark.created_at,))
            if mark.excluded:
                self.counts.incomplete_marks[mark.key] += 1
            if len(chain) > 2 * RECENT_MARKS:
                chain.prune_before_seq(chain.last_seq - RECENT_MARKS + 1)
            self._wake(mark.key)
        self.sealed = sealed
        if sealed:
            self._wake_all()  # there is nothing to wait for any more

    def next_mark(self, key: str) -> asyncio.Future[None]:
        """Done when the key has another mark, or when this stream is no longer the one in memory."""
        listener = self._listeners.get(key)
        if listener is None:
            listener = self._listeners[key] = asyncio.get_running_loop().create_future()
        return listener

    def discard(self) -> None:
        """It is no longer the stream in memory: whoever waits has to look again."""
        self.discarded = True
        self._wake_all()

    def _wake_all(self) -> None:
        for key in list(self._listeners):
            self._wake(key)

    def _wake(self, key: str) -> None:
        listener = self._listeners.pop(key, None)
        if listener is not None and not listener.done():
            listener.set_result(None)
