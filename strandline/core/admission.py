"""Decides whether a stream takes a note. Refusals come in the order of the contract; deciding changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from strandline.core.config import StreamConfig, TimeDomain
from strandline.core.cut import Cut
from strandline.core.note import DEFAULT_KEY, Note
from strandline.core.segment import SegmentGraph
from strandline.core.writer import KeyState, Writer
from strandline.errors import (
    Fenced,
    PositionWentBack,
    StreamSealed,
    TimeTooFarAhead,
    TimeWentBack,
    WrongDomain,
)

INGESTION: Final = TimeDomain.INGESTION  # a lookup in the enum class is slower, and every note needs it


class Admitted(NamedTuple):  # five times faster to make than a frozen dataclass, and every note makes one
    """An accepted note: its times as they count, its closed cut, and whether it only repeats what is stored."""

    times: Mapping[str, int]
    cut: Cut
    repeats: bool


def admit(
    note: Note, writer: Writer | None, *, stream: str, sealed: bool, config: StreamConfig, graph: SegmentGraph, now: int
) -> Admitted:
    """Returns the note as it counts, or raises the first refusal.

    Refusals, in this order: the stream is sealed; the epoch is not the newest; a segment is unknown or the offset is
    past its end; the time is below the stored one or too far ahead; an offset is below the one noted for that segment.
    """
    if sealed:
        raise StreamSealed(stream=stream)
    if note.epoch is not None:
        check_epoch(note.writer, writer, note.epoch)
    cut = graph.cut(note.position)
    times = _counted_times(note, stream, config, now)
    key_states: Mapping[str, KeyState] = writer.key_states if writer is not None else {}
    alive = writer is not None and not writer.closed
    for key, time in times.items():
        stored = key_states[key].time if alive and key in key_states else None
        _check_time(note, key, time, stored, config, now)
    if writer is not None and alive:
        _check_offsets(note, writer)
    repeats = writer is not None and _same_times(times, key_states) and cut.le(writer.position)
    return Admitted(times, cut, repeats)


def _same_times(times: Mapping[str, int], key_states: Mapping[str, KeyState]) -> bool:
    for key, time in times.items():  # noqa: SIM110  # a plain loop is faster, and every note runs it
        if key not in key_states or key_states[key].time != time:
            return False
    return True


def check_epoch(name: str, writer: Writer | None, epoch: int | None) -> None:
    """Raises Fenced if an epoch is given and is not that of the newest registration."""
    newest = writer.epoch if writer is not None else None
    if epoch is not None and epoch != newest:
        raise Fenced(name=name, epoch=epoch, newest=newest)


def _counted_times(note: Note, stream: str, config: StreamConfig, now: int) -> Mapping[str, int]:
    """The times of a note as they count. In the ingestion domain: at most the clock, minus `clock_skew_ms`."""
    if config.time_domain is not INGESTION:
        return note.times
    if set(note.times) != {DEFAULT_KEY}:
        raise WrongDomain(stream=stream, time_domain=str(config.time_domain), call="times by key")
    return {DEFAULT_KEY: min(note.times[DEFAULT_KEY], now) - config.clock_skew_ms}


def _check_time(note: Note, key: str, time: int, stored: int | None, config: StreamConfig, now: int) -> None:
    if stored is not None and time < stored:
        raise TimeWentBack(writer=note.writer, key=key, time=time, stored_time=stored)
    if config.max_ahead_ms is not None and note.times[key] > now + config.max_ahead_ms:
        raise TimeTooFarAhead(key=key, time=note.times[key], clock=now, max_ahead_ms=config.max_ahead_ms)


def _check_offsets(note: Note, writer: Writer) -> None:
    noted = writer.noted.get
    for segment, offset in note.position.items():
        stored = noted(segment, 0)
        if offset < stored:
            raise PositionWentBack(writer=note.writer, segment=segment, offset=offset, stored_offset=stored)
