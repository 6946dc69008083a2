"""A controller: a Stream in memory, and a store that keeps what the stream says has changed.

Calls are executed one by one and become durable together; an answer goes out when its call is durable. A crash
takes everything back that was not: the next controller starts from the store.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from strandline.aggregate import Remainder
from strandline.changes import Answer, Changes, Registered
from strandline.config import StreamConfig
from strandline.cut import NOTHING, Cut
from strandline.errors import Refused
from strandline.mark import Mark
from strandline.segment import Segment, SegmentGraph
from strandline.stream import Stream
from tests.simulation.network import Call, Kind

HEARTBEAT_MS = 100
GONE_KEPT_MS = 50  # as everything here, shorter than in earnest


@dataclass(slots=True)
class Done:
    """Something that was executed, with every mark that came of it; `call` is None for what no process asked."""

    what: str
    now: int
    writer: str | None
    call: Call | None
    result: Answer | Registered | Refused | None
    changes: Changes
    config: StreamConfig
    sealed: bool = False
    closed: bool = False  # whether the writer is closed after it


@dataclass(slots=True)
class Store:
    """What survives a crash. It is told of changes only by `Stream.drain`."""

    config: StreamConfig
    segments: dict[str, Segment]
    open: bool
    clock: int
    served_until: int
    sealed: bool = False
    epochs: int = 0
    head: Cut = NOTHING
    writers: dict[str, bytes] = field(default_factory=dict)
    last_marks: dict[str, Mark] = field(default_factory=dict)
    remainders: dict[str, Remainder] = field(default_factory=dict)

    def take(self, stream: Stream, changes: Changes) -> None:
        """Stores what has changed, and nothing else."""
        if changes.stream:
            self.config, self.sealed, self.epochs, self.head = stream.config, stream.sealed, stream.epochs, stream.head
            self.remainders = stream.remainders
        self.segments.update(changes.segments)
        for name in changes.forgotten:
            self.writers.pop(name, None)
        for name in changes.writers:
            if name in stream.writers:  # else it is forgotten with what is stored after this
                self.writers[name] = pickle.dumps(stream.writers[name])
        for mark in changes.marks:
            self.last_marks[mark.key] = mark
        for segment in changes.dropped:
            self.segments.pop(segment, None)
            for key, mark in self.last_marks.items():
                self.last_marks[key] = replace(mark, cut=mark.cut.without(segment))
        self.clock = max(self.clock, stream.clock)

    def load(self, history_notes: int, gone_kept_ms: int) -> Stream:
        return Stream.restored(
            "orders",
            self.config,
            SegmentGraph(self.segments.values(), open=self.open),
            sealed=self.sealed,
            epochs=self.epochs,
            head=self.head,
            clock=self.clock,
            writers=[pickle.loads(stored) for stored in self.writers.values()],
            last_marks=self.last_marks.values(),
            remainders=self.remainders,
            history_notes=history_notes,
            gone_kept_ms=gone_kept_ms,
        )


class Controller:
    """Serves one stream, or is down (`stream` is None)."""

    def __init__(self, config: StreamConfig, graph: SegmentGraph, now: int, history_notes: int) -> None:
        self.history_notes = history_notes
        self.store = Store(config, {segment.id: segment for segment in graph}, graph.open, now, now)
        self.stream: Stream | None = Stream(
            "orders", config, graph, now=now, history_notes=history_notes, gone_kept_ms=GONE_KEPT_MS
        )
        self.pending: list[Done] = []

    def serve(self, call: Call, wall: int) -> None:
        """Executes a call of a process."""
        stream = self._up()
        name = call.process.name
        if call.kind is Kind.REGISTER and call.keys is None:
            self.operate("advance", wall)  # whoever is forgotten is so before it is asked who is known

        def run(now: int) -> Answer | Registered | None:
            match call.kind:
                case Kind.CLOCK:
                    return None
                case Kind.REGISTER:
                    keys = call.keys
                    if keys is None:  # it may name none only where the stream knows it
                        keys = None if name in stream.writers else call.process.world.keys_of[name]
                    return stream.register(name, keys, now)
                case Kind.NOTE:
                    assert call.note is not None
                    return stream.note(call.note, now, tail=call.process.tail)
                case Kind.IDLE:
                    stream.idle(name, call.epoch, now)
                    return None
                case Kind.CLOSE:
                    stream.close(name, call.epoch, now)
                    return None
                case _:
                    assert_never(call.kind)

        self._do(str(call.kind), name, call, run, wall)

    def operate(self, what: str, wall: int, *arguments: Any) -> None:
        """Does what no process asks for: `exclude`, `include`, `close`, `configure`, `advance`, `evaluate` …"""
        stream = self._up()
        writer = arguments[0] if what in ("exclude", "include", "close") else None

        def run(now: int) -> None:
            getattr(stream, what)(*arguments, now)

        self._do(what, writer, None, run, wall)

    def _do(
        self,
        what: str,
        writer: str | None,
        call: Call | None,
        run: Callable[[int], Answer | Registered | None],
        wall: int,
    ) -> None:
        stream = self._up()
        now = self.clock(wall)
        result: Answer | Registered | Refused | None
        try:
            result = run(now)
        except Refused as refusal:
            result = refusal
        known = stream.writers.get(writer) if writer is not None else None
        closed = known is not None and known.closed
        self.pending.append(Done(what, now, writer, call, result, stream.drain(), stream.config, stream.sealed, closed))

    def commit(self) -> list[Done]:
        """Makes everything durable that was executed; returns it, to be answered and checked."""
        done, self.pending = self.pending, []
        for each in done:
            self.store.take(self._up(), each.changes)
        return done

    def clock(self, wall: int) -> int:
        """The controller's clock: it never steps back, nor does the next controller's."""
        self.store.clock = max(self.store.clock, wall)
        return self.store.clock

    def beat(self, wall: int) -> None:
        """Keeps, now and then, until when the stream was served."""
        now = self.clock(wall)
        if self.stream is not None and now >= self.store.served_until + HEARTBEAT_MS:
            self.store.served_until = now

    def crash(self) -> None:
        self.stream = None
        self.pending = []

    def start(self, wall: int) -> int:
        """Serves again; returns for how long the stream was not served."""
        now = self.clock(wall)
        gap = now - self.store.served_until
        self.stream = self.store.load(self.history_notes, GONE_KEPT_MS)
        self.stream.resume(self.store.served_until, now)
        self.store.take(self.stream, self.stream.drain())
        self.store.served_until = now
        return gap

    def _up(self) -> Stream:
        assert self.stream is not None
        return self.stream
