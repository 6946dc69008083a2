"""The status of a stream: computed in one place, for dashboard, metrics, `GET /v1/status`, `watch` and descriptions.

It is a function of how the stream stands with its last commit (`records/standing.py`) and of the clock, so that it is
the same for all controllers, whether they have the stream in memory or not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from msgspec.structs import force_setattr

from controller.operators.condition import Facts, condition
from controller.operators.condition_text import reason_of
from controller.streams.ahead import is_far_ahead
from controller.streams.cadence import Cadence
from controller.streams.loaded_stream import LoadedStream
from controller.streams.standing import KeyStanding, Standing
from strandline.core.aggregate import Holder
from strandline.core.census import greatest
from strandline.core.config import TimeDomain
from strandline.core.cut import Cut
from strandline.core.note import DEFAULT_KEY
from strandline.core.rest import CALLING
from strandline.core.segment import SegmentGraph
from strandline.core.served_time import Moment
from strandline.core.time_units import is_epoch
from strandline.core.writer import WriterState
from strandline.wire.status import KeyStatus, StreamStatus, WriterAhead, gravity_of
from strandline.wire.streams import HolderReply, holder_reply


class WriterStatus(NamedTuple):  # one for each of very many writers
    """A writer in one time key."""

    name: str
    state: WriterState
    time: int | None
    heard_at: int
    holds: bool
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


_RANKS: Final = {
    WriterState.BEHIND: 1,
    WriterState.TIMED_OUT: 2,
    WriterState.EXCLUDED: 2,
    WriterState.JOINED: 3,
    WriterState.ACTIVE: 3,
    WriterState.IDLE: 4,
    WriterState.CLOSED: 5,
}


def status_of(stream: str, standing: Standing, moment: Moment) -> StreamStatus:
    """The status of a stream that stands so, at this moment or a later one."""
    now = max(moment.now, standing.at)
    keys, totals = dict[str, KeyStatus](), standing.totals
    held_by, writers = dict[str, HolderReply | None](), dict[str, int]()
    lag_ms: int | None = None
    for name, each in standing.keys.items():
        key = keys[name] = _key(standing, name, each, now, moment.served)
        held_by[name], lag_ms = key.held_by, greatest(lag_ms, key.lag_ms)
        for state, count in key.writers.items():
            writers[state] = max(count, writers.get(state, 0))
    worst = max(keys.values(), key=gravity_of)
    return StreamStatus(
        stream=stream,
        seen_at=now,
        state=worst.state,
        state_since=worst.state_since,
        reason=worst.reason,
        trouble=worst.trouble,
        since=worst.since,
        sealed=standing.sealed,
        time_domain=standing.time_domain,
        lag_ms=lag_ms,
        segments=standing.segments,
        writers=writers,
        writer_count=standing.writers,
        last_heard_at=standing.heard_at,
        notes=totals.notes,
        late_notes=totals.late_notes,
        refusals=totals.refusals,
        refused_at=standing.refused_at,
        held_by=held_by,
        keys=keys,
    )


def _key(stream: Standing, name: str, key: KeyStanding, now: int, served: int) -> KeyStatus:
    rest = None if stream.rest_lag_ms is None or name != DEFAULT_KEY else now - stream.rest_lag_ms
    resting = None if rest is None or (key.time is not None and rest <= key.time) else rest
    cadence, peak, held = stream.spans.cadence(name), key.peak, stream.spans.held.get(name)
    time, sealed, holder = greatest(key.time, resting), stream.sealed, key.holder
    # A writer holds others back if another writer has noted a later time.
    holds = holder is not None and peak is not None and (holder.time is None or holder.time < peak)
    known = held is not None and holder is not None and held.writer == holder.writer
    since = held.since if held is not None and known and holds else None
    ahead = _ahead(stream, name, now) if stream.spans.ahead and not sealed else []
    facts = _facts(stream, name, key, cadence, since, now, served, resting=resting is not None, ahead=bool(ahead))
    state, began = condition(facts, now)
    status = KeyStatus(
        key=name,
        time=time,
        resting=resting,
        lag_ms=None if sealed else _lag(time, now),
        event_time_lag_ms=None if sealed else _lag(peak, now),
        mark_seq=key.seq,
        mark_time=key.time,
        marked_at=key.marked_at,
        marks_per_second=0.0 if key.marked_at is None else cadence.marks_per_second(key.seq, key.marked_at, now),
        complete=not key.excluded_writers,
        excluded=key.excluded,
        excluded_writers=key.excluded_writers,
        incomplete_marks=key.incomplete_marks,
        writers=key.writers,
        have_noted=key.have_noted,
        wanted_writers=stream.min_writers,
        last_heard_at=key.heard[0] if key.heard is not None else None if key.lost is None else key.lost[1],
        ahead=tuple(ahead),
        state=state,
        state_since=began,
        reason="",
        usual_ms=None if cadence.usual_ms is None else round(cadence.usual_ms),
        too_long_ms=facts.too_long_ms,
        held_by=None if holder is None else holder_reply(_later(holder, max(0, served - key.served))),
        held_back=holder is not None and (holds or state.stands_still or (key.time is None and facts.counting > 0)),
        held_since=since if state.stands_still else None,
        trouble=state.value if state.in_trouble else None,
        since=began if state.in_trouble else None,
    )
    force_setattr(status, "reason", reason_of(status, now))  # to make it again would cost a tenth of a listing
    return status


def _facts(
    stream: Standing,
    name: str,
    key: KeyStanding,
    cadence: Cadence,
    held_since: int | None,
    now: int,
    served: int,
    *,
    resting: bool,
    ahead: bool,
) -> Facts:
    """What the state of a key depends on. `held_since`: since when the holder keeps others back, if it is known."""
    holder, away_ms, first = key.holder, 0, stream.spans.incomplete.get(name)
    counting = sum([key.writers.get(state, 0) for state in CALLING])
    if holder is not None and holder.last_heard_ms_ago is not None:
        silent_ms = holder.last_heard_ms_ago + max(0, served - key.served)
        away_ms = max(0, now - key.holder_heard_at - silent_ms)
    # A writer that has only joined is given as long as any other writer to say its first time. Where marks skip
    # writers that are behind, nobody may be left that counts.
    waits = holder is not None and held_since is None and holder.state == WriterState.JOINED
    skips = stream.skips and 0 < counting == key.writers.get(WriterState.BEHIND, 0)
    return Facts(
        sealed=stream.sealed,
        counting=counting,
        heard_at=None if key.heard is None else key.heard[0],
        silent_ms=0 if key.heard is None else max(0, served - key.heard[1]),
        lost=key.writers.get(WriterState.TIMED_OUT, 0),
        lost_at=None if key.lost is None else key.lost[0],
        lost_heard_at=None if key.lost is None else key.lost[1],
        left_at=key.left_at,
        resting=resting,
        too_few=holder is not None and holder.writer is None and key.have_noted > 0,
        held=skips if holder is None else not waits,
        held_since=held_since,
        away_ms=away_ms,
        left_out=key.leaves_out,
        left_out_since=None if first is None else first.made_at,
        created_at=stream.created_at,
        moved_at=key.marked_at,
        moving_since=cadence.moving_since,
        ahead=ahead
        or (stream.time_domain == TimeDomain.EVENT and key.time is not None and is_far_ahead(key.time, now)),
        ahead_since=min((each.since for each in stream.spans.ahead if each.key == name), default=None),
        too_long_ms=cadence.too_long_ms(stream.timeout_ms),
    )


def _ahead(stream: Standing, key: str, now: int) -> list[WriterAhead]:
    """The writers of a key that are far ahead of the clock, furthest first."""
    found = [
        WriterAhead(writer=each.writer, ahead_ms=ahead_ms, refused=each.refused)
        for each in stream.spans.ahead
        if each.key == key and (ahead_ms := each.ahead_ms(now))
    ]
    return sorted(found, key=lambda each: (-each.ahead_ms, each.writer))


def _later(holder: Holder, passed_ms: int) -> Holder:
    """The holder, so much served time after the commit."""
    heard, released = holder.last_heard_ms_ago, holder.released_in_ms
    return holder._replace(
        last_heard_ms_ago=None if heard is None else heard + passed_ms,
        released_in_ms=None if released is None else max(0, released - passed_ms),
    )


def stream_details(loaded: LoadedStream, status: StreamStatus) -> StreamDetails:
    """A stream with its writers, of which the holder of a key comes first."""
    stream = loaded.stream
    last_times = {key: mark.time for key, mark in stream.last_marks.items()}
    holders = {key: each.writer for key, each in status.held_by.items() if each is not None}
    ranked: dict[str, list[tuple[int, int, str, WriterStatus]]] = {}
    noted: dict[str, int] = {}
    for name, writer in stream.writers.items():
        for key, key_state in writer.key_states.items():
            state, time = writer.state(key_state, last_times.get(key)), key_state.value
            holds = holders.get(key) == name
            found = WriterStatus(name, state, time, writer.heard_at, holds, writer.position)
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


def by_trouble(status: StreamStatus) -> tuple[bool, int, int, str]:
    """A sort key: streams in the worst trouble first, and among equals those furthest behind."""
    lag_ms = status.worst.lag_ms
    trouble = status.state.gravity if status.state.in_trouble else 0
    return status.sealed, -trouble, 1 if lag_ms is None else -lag_ms, status.stream


def _lag(time: int | None, now: int) -> int | None:
    """The lag of a time; None if the time does not count milliseconds since 1970."""
    return now - time if time is not None and is_epoch(time) else None
