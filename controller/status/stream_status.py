"""The status of a stream: computed in one place, for dashboard, metrics, `GET /v1/status`, `watch` and descriptions.

It is a function of a loaded stream and the clock, or of the row that the store has of it and the clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from controller.records.cadence import NO_CADENCE
from controller.records.counts import RATE_MS
from controller.status.condition import COUNTING, Facts, condition, greatest
from controller.status.condition_text import reason_of
from controller.storage.stream_status import Totals
from controller.streams.loaded_stream import LoadedStream
from controller.wording import is_epoch
from strandline.core.aggregate import Holder
from strandline.core.config import LateWriters
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.note import DEFAULT_KEY
from strandline.core.segment import SegmentGraph
from strandline.core.writer import KeyState, StreamWriter, WriterState
from strandline.wire.status import KeyStatus, StreamStatus, gravity_of
from strandline.wire.streams import holder_reply

STORED_KEYS: Final = 100  # of a stream, in its stored status
STATUS_EXCLUDED: Final = 16  # writers that a mark leaves out, named; all are counted


class WriterStatus(NamedTuple):  # one for each of very many writers
    """A writer in one time key. Late notes and refusals are counted since the stream was made; if very many writers
    have some, those of most of them since this controller serves it."""

    name: str
    state: WriterState
    time: int | None
    heard_at: int
    holds: bool
    late: int
    refused: int
    position: Cut


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamDetails:
    """A stream with its writers by key, those in trouble first, and by segment how far and when it was noted.

    `last_entry` is the newest entry of its journal, by the stream's identity and its seq. It may not be
    durable yet.
    """

    stream: StreamStatus
    last_entry: tuple[str, int]
    writers: Mapping[str, Sequence[WriterStatus]]
    noted: Mapping[str, int]
    noted_at: Mapping[str, int]
    graph: SegmentGraph


class _OfKey:
    """The totals over all writers of a key. Moments are None while there is no such writer."""

    __slots__ = ("counting", "heard_at", "left_at", "lost_at", "lost_heard_at", "peak", "served_at", "states")

    def __init__(self) -> None:
        self.states: dict[str, int] = {}
        self.counting = 0  # writers
        self.peak: int | None = None  # the greatest time that anyone noted, excluded writers aside
        self.heard_at: int | None = None  # of writers that count: when the last one was heard,
        self.served_at = 0  # and the served time then
        self.lost_at: int | None = None  # of writers that timed out: when the last one did,
        self.lost_heard_at: int | None = None  # and when the last one was heard
        self.left_at: int | None = None  # of idle and closed writers: when the last one called

    def add(self, writer: StreamWriter, key_state: KeyState, state: WriterState) -> None:
        self.states[state] = self.states.get(state, 0) + 1
        time, heard_at = key_state.time, writer.heard_at
        if time is not None and (self.peak is None or time > self.peak) and writer.excluded_at is None:
            self.peak = time
        if state in COUNTING:
            self.counting += 1
            if self.heard_at is None or writer.served_at > self.served_at:
                self.heard_at, self.served_at = heard_at, writer.served_at
        elif state in LEFT_BY_THEMSELVES:
            self.left_at = greatest(self.left_at, heard_at)
        elif state is WriterState.TIMED_OUT:
            self.lost_at = greatest(self.lost_at, key_state.lost_at)
            self.lost_heard_at = greatest(self.lost_heard_at, heard_at)


@dataclass(slots=True)
class _Writers:
    """The totals over all writers of a stream."""

    states: dict[str, int] = field(default_factory=dict)
    by_key: dict[str, _OfKey] = field(default_factory=dict)
    heard_at: int | None = None


LEFT_BY_THEMSELVES: Final = frozenset({WriterState.IDLE, WriterState.CLOSED})
_NOBODY: Final = _OfKey()
_RANKS: Final = {
    WriterState.BEHIND: 1,
    WriterState.TIMED_OUT: 2,
    WriterState.EXCLUDED: 2,
    WriterState.JOINED: 3,
    WriterState.ACTIVE: 3,
    WriterState.IDLE: 4,
    WriterState.CLOSED: 5,
}


def status_of(loaded: LoadedStream, now: int) -> StreamStatus:
    """The status of a stream. It takes a millisecond for each 500 writers."""
    return _status(loaded, now)[0]


def stream_details(loaded: LoadedStream, status: StreamStatus) -> StreamDetails:
    """A stream with its writers, of which the holder of a key comes first."""
    stream, counts = loaded.stream, loaded.counts
    last_times = {key: mark.time for key, mark in stream.last_marks.items()}
    holders = {key: each.writer for key, each in status.held_by.items() if each is not None}
    ranked: dict[str, list[tuple[int, int, str, WriterStatus]]] = {}
    noted: dict[str, int] = {}
    for name, writer in stream.writers.items():
        late, refused = counts.late_by_writer[name], counts.refused_by_writer[name]
        for key, key_state in writer.key_states.items():
            state, time = writer.state(key_state, last_times.get(key)), key_state.value
            holds = holders.get(key) == name
            found = WriterStatus(name, state, time, writer.heard_at, holds, late, refused, writer.position)
            rank = 0 if holds else _RANKS[state]
            ranked.setdefault(key, []).append((rank, -1 if time is None else time, name, found))
        for segment, offset in writer.noted.items():
            noted[segment] = max(offset, noted.get(segment, 0))
    return StreamDetails(
        stream=status,
        last_entry=(loaded.origin.identity, loaded.journal.last_seq),
        writers={key: [each for *_, each in sorted(of_key)] for key, of_key in ranked.items()},
        noted=noted,
        noted_at=dict(loaded.noted_at),
        graph=stream.graph,
    )


def _writers_of(loaded: LoadedStream) -> _Writers:
    stream, found = loaded.stream, _Writers()
    by_key, last_times = found.by_key, {key: mark.time for key, mark in stream.last_marks.items()}
    for writer in stream.writers.values():
        found.heard_at = greatest(found.heard_at, writer.heard_at)
        counted: tuple[WriterState, ...] = ()
        for key, key_state in writer.key_states.items():
            state = writer.state(key_state, last_times.get(key))
            of_key = by_key.get(key)
            if of_key is None:
                of_key = by_key[key] = _OfKey()
            of_key.add(writer, key_state, state)
            if state not in counted:
                counted = (*counted, state)
                found.states[state] = found.states.get(state, 0) + 1
    for key, remainder in stream.remainders.items():
        found.heard_at = greatest(found.heard_at, remainder.heard_at)
        if remainder.closed:
            of_key = by_key.setdefault(key, _OfKey())
            of_key.left_at = greatest(of_key.left_at, remainder.heard_at)
    return found


class StoredStatus(msgspec.Struct, frozen=True):
    """The status of a stream at a moment, and what it depends on besides the clock."""

    status: StreamStatus
    facts: Mapping[str, Facts]  # by key
    served: int  # the served time at that moment
    rest_lag_ms: int | None  # how far behind the clock an idle stream of the ingestion domain goes on


_stored = msgspec.json.Decoder(StoredStatus)
_encoder = msgspec.json.Encoder()


def stored_status(loaded: LoadedStream, now: int, served: int) -> bytes:
    """What the store is to have, as JSON. Of very many keys it has those in the gravest states."""
    status, facts = _status(loaded, now)
    if len(status.keys) > STORED_KEYS:
        gravest = sorted(status.keys, key=lambda key: gravity_of(status.keys[key]))[-STORED_KEYS:]
        facts = {key: facts[key] for key in gravest}
        keys, held_by = ({key: each[key] for key in gravest} for each in (status.keys, status.held_by))
        status = replace(status, keys=keys, held_by=held_by)
    return _encoder.encode(StoredStatus(status, facts, served, loaded.stream.rest_lag_ms(now)))


def status_of_stored(text: str, now: int, served: int) -> StreamStatus:
    """A stored status at a later moment. Raises ValueError for what cannot be read."""
    stored = _stored.decode(text)
    now, silence = max(now, stored.status.seen_at), max(0, served - stored.served)
    keys = {key: _key_at(stored, key, now, silence) for key in stored.status.keys}
    return replace(stored.status, seen_at=now, **_of_keys(keys))


def _key_at(stored: StoredStatus, name: str, now: int, silence: int) -> KeyStatus:
    key, passed, sealed = stored.status.keys[name], now - stored.status.seen_at, stored.status.sealed
    rest = None if stored.rest_lag_ms is None or name != DEFAULT_KEY else now - stored.rest_lag_ms
    resting = None if rest is None or (key.mark_time is not None and rest <= key.mark_time) else rest
    facts = stored.facts[name]
    facts = facts._replace(silent_ms=facts.silent_ms + silence, resting=resting is not None)
    state, began = condition(facts, now)
    time, holder = greatest(key.mark_time, resting), key.held_by
    if holder is not None and holder.last_heard_ms_ago is not None:
        left = None if holder.released_in_ms is None else max(0, holder.released_in_ms - silence)
        holder = replace(holder, last_heard_ms_ago=holder.last_heard_ms_ago + silence, released_in_ms=left)
    peak_lag = key.event_time_lag_ms
    is_quiet = key.marked_at is None or now - key.marked_at >= RATE_MS
    found = replace(
        key,
        time=time,
        resting=resting,
        lag_ms=None if sealed else _lag(time, now),
        event_time_lag_ms=None if peak_lag is None else peak_lag + passed,
        marks_per_second=0.0 if is_quiet else key.marks_per_second,
        state=state,
        state_since=began,
        held_by=holder,
        held_since=facts.held_since if state.stands_still else None,
        trouble=state.value if state.in_trouble else None,
        since=began if state.in_trouble else None,
    )
    return replace(found, reason=reason_of(found, now))


def _of_keys(keys: Mapping[str, KeyStatus]) -> dict[str, Any]:
    """What follows for a stream from the status of its keys."""
    worst = max(keys.values(), key=gravity_of)
    return {
        "state": worst.state,
        "state_since": worst.state_since,
        "reason": worst.reason,
        "trouble": worst.trouble,
        "since": worst.since,
        "lag_ms": max((key.lag_ms for key in keys.values() if key.lag_ms is not None), default=None),
        "held_by": {name: key.held_by for name, key in keys.items()},
        "keys": keys,
    }


def _status(loaded: LoadedStream, now: int) -> tuple[StreamStatus, Mapping[str, Facts]]:
    """The status, and by key what it depends on."""
    stream, totals, writers = loaded.stream, loaded.counts.totals, _writers_of(loaded)
    found = {key: _key(loaded, key, writers, now, totals) for key in sorted(stream.keys or {DEFAULT_KEY})}
    keys, facts = {key: each for key, (each, _) in found.items()}, {key: each for key, (_, each) in found.items()}
    status = StreamStatus(
        stream=loaded.name,
        seen_at=now,
        sealed=loaded.sealed,
        time_domain=stream.config.time_domain,
        segments=len(stream.graph),
        writers={str(state): count for state, count in sorted(writers.states.items())},
        writer_count=len(stream.writers),
        last_heard_at=writers.heard_at,
        notes=totals.notes,
        late_notes=totals.late_notes,
        refusals=totals.refusals,
        **_of_keys(keys),
    )
    return status, facts


def _key(loaded: LoadedStream, key: str, writers: _Writers, now: int, totals: Totals) -> tuple[KeyStatus, Facts]:
    stream, counts, sealed = loaded.stream, loaded.counts, loaded.sealed
    of_key, cadence = writers.by_key.get(key, _NOBODY), counts.cadences.get(key, NO_CADENCE)
    chain, peak, held = loaded.chains.get(key), of_key.peak, counts.held.get(key)
    mark = chain.last if chain is not None else None
    rest = stream.resting(now) if key == DEFAULT_KEY else None
    resting = rest.time if rest is not None else None
    reached = mark if rest is None else rest  # time, and whom it leaves out, are said of one mark
    time, excluded = (None, ()) if reached is None else (reached.time, reached.excluded)
    holder = None if sealed else stream.held_by(key, now)
    # A writer holds others back if another writer has noted a later time.
    holds = holder is not None and peak is not None and (holder.time is None or holder.time < peak)
    known = held is not None and holder is not None and held.holder == (holder.writer or "")
    since = held.since if held is not None and known and holds else None
    facts = _facts(loaded, key, of_key, holder, since, now, mark=mark, resting=rest is not None)
    state, began = condition(facts, now)
    status = KeyStatus(
        key=key,
        time=time,
        resting=resting,
        lag_ms=None if sealed else _lag(time, now),
        event_time_lag_ms=None if sealed else _lag(peak, now),
        mark_seq=0 if mark is None else mark.seq,
        mark_time=None if mark is None else mark.time,
        marked_at=None if mark is None else mark.created_at,
        marks_per_second=counts.marks_per_second(key, now),
        complete=not excluded,
        excluded=tuple(excluded[:STATUS_EXCLUDED]),
        excluded_writers=len(excluded),
        incomplete_marks=totals.incomplete_marks.get(key, 0),
        writers={str(name): count for name, count in of_key.states.items()},
        have_noted=stream.have_noted(key),
        wanted_writers=stream.config.min_writers,
        last_heard_at=of_key.lost_heard_at if of_key.heard_at is None else of_key.heard_at,
        state=state,
        state_since=began,
        reason="",
        usual_ms=None if cadence.usual_ms is None else round(cadence.usual_ms),
        too_long_ms=facts.too_long_ms,
        held_by=None if holder is None else holder_reply(holder),
        held_back=holder is not None and (holds or state.stands_still or mark is None),
        held_since=since if state.stands_still else None,
        trouble=state.value if state.in_trouble else None,
        since=began if state.in_trouble else None,
    )
    return replace(status, reason=reason_of(status, now)), facts


def _facts(
    loaded: LoadedStream,
    key: str,
    of_key: _OfKey,
    holder: Holder | None,
    held_since: int | None,
    now: int,
    *,
    mark: Mark | None,
    resting: bool,
) -> Facts:
    """What the state of a key depends on. `held_since`: since when the holder keeps others back, if it is known."""
    stream, cadence = loaded.stream, loaded.counts.cadences.get(key, NO_CADENCE)
    counting, holding, away_ms = of_key.counting, None, 0
    if holder is not None and holder.writer is not None:
        holding = stream.writers[holder.writer]
        away_ms = max(0, now - holding.heard_at - stream.silent_ms(holding, now))
    # A writer that has only joined is given as long as any other writer to say its first time. Where marks skip
    # writers that are behind, nobody may be left that counts.
    waits = holding is not None and held_since is None and holder is not None and holder.state == WriterState.JOINED
    skips = stream.config.late_writers is LateWriters.SKIP and 0 < counting == of_key.states.get(WriterState.BEHIND, 0)
    return Facts(
        sealed=loaded.sealed,
        counting=counting,
        heard_at=of_key.heard_at,
        silent_ms=stream.silent_since(of_key.served_at, now),
        lost=of_key.states.get(WriterState.TIMED_OUT, 0),
        lost_at=of_key.lost_at,
        lost_heard_at=of_key.lost_heard_at,
        left_at=of_key.left_at,
        resting=resting,
        too_few=holder is not None and holder.writer is None and stream.have_noted(key) > 0,
        held=skips if holder is None else not waits,
        held_since=held_since,
        away_ms=away_ms,
        left_out=mark is not None and bool(mark.excluded),
        left_out_since=loaded.incomplete_since(key),
        created_at=loaded.origin.created_at,
        moved_at=mark.created_at if mark is not None else None,
        moving_since=cadence.moving_since,
        too_long_ms=cadence.too_long_ms(stream.config.writer_timeout_ms),
    )


def by_trouble(status: StreamStatus) -> tuple[bool, int, int, str]:
    """A sort key: streams in the worst trouble first, and among equals those furthest behind."""
    lag_ms = status.worst.lag_ms
    trouble = status.state.gravity if status.state.in_trouble else 0
    return status.sealed, -trouble, 1 if lag_ms is None else -lag_ms, status.stream


def _lag(time: int | None, now: int) -> int | None:
    """The lag of a time; None if the time does not count milliseconds since 1970."""
    return now - time if time is not None and is_epoch(time) else None
