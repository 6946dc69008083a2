"""A controller: a Stream in memory, and a store that keeps what the stream says has changed.

Calls are executed one by one and become durable together; an answer goes out when its call is durable. A crash
takes everything back that was not: the next controller starts from the store. While the store is away it can be read,
but commits fail, and each takes back what it should have made durable.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from controller.clock import Clock
from strandline.core.aggregate import Remainder
from strandline.core.changes import Changes, NoteResult, Registered
from strandline.core.config import StreamConfig
from strandline.core.cut import NOTHING, Cut
from strandline.core.mark import Mark
from strandline.core.segment import Segment, SegmentGraph
from strandline.core.served_time import SERVED_GAP_MS, Unserved
from strandline.core.stream import Stream
from strandline.errors import Refused
from tests.simulation.network import Call, Kind

GONE_KEPT_MS = 50  # as everything here, shorter than in earnest


@dataclass(slots=True)
class Host:
    """The host's two clocks, the truth about time, and how much of it callers could be heard in."""

    wall_ms: int
    passed_ms: int = 0
    certain_ms: int = 0  # in which callers could be heard, up to when somebody served last
    pending_ms: int = 0  # since then, by the controller's clock

    @property
    def served_ms(self) -> int:
        return self.certain_ms + (self.pending_ms if self.pending_ms <= SERVED_GAP_MS else 0)

    def wall(self) -> int:
        return self.wall_ms

    def monotonic(self) -> int:
        return self.passed_ms

    def move(self, passed_ms: int) -> None:
        """Lets time pass."""
        self.wall_ms += passed_ms
        self.passed_ms += passed_ms

    def went(self, by_ms: int, *, served: bool) -> None:
        """The controller's clock went on by so much; `served`: and a controller served then."""
        self.pending_ms += by_ms
        if served:
            self.certain_ms, self.pending_ms = self.served_ms, 0


@dataclass(slots=True)
class Done:
    """Something that was executed, with every mark that came of it; `call` is None for what no process asked."""

    what: str
    now: int
    writer: str | None
    call: Call | None
    result: NoteResult | Registered | Refused | None
    changes: Changes
    config: StreamConfig
    served: int  # the time in which callers could be heard until then
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
    unserved_ms: int = 0
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

    def load(self, history_notes: int, gone_kept_ms: int, unserved: Unserved) -> Stream:
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
            unserved=unserved,
        )


class Controller:
    """Serves one stream, or is down (`stream` is None)."""

    def __init__(self, config: StreamConfig, graph: SegmentGraph, host: Host, history_notes: int) -> None:
        now = host.wall()
        self.history_notes = history_notes
        self.host = host
        self.store = Store(config, {segment.id: segment for segment in graph}, graph.open, now, now)
        self._clock = self._new_clock()
        self.stream: Stream | None = Stream(
            "orders",
            config,
            graph,
            now=now,
            history_notes=history_notes,
            gone_kept_ms=GONE_KEPT_MS,
            unserved=self._clock.unserved,
        )
        self.pending: list[Done] = []
        self.failing = False  # whether the last commit failed
        self.beat()

    def _new_clock(self) -> Clock:
        """As a controller has it that starts: not below any time that was told, and served time goes on."""
        unserved = Unserved(self.store.unserved_ms, self.store.served_until)
        return Clock(self.host, self.store.clock, unserved=unserved)

    def serve(self, call: Call) -> None:
        """Executes a call of a process."""
        stream = self._up()
        name = call.process.name
        if call.kind is Kind.REGISTER and call.keys is None:
            self.operate("advance")  # whoever is forgotten is so before it is asked who is known

        def run(now: int) -> NoteResult | Registered | None:
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

        self._do(str(call.kind), name, call, run)

    def operate(self, what: str, *arguments: Any) -> None:
        """Does what no process asks for: `exclude`, `include`, `close`, `configure`, `advance`, `evaluate` …"""
        stream = self._up()
        writer = arguments[0] if what in ("exclude", "include", "close") else None

        def run(now: int) -> None:
            getattr(stream, what)(*arguments, now)

        self._do(what, writer, None, run)

    def _do(
        self,
        what: str,
        writer: str | None,
        call: Call | None,
        run: Callable[[int], NoteResult | Registered | None],
    ) -> None:
        stream = self._up()
        now = self.clock()
        result: NoteResult | Registered | Refused | None
        try:
            result = run(now)
        except Refused as refusal:
            result = refusal
        known = stream.writers.get(writer) if writer is not None else None
        closed = known is not None and known.closed
        served, config, sealed = self.host.served_ms, stream.config, stream.sealed
        self.pending.append(Done(what, now, writer, call, result, stream.drain(), config, served, sealed, closed))

    def commit(self, *, away: bool = False) -> list[Done]:
        """Makes everything durable that was executed; returns it, to be answered and checked. While the store is
        away, nothing of it has happened."""
        done, self.pending = self.pending, []
        self.failing = away
        if away:
            self.stream = self.store.load(self.history_notes, GONE_KEPT_MS, self._clock.unserved)
            return []
        for each in done:
            self.store.take(self._up(), each.changes)
        return done

    def beat(self) -> None:
        """Records that somebody serves."""
        unserved = self._clock.unserved
        unserved.serve(self.clock())
        assert unserved.until is not None
        self.store.served_until, self.store.unserved_ms = unserved.until, unserved.total_ms

    def clock(self) -> int:
        """The controller's clock: it never steps back, nor does the next controller's."""
        now = self._clock.now()
        self.store.clock = max(self.store.clock, now)
        return now

    def crash(self) -> None:
        self.stream = None
        self.pending = []

    def start(self) -> None:
        """Serves again, as another controller."""
        self._clock, self.failing = self._new_clock(), False
        self.stream = self.store.load(self.history_notes, GONE_KEPT_MS, self._clock.unserved)
        self.store.take(self.stream, self.stream.drain())

    def _up(self) -> Stream:
        assert self.stream is not None
        return self.stream
