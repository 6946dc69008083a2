"""A stream to tell rules with: short calls, and a book of every mark that came of them."""

from __future__ import annotations

import pickle
from typing import Any

from strandline.core.changes import NoteResult, Registered
from strandline.core.config import StreamConfig
from strandline.core.forgetting import GONE_KEPT_MS
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.served_time import Unserved
from strandline.core.stream import Stream

START_MS = 1_000
LIMIT_NOTES = 64


class Book:
    """Calls at `now`, which moves only when told to. Marks come for every advance unless a setting says otherwise."""

    def __init__(
        self, *, history_notes: int = LIMIT_NOTES, gone_kept_ms: int = GONE_KEPT_MS, open: bool = False, **settings: Any
    ) -> None:
        config = StreamConfig(**({"mark_interval_ms": 0, "max_ahead_ms": None} | settings))
        graph = SegmentGraph(open=True) if open else SegmentGraph.equal_shares(2, START_MS)
        self.now = START_MS
        self.gone_kept_ms = gone_kept_ms
        self.unserved = Unserved()
        self.stream = Stream(
            "s",
            config,
            graph,
            now=self.now,
            history_notes=history_notes,
            gone_kept_ms=gone_kept_ms,
            unserved=self.unserved,
        )
        self.marks: list[Mark] = []

    def after(self, passed_ms: int) -> Book:
        self.now += passed_ms
        return self

    def note(
        self,
        writer: str,
        time: int,
        position: dict[str, int] | None = None,
        *,
        key: str = "",
        epoch: int | None = None,
        newest: int | None = None,
        tail: bool = False,
    ) -> NoteResult:
        said = Note(
            writer=writer,
            times={key: time},
            position=position or {},
            epoch=epoch,
            newest={} if newest is None else {key: newest},
        )
        answer = self.stream.note(said, self.now, tail=tail)
        self._drain()
        return answer

    def register(self, writer: str, *keys: str, registration: str | None = None) -> Registered:
        registered = self.stream.register(writer, keys or None, self.now, registration)
        self._drain()
        return registered

    def call(self, what: str, *arguments: Any) -> Any:
        """Any other call, by name."""
        result = getattr(self.stream, what)(*arguments, self.now)
        self._drain()
        return result

    def _drain(self) -> None:
        self.marks += self.stream.drain().marks

    def restart(self) -> None:
        """Goes on with a stream that finds writers, last marks and what forgotten writers left behind in a store."""
        before = self.stream
        self.stream = Stream.restored(
            "s",
            before.config,
            SegmentGraph(list(before.graph), open=before.graph.open),
            sealed=before.sealed,
            epochs=before.epochs,
            head=before.head,
            clock=before.clock,
            writers=pickle.loads(pickle.dumps(list(before.writers.values()))),
            last_marks=before.last_marks.values(),
            remainders=before.remainders,
            gone_kept_ms=self.gone_kept_ms,
        )

    def times(self, key: str = "") -> list[int]:
        """The times of all marks of a key so far."""
        return [mark.time for mark in self.marks if mark.key == key]

    @property
    def last(self) -> Mark:
        return self.marks[-1]

    def cut(self) -> dict[str, int]:
        """The newest mark's cut."""
        return dict(self.last.cut.items())

    def state(self, writer: str, key: str = "") -> str:
        return str(self.stream.states(self.stream.writers[writer])[key])

    def holder(self, key: str = "") -> str | None:
        held = self.stream.held_by(key, self.now)
        return None if held is None else (held.writer or held.state)
