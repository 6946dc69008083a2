"""Decides whether a stream takes a note. Refusals come in the order of the contract; deciding changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from strandline.core.config import StreamConfig, TimeDomain
from strandline.core.cut import Cut
from strandline.core.note import DEFAULT_KEY, Note
from strandline.core.segment import SegmentGraph
from strandline.core.writer import KeyState, StreamWriter, new_tuple
from strandline.errors import (
    Fenced,
    PositionWentBack,
    StreamSealed,
    TimeTooFarAhead,
    TimeWentBack,
    UnknownWriter,
    WrongDomain,
)

INGESTION: Final = TimeDomain.INGESTION  # a lookup in the enum class is slower, and every note needs it
INGESTION_AHEAD_MS: Final = 86_400_000  # the clock bounds what counts: only a time in another unit is refused
NO_KEY_STATES: Final[Mapping[str, KeyState]] = {}


class Admitted(NamedTuple):
    """An accepted note: its times as they count, its closed cut, and whether it only repeats what is stored."""

    times: Mapping[str, int]
    cut: Cut
    repeats: bool


def admit(
    note: Note,
    writer: StreamWriter | None,
    *,
    stream: str,
    sealed: bool,
    config: StreamConfig,
    graph: SegmentGraph,
    now: int,
) -> Admitted:
    """Returns the note as it counts, or raises the first refusal.

    Refusals, in this order: the stream is sealed; the epoch is not the newest; a segment is unknown or the offset is
    past its end; the time is below the stored one or too far ahead; an offset is below the one noted for that segment.
    """
    if sealed:
        raise StreamSealed(stream=stream)
    if note.epoch is not None:
        check_epoch(note.writer, writer, note.epoch)
    cut = graph.closed(note.position, note.given)
    times = note.times if config.time_domain is not INGESTION else _counted_times(note, stream, config, now)
    ahead = config.max_ahead_ms
    if ahead is not None and config.time_domain is INGESTION:
        ahead = max(ahead, INGESTION_AHEAD_MS)
    key_states: Mapping[str, KeyState] = NO_KEY_STATES if writer is None else writer.key_states
    alive = writer is not None and not writer.closed
    same = writer is not None
    for key, time in times.items():
        key_state = key_states.get(key)
        stored = None if key_state is None else key_state.time
        if stored != time:
            same = False
            if alive and stored is not None and time < stored:
                raise TimeWentBack(writer=note.writer, key=key, time=time, stored_time=stored)
        if ahead is not None and note.times[key] > now + ahead:
            raise TimeTooFarAhead(key=key, time=note.times[key], clock=now, max_ahead_ms=ahead)
    if writer is None:
        if not times:
            raise UnknownWriter(stream=stream, writer=note.writer)
        return Admitted(times, cut, repeats=False)
    if alive and not writer.noted.le(note.given):
        _check_offsets(note, writer)
    return new_tuple(Admitted, (times, cut, same and cut.le(writer.position)))


def check_epoch(name: str, writer: StreamWriter | None, epoch: int | None) -> None:
    """Raises Fenced if an epoch is given and is not that of the newest registration."""
    newest = writer.epoch if writer is not None else None
    if epoch is not None and epoch != newest:
        raise Fenced(name=name, epoch=epoch, newest=newest)


def _counted_times(note: Note, stream: str, config: StreamConfig, now: int) -> Mapping[str, int]:
    """The times of a note in the ingestion domain: at most the clock, minus `clock_skew_ms`."""
    if not note.times:
        return note.times
    if set(note.times) != {DEFAULT_KEY}:
        raise WrongDomain(stream=stream, time_domain=str(config.time_domain), call="times by key")
    return {DEFAULT_KEY: min(note.times[DEFAULT_KEY], now) - config.clock_skew_ms}


def _check_offsets(note: Note, writer: StreamWriter) -> None:
    noted = writer.noted.offsets.get
    for segment, offset in note.position.items():
        stored = noted(segment, 0)
        if offset < stored:
            raise PositionWentBack(writer=note.writer, segment=segment, offset=offset, stored_offset=stored)
