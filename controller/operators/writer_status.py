"""The status of one writer: its state in each time key, and the notes that a later mark can still need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from controller.streams.loaded_stream import LoadedStream
from strandline.core.cut import Cut
from strandline.core.segment import SegmentGraph
from strandline.core.writer import WriterState
from strandline.errors import UnknownWriter


class WriterKey(NamedTuple):
    """A writer in one time key. `held_since` is when it began to hold time back, where that is known."""

    key: str
    state: WriterState
    time: int | None
    holds: bool
    held_since: int | None


class WriterNote(NamedTuple):
    """A note that a later mark can still need."""

    key: str
    time: int
    position: Cut
    newest: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterDetails:
    """A writer as it was at `seen_at`, by the clock.

    `counts`: marks wait for it; a closed, excluded or timed-out writer does not count. `times_out_in_ms` is None where
    the stream has no timeout. Notes are newest first. `last_entry` is as in StreamDetails.
    """

    name: str
    last_entry: tuple[str, int]
    seen_at: int
    heard_at: int
    epoch: int | None
    closed: bool
    excluded: bool
    counts: bool
    times_out_in_ms: int | None
    position: Cut
    keys: tuple[WriterKey, ...]
    notes: tuple[WriterNote, ...]
    graph: SegmentGraph


def writer_details(loaded: LoadedStream, name: str, now: int) -> WriterDetails:
    """The status of a writer. Raises UnknownWriter."""
    stream = loaded.stream
    writer = stream.writers.get(name)
    if writer is None:
        raise UnknownWriter(stream=loaded.name, writer=name)
    keys = []
    for key, state in sorted(stream.states(writer).items()):
        holder = stream.held_by(key, now)
        holds = holder is not None and holder.writer == name
        since = loaded.held_since(key) if holds else None
        keys.append(WriterKey(key, state, writer.key_states[key].value, holds, since))
    notes = [
        WriterNote(key, note.time, note.cut, note.newest)
        for key, key_state in writer.key_states.items()
        for note in key_state.history
    ]
    timeout_ms, excluded = stream.config.writer_timeout_ms, writer.excluded_at is not None
    return WriterDetails(
        name=name,
        last_entry=(loaded.origin.identity, loaded.journal.last_seq),
        seen_at=now,
        heard_at=writer.heard_at,
        epoch=writer.epoch,
        closed=writer.closed,
        excluded=excluded,
        counts=not writer.closed and not excluded and not writer.lost,
        times_out_in_ms=None if timeout_ms is None else max(0, timeout_ms - stream.silent_ms(writer, now)),
        position=writer.position,
        keys=tuple(keys),
        notes=tuple(sorted(notes, key=lambda each: each.time, reverse=True)),
        graph=stream.graph,
    )
