"""Which writers of a stream have been silent for too long. Silence is counted in served time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Final

from strandline.core.agenda import Agenda
from strandline.core.aggregate import Aggregate
from strandline.core.config import StreamConfig
from strandline.core.served_time import Unserved
from strandline.core.writer import StreamWriter, WriterRole

SILENT_PER_CALL: Final = 256  # writers that time out; later calls of the stream time out the rest

AWAITED = frozenset({WriterRole.COUNTED, WriterRole.BLOCKING, WriterRole.SKIPPED})  # roles that time out


class Silence:
    """The deadlines of a stream's writers."""

    def __init__(
        self,
        writers: Mapping[str, StreamWriter],
        aggregates: Mapping[str, Aggregate],
        config: StreamConfig,
        unserved: Unserved,
    ) -> None:
        """`writers` by name and `aggregates` by time key are the stream's own."""
        self.deadlines = Agenda()  # writers, each at or before the served time at which it times out
        self._writers = writers
        self._aggregates = aggregates
        self._timeout_ms = config.writer_timeout_ms
        self._unserved = unserved

    def configure(self, config: StreamConfig) -> None:
        """All writers have to be armed again."""
        self._timeout_ms = config.writer_timeout_ms
        self.deadlines.clear()

    def arm(self, writer: StreamWriter) -> None:
        """Sets the deadline of a writer, which has none, if it can time out."""
        if self._timeout_ms and self._waits_for(writer):
            self.deadlines.put(writer.name, writer.served_at + self._timeout_ms)

    def time_out(self, now: int) -> Iterator[tuple[StreamWriter, list[str]]]:
        """Times out writers that have been silent too long, at most `SILENT_PER_CALL`, and the rest in later calls.

        Gives the writers whose deadline was there, each with the keys in which it is lost now: the stream updates one
        before it asks for the next.
        """
        assert self._timeout_ms, "without a timeout there is no deadline"
        served = self._unserved.served(now)
        for name in self.deadlines.due(served, most=SILENT_PER_CALL):
            writer = self._writers[name]
            deadline, keys = writer.served_at + self._timeout_ms, []
            if deadline <= served:
                for key, key_state in writer.key_states.items():
                    if self._aggregates[key].role(name) in AWAITED:
                        key_state.lost_at = now - (served - deadline)
                        keys.append(key)
            yield writer, keys

    def next_at(self, exact_before: float = math.inf) -> int | None:
        """When the next writer times out, at the latest. A moment from `exact_before` on may be too early, since the
        deadlines of writers that called meanwhile are not looked up."""
        first = self.deadlines.first()
        while self._timeout_ms and first is not None and first[0] + self._unserved.total_ms < exact_before:
            deadline, name = first
            writer = self._writers[name]
            if not self._waits_for(writer):
                self.deadlines.drop(name)
            elif deadline == writer.served_at + self._timeout_ms:
                break
            else:
                self.deadlines.put(name, writer.served_at + self._timeout_ms)
            first = self.deadlines.first()
        return None if first is None else first[0] + self._unserved.total_ms

    def _waits_for(self, writer: StreamWriter) -> bool:
        return any(self._aggregates[key].role(writer.name) in AWAITED for key in writer.key_states)
