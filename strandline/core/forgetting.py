"""Which closed and lost writers of a stream are forgotten: those that were gone for long enough, and that marks have
passed in all of their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from strandline.core.agenda import Agenda
from strandline.core.aggregate import Aggregate
from strandline.core.config import StreamConfig
from strandline.core.writer import Phase, StreamWriter
from strandline.limits import TIME_BOUND_MS

FORGOTTEN_PER_CALL: Final = 256  # writers; later calls of the stream forget the rest
GONE_KEPT_MS: Final = 60_000  # a closed or lost writer stays known for this long after it was last heard


class Forgetting:
    """The closed and lost writers of a stream. `due` and `make_room` give those that are to be forgotten, one by one:
    the stream forgets each before it asks for the next."""

    def __init__(
        self,
        writers: Mapping[str, StreamWriter],
        aggregates: Mapping[str, Aggregate],
        config: StreamConfig,
        gone_kept_ms: int = GONE_KEPT_MS,
    ) -> None:
        """`writers` by name and `aggregates` by time key are the stream's own."""
        self.config = config
        self.to_check: set[str] = set()  # keys whose last mark may have passed a closed or lost writer
        self.lapsing = Agenda()  # lost writers, each at or before the moment from which it may be forgotten
        self.closed = Agenda()  # closed writers, each at the moment from which it may be forgotten
        self._writers = writers
        self._aggregates = aggregates
        self._gone_kept_ms = gone_kept_ms

    def add(self, writer: StreamWriter) -> None:
        """Adds a writer, if it is closed or lost."""
        lapses_at = self._lapses_at(writer)
        if lapses_at is not None:
            (self.closed if writer.closed else self.lapsing).put(writer.name, lapses_at)

    def keep(self, writer: StreamWriter) -> None:
        """The writer is not to be forgotten for now."""
        for key in writer.key_states:
            self._aggregates[key].passing.drop(writer.name)

    def drop(self, name: str) -> None:
        self.lapsing.drop(name)
        self.closed.drop(name)

    def configure(self, config: StreamConfig) -> None:
        """All writers have to be added again."""
        self.config = config
        self.lapsing.clear()
        self.closed.clear()

    def due(self, now: int) -> Iterator[StreamWriter]:
        """Those that are to be forgotten: at most `FORGOTTEN_PER_CALL`, and the rest later."""
        for agenda in (self.closed, self.lapsing):
            for name in agenda.due(now, most=FORGOTTEN_PER_CALL):
                writer = self._writers[name]
                if self._has_lapsed(writer, now):
                    self._await_marks(writer)
                else:
                    self.add(writer)
        room = FORGOTTEN_PER_CALL
        for key in sorted(self.to_check) if self.to_check else ():
            for name, time in self._passed_in(key, room):
                if self._is_to_go(self._writers[name], self._aggregates[key], time, now):
                    yield self._writers[name]
                room -= 1
            if not room:
                return
            self.to_check.discard(key)

    def make_room(self, needed_by: str) -> Iterator[StreamWriter]:
        """Closed writers that are to be forgotten before their time, the longest closed first, if marks have passed
        them."""
        for name in self.closed.due(TIME_BOUND_MS, most=FORGOTTEN_PER_CALL):
            writer = self._writers[name]
            if writer.closed and name != needed_by and self._is_passed(writer):
                yield writer
            else:
                self.add(writer)
        for key in sorted(self.to_check):  # writers that are due already, but that only a mark of this call has passed
            for name, time in self._passed_in(key, FORGOTTEN_PER_CALL):
                writer = self._writers[name]
                if writer.closed and name != needed_by and self._is_passed(writer):
                    yield writer
                else:
                    self._aggregates[key].passing.put(name, time)

    def _await_marks(self, writer: StreamWriter) -> None:
        """From now on the writer is to go, once marks have passed it in all of its keys."""
        for key, key_state in writer.key_states.items():
            self._aggregates[key].passing.put(writer.name, -TIME_BOUND_MS if key_state.time is None else key_state.time)
            self.to_check.add(key)

    def _passed_in(self, key: str, most: int) -> list[tuple[str, int]]:
        """Takes out the writers that the last mark of a key may have passed, with the mark's time."""
        aggregate = self._aggregates.get(key)
        if aggregate is None or aggregate.last is None:
            return []
        time = aggregate.last.time
        return [(name, time) for name in aggregate.passing.due(time, most=most)]

    def _is_to_go(self, writer: StreamWriter, aggregate: Aggregate, time: int, now: int) -> bool:
        """Whether a writer that the last mark of a key may have passed is to be forgotten."""
        if not self._has_lapsed(writer, now):
            self.keep(writer)
            self.add(writer)
        elif self._is_passed(writer):
            return True
        elif not (writer.closed and aggregate.has_passed(writer)):
            aggregate.passing.put(writer.name, time + 1)
        return False

    def _is_passed(self, writer: StreamWriter) -> bool:
        """Whether the last marks cover everything that a writer noted.

        There must be a mark. For a lost writer, one must have been made after it lapsed, so that a writer that notes
        rarely is not forgotten while time has not moved on without it.
        """
        aggregates = [self._aggregates[key] for key in writer.key_states]
        since = None if writer.closed else self._lapses_at(writer)
        marked = any(each.last and (since is None or each.last.created_at >= since) for each in aggregates)
        return marked and all(each.has_passed(writer) for each in aggregates)

    def _has_lapsed(self, writer: StreamWriter, now: int) -> bool:
        """Whether a writer has been closed or lost for long enough to be forgotten."""
        lapses_at = self._lapses_at(writer)
        return lapses_at is not None and lapses_at <= now

    def _lapses_at(self, writer: StreamWriter) -> int | None:
        """The moment from which a writer may be forgotten; None if it is neither closed nor lost, or is excluded.

        It must have been lost for `forget_after_ms` in every key in which it is not idle.
        """
        if writer.closed:
            return writer.heard_at + self._gone_kept_ms
        if writer.excluded_at is not None:
            return None
        moments = []
        for key_state in writer.key_states.values():
            if key_state.lost_at is not None:
                moments.append(key_state.lost_at)
            elif key_state.phase is not Phase.IDLE:
                return None
        if not moments:
            return None
        return max(max(moments) + self.config.forget_after_ms, writer.heard_at + self._gone_kept_ms)
