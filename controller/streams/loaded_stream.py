"""A loaded stream: its state, which may be ahead of the store, and its durable marks, which readers see."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from controller.commit.item import Item
from controller.commit.journal import AdminAction, Journal, WrittenEntry
from controller.commit.writer_log import WriterLog
from controller.storage import schema
from controller.storage.heads import NEVER, Head, new_head
from controller.storage.journal import JOURNAL_OF_STREAM
from controller.storage.load import StoredStream
from controller.storage.news import Found, Known
from controller.storage.rows import StreamOrigin, excluded_values, mark_values, segment_values, stream_values
from controller.storage.save import Commit
from controller.storage.subjects import Kind, Subject
from controller.storage.writer_states import StoredLog, changed_writers
from controller.streams.ahead import AheadWriter, refused_ahead
from controller.streams.counts import StreamCounts, Tally
from controller.streams.journal_recorder import count_held, recorded
from controller.streams.standing import (
    NO_SPANS,
    NO_STANDING,
    NOTHING_COUNTED,
    Standing,
    Totals,
    next_standing,
    standing_of,
    standing_text,
)
from strandline.core.chain import MarkChain
from strandline.core.changes import Changes, Missed, StreamFacts
from strandline.core.mark import Mark
from strandline.core.segment import Segment
from strandline.core.stream import Stream
from strandline.errors import StoreCorrupt, StreamRecreated, TimeTooFarAhead

RECENT_MARKS: Final = 512  # of each key, in memory; older ones are read from the store
RECENT_OFFSETS: Final = 4_194_304  # in these marks: of a stream with more than 8 192 segments there are fewer
NOTED_AT_MS: Final = 60_000  # how much of `last_noted_at` a crash may lose


class LoadedStream(Item):
    """One loaded stream, which is a cache of the store. `stream` has the applied changes; `chains` have the durable
    marks.

    A caller must not keep it across an `await`: it may have been discarded meanwhile.
    """

    def __init__(
        self,
        stream: Stream,
        origin: StreamOrigin,
        *,
        watch: Callable[[LoadedStream], None],
        head: Head | None = None,
        standing: str | None = None,
        counts: StreamCounts | None = None,
    ) -> None:
        """`head` and `standing` are the stored ones; None for a new stream.

        `watch` is called whenever changes were added to a commit or taken in, since the `deadline` may have changed.
        """
        super().__init__(Subject(Kind.STREAM, stream.name), head or new_head(origin.identity, stream.clock))
        self.stream = stream
        self.name = stream.name
        self.origin = origin
        self.chains: dict[str, MarkChain] = {}
        self._newest_seqs: dict[str, int] = {}  # by key, of the newest mark
        self.oldest_seqs: dict[str, int] = {}  # by key, of the oldest mark in the store
        self.noted_at: dict[str, int] = {}  # when each segment was last noted
        self.counts = counts if counts is not None else StreamCounts()
        self.tally = Tally()
        self.journal = Journal(JOURNAL_OF_STREAM, stream.name, self.head.journaled)
        self.sealed = stream.sealed  # as the store has it: `stream` is sealed before its last marks are durable
        self.deadline: int | None = None  # see `find_deadline`
        self.wake: int | None = None  # when it is looked at for that
        self._pruned: dict[str, int] = {}  # by key, the seq of the first mark to keep
        self._earlier: Changes | None = None  # the changes up to the last drop of a segment, and the like
        self._watch = watch
        self.waits_to_write = False  # a call waits that writes what was prepared outside of a step
        self.log = WriterLog(stream.name, StoredLog())
        self._places: dict[str, int] = {}
        self._refused: list[AheadWriter] = []  # whose notes were refused as too far ahead since the last commit
        self._listeners: dict[str, asyncio.Future[None]] = {}
        self.counts.loaded()
        self._settling = False
        self._settled = 0  # the version with which everything was written
        self.standing = NO_STANDING  # as the store has it
        self._take_standing(self._anew() if standing is None else self._read(standing))
        self._noted_until = stream.clock  # notes up to here have their segments' `last_noted_at` in the store
        self._noted_stored: set[str] = set()  # segments of which the store has a `last_noted_at`
        # By key, whom the last mark leaves out, and since which mark; after a mark that was not made here, the next one
        # writes it again.
        self._excluded: dict[str, tuple[int, tuple[str, ...]]] = {}

    @classmethod
    def loaded(
        cls,
        stored: StoredStream,
        watch: Callable[[LoadedStream], None],
        counts: StreamCounts | None = None,
    ) -> LoadedStream:
        head, standing = stored.head, stored.standing
        loaded = cls(stored.stream, stored.origin, watch=watch, head=head, standing=standing, counts=counts)
        loaded.chains, loaded.oldest_seqs = stored.chains, stored.first_seqs
        loaded._newest_seqs = {key: chain.last_seq for key, chain in stored.chains.items()}
        loaded.log = WriterLog(loaded.name, stored.log)
        loaded._places = stored.places
        loaded.noted_at, loaded._noted_stored = stored.noted_at, set(stored.noted_at)
        return loaded

    def check_identity(self, identity: str | None) -> None:
        """Raises StreamRecreated if a caller means an earlier stream of this name."""
        if identity is not None and identity != self.origin.identity:
            raise StreamRecreated(stream=self.name, identity=identity, present=self.origin.identity)

    def held_since(self, key: str) -> int | None:
        """Since when a writer has held time back in a key, if that is known."""
        held = self.standing.spans.held.get(key)
        return None if held is None else held.since

    def refuse_ahead(self, writer: str, error: TimeTooFarAhead) -> bool:
        """Keeps that a writer's notes are refused as too far ahead of the clock; whether that is to be written."""
        found = refused_ahead(writer, error, self.stream, (*self.standing.spans.ahead, *self._refused))
        if found is not None:
            self._refused.append(found)
        return found is not None

    def drop_segment(self, segment: str, now: int) -> None:
        """Removes a segment that the log does not have, also from marks that are not written yet.

        Later marks may reach into a new segment of that name.
        """
        self.stream.drop_segment(segment, now)
        self._add_earlier(self.stream.drain())
        assert self._earlier is not None
        self._earlier.marks = [replace(mark, cut=mark.cut.without(segment)) for mark in self._earlier.marks]

    def _add_earlier(self, changes: Changes) -> None:
        self._earlier = changes if self._earlier is None else self._earlier.then(changes)

    # -- from the store ------------------------------------------------------------------------------------------

    @property
    def known(self) -> Known:
        """What it has of the store."""
        return Known(self.head, self._newest_seqs.copy())

    def follow(self, found: Found) -> bool:
        news = found.streams.get(self.name)
        if news is None or news.changes[0].seq != self.head.version + 1:
            return False
        stream, row = self.stream, news.row
        for change in news.changes:
            for each in change.writers:
                known = stream.writers.get(each.name)
                for segment, offset in each.position.items():
                    if known is None or known.position.offset(segment) != offset:
                        self.noted_at[segment] = max(each.heard_at, self.noted_at.get(segment, 0))
        forgotten, writers = changed_writers(news.changes, stream.writers)
        facts = StreamFacts(news.epochs, row.head, row.passed, row.remainders)
        stream.adopt(Missed(news.head.clock, forgotten, writers, news.since.marks, facts))
        self.log.adopt(news.changes, news.first_seq)
        self.head = news.head
        self.journal.written = news.head.journaled
        for key, seq in news.since.first_seqs.items():
            self._prune(key, seq)
        self._add_marks(news.since.marks)
        for mark in news.since.marks:
            self._excluded.pop(mark.key, None)  # retention may remove the row that marks before these refer to
        self._take_standing(self._read(news.standing))
        self.find_deadline()
        self._watch(self)
        return True

    def _anew(self) -> Standing:
        """How it stands as far as the rest of it tells."""
        stream, everybody = self.stream, Changes(writers=set(self.stream.writers))
        return next_standing(NO_STANDING, stream, self.origin, everybody, NO_SPANS, NOTHING_COUNTED)

    def _read(self, text: str) -> Standing:
        """A stored standing. One that cannot be read makes nothing else unreadable."""
        try:
            return standing_of(self.name, text)
        except StoreCorrupt:
            return self._anew()

    def _take_standing(self, standing: Standing) -> None:
        count_held(self.standing.spans, standing.spans, self.counts, self.stream.clock)
        self.standing = standing

    def begin_anew(self, restored_at: int) -> None:
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
        self._add_earlier(changes)
        self.journal.act(AdminAction("restored", None, {"restored_at": restored_at}), stream.clock)

    # -- to the store --------------------------------------------------------------------------------------------

    def write(self, commit: Commit) -> Callable[[], None]:
        """Adds all changes since the last call to a commit; returns the function that publishes them."""
        changes = self.stream.drain()
        if self._earlier is not None:
            changes, self._earlier = self._earlier.then(changes), None
        if self.ending is not None:
            commit.delete(Kind.STREAM, self.name, self.stream.epochs)
            return self.discard
        is_new = not self.head.version
        if is_new:
            commit.add_row(schema.stream, stream_values(self.stream, self.origin))
            changes.segments = {segment.id: segment for segment in self.stream.graph}
        elif changes.stream or changes.dropped:
            commit.put_row(schema.stream, stream_values(self.stream, self.origin))
        # Counts, and all but the first `last_noted_at`, are written once in a while: with each note it costs too much.
        everything = self._settling or self.stream.clock - self._noted_until >= NOTED_AT_MS
        if everything or len(self.noted_at) > len(self._noted_stored) or changes.dropped or changes.segments:
            self._write_segments(changes, commit, everything)
        for mark in changes.marks:
            commit.add_row(schema.mark, mark_values(self.name, mark, self._write_excluded(mark, commit)))
        version = self.log.write(self.stream.writers, changes.writers, changes.forgotten, commit)
        refused, self._refused = self._refused, []
        spans = recorded(self.standing.spans, changes, self.stream, self.chains, self.journal, refused)
        counted, self.tally = self.tally.totals, Tally()
        standing = next_standing(self.standing, self.stream, self.origin, changes, spans, counted)
        self._settling = False
        if everything:
            self._settled = version
        written = self.journal.write(commit)
        pruned = {key: seq for key, seq in self._pruned.items() if seq > self.oldest_seqs[key]}
        if self._pruned:
            self._pruned = {}
            commit.pruned += [{"stream": self.name, "key": key, "seq": seq} for key, seq in pruned.items()]
        self.find_deadline()
        head = self.head.next(
            version,
            commit.stamp,
            structural=changes.structural,
            clock=self.stream.clock,
            wake_at=self._wake_at(),
            journaled=self.journal.written,
        )
        commit.put_head(self.subject, head, standing_text(standing))
        self._watch(self)
        return partial(self._publish, head, standing, changes, pruned, written, counted)

    @property
    def moves_wake(self) -> bool:
        """Whether the store is to have another moment before which time alone changes nothing."""
        self.find_deadline()
        return self._wake_at() != self.head.wake_at

    def find_deadline(self) -> int | None:
        """Finds the moment before which time alone changes nothing, or an earlier one: then it is found again."""
        self.deadline = self.stream.next_wake(exact_before=-math.inf)
        return self.deadline

    def _wake_at(self) -> int:
        """The same as the store is to have it. What it has is kept for as long as it is true."""
        wake, stored = self.deadline, self.head.wake_at
        if wake is None:
            return NEVER
        return stored if self.stream.clock < stored <= wake else wake

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

    def _place(self, segments: Iterable[Segment]) -> None:
        new = {segment.id for segment in segments if segment.id not in self._places}
        if new:
            # In the order of the graph: a segment that was dropped and came back has another place in the changes.
            in_order = [segment.id for segment in self.stream.graph if segment.id in new]
            last = max(self._places.values(), default=0)
            self._places.update((name, place) for place, name in enumerate(in_order, last + 1))

    def settle(self) -> bool:
        """Makes the next commit write everything that may otherwise be written later. Returns whether there is any."""
        is_settled = self.head.version == self._settled
        noted = not is_settled and any(noted_at >= self._noted_until for noted_at in self.noted_at.values())
        self._settling = noted or self.tally.totals != NOTHING_COUNTED
        return self._settling

    # -- to readers ----------------------------------------------------------------------------------------------

    def prune(self, key: str, seq: int) -> None:
        """Removes the marks before a seq, with the next commit."""
        if seq > self.oldest_seqs.get(key, seq):
            self._pruned[key] = max(seq, self._pruned.get(key, seq))

    def _publish(
        self,
        head: Head,
        standing: Standing,
        changes: Changes,
        pruned: dict[str, int],
        written: list[WrittenEntry],
        counted: Totals,
    ) -> None:
        """Publishes marks that are durable now, and wakes the readers that wait for them."""
        self.head = head
        if written:
            self.journal.log(written)
        self._take_standing(standing)
        self.counts.totals += counted
        for segment in changes.dropped:
            for each in self.chains.values():
                each.drop_segment(segment)
        for key, seq in pruned.items():
            self._prune(key, seq)
        for mark in changes.marks:
            if mark.excluded:
                self.counts.incomplete_marks[mark.key] += 1
        if changes.marks:
            self._add_marks(changes.marks)
        self.sealed = standing.sealed
        if self.sealed:
            self.release_readers()  # no further mark will come

    def _prune(self, key: str, seq: int) -> None:
        """The store has no marks before a seq any more."""
        chain = self.chains.get(key)
        if chain is None:
            return
        if seq <= chain.last_seq:
            chain.prune_before_seq(seq)
            self.oldest_seqs[key] = seq
        else:  # nor those that follow what is known
            del self.chains[key]

    def _add_marks(self, marks: Iterable[Mark]) -> None:
        for mark in marks:
            chain = self.chains.get(mark.key)
            if chain is None:
                chain = self.chains[mark.key] = MarkChain()
                self.oldest_seqs[mark.key] = mark.seq
            chain.append(mark)
            self._newest_seqs[mark.key] = mark.seq
            most = min(RECENT_MARKS, RECENT_OFFSETS // max(1, len(mark.cut)))
            if len(chain) > 2 * most:
                chain.prune_before_seq(chain.last_seq - most + 1)
            self._wake(mark.key)

    @property
    def has_old_marks(self) -> bool:
        """Whether marks will be too old to be kept."""
        is_bounded = self.stream.config.mark_retention_ms is not None
        return is_bounded and any(self.oldest_seqs[key] < chain.last_seq for key, chain in self.chains.items())

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for a mark."""
        return bool(self._listeners)

    def next_mark(self, key: str) -> asyncio.Future[None]:
        """Done when the key has another mark, or when this object is discarded."""
        listener = self._listeners.get(key)
        if listener is None:
            listener = self._listeners[key] = asyncio.get_running_loop().create_future()
        return listener

    def discard(self) -> None:
        super().discard()
        self.release_readers()

    def release_readers(self) -> None:
        """Wakes all waiting readers, which must get the stream again."""
        for key in list(self._listeners):
            self._wake(key)

    def _wake(self, key: str) -> None:
        listener = self._listeners.pop(key, None)
        if listener is not None and not listener.done():
            listener.set_result(None)
