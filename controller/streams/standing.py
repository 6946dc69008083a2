"""How a stream stands with each commit: what lists, pages and metrics show of it, but for the clock. Each commit writes
it with the stream's head, so that it is the same for all controllers, and no stream is loaded to be listed.

It costs about the same for any number of writers: the core keeps them by state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from controller.storage.rows import StreamOrigin
from controller.streams.ahead import AheadWriter
from controller.streams.cadence import NO_CADENCE, Cadence
from strandline.core.aggregate import Holder
from strandline.core.census import greatest
from strandline.core.changes import Changes
from strandline.core.config import LateWriters, TimeDomain
from strandline.core.note import DEFAULT_KEY
from strandline.core.rest import CALLING, LEFT_BY_THEMSELVES
from strandline.core.stream import Stream
from strandline.core.writer import WriterState
from strandline.errors import StoreCorrupt

STATUS_EXCLUDED: Final = 16  # writers that a mark leaves out, named; all are counted


class Hold(msgspec.Struct, frozen=True, array_like=True):
    """A writer holds time back since then: others have noted later times, and no mark was made."""

    writer: str | None  # None: too few have noted
    state: str
    time: int | None
    since: int
    is_journaled: bool = False  # an entry has that it has begun


class FirstMark(msgspec.Struct, frozen=True, array_like=True):
    """The first of the newest marks that leave out the same writers."""

    seq: int
    time: int
    made_at: int


class Spans(msgspec.Struct, frozen=True, array_like=True):
    """What holds since when, and how marks come, by key; and who is far ahead of the clock."""

    held: Mapping[str, Hold] = {}
    incomplete: Mapping[str, FirstMark] = {}
    cadences: Mapping[str, Cadence] = {}
    ahead: tuple[AheadWriter, ...] = ()  # of any key, the first of them

    def cadence(self, key: str) -> Cadence:
        return self.cadences.get(key, NO_CADENCE)


NO_SPANS: Final = Spans()


class KeyStanding(msgspec.Struct, frozen=True, array_like=True):
    """A time key. Moments are None while there is no such mark or writer."""

    seq: int  # of the newest mark; 0 without one
    time: int | None  # of that mark,
    marked_at: int | None  # and when it was made
    leaves_out: bool  # whether it leaves writers out
    excluded: tuple[str, ...]  # the first of those that are left out, at rest too
    excluded_writers: int  # how many are
    incomplete_marks: int  # since the stream was made
    writers: Mapping[str, int]  # by state
    have_noted: int
    peak: int | None  # the greatest time that anyone noted, excluded writers aside
    heard: tuple[int, int] | None  # of writers that count: when the last one was heard, and the served time then
    lost: tuple[int, int] | None  # without one that counts: when the last one timed out, and when it was heard;
    left_at: int | None  # and when the last of the idle and closed ones called
    holder: Holder | None  # at the moment of the last commit that was about the key,
    served: int  # and the served time then
    holder_heard_at: int


class Totals(msgspec.Struct, frozen=True, array_like=True):
    """What was counted of a stream since it was made, refusals by code."""

    notes: int = 0
    late_notes: int = 0
    refusals: Mapping[str, int] = {}

    def __add__(self, other: Totals) -> Totals:
        refusals = self.refusals
        if other.refusals:
            refusals = dict(Counter(refusals) + Counter(other.refusals))
        return Totals(self.notes + other.notes, self.late_notes + other.late_notes, refusals)


NOTHING_COUNTED: Final = Totals()


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """A stream."""

    at: int = 0  # the commit's moment
    created_at: int = 0
    sealed: bool = False
    time_domain: str = ""
    segments: int = 0
    writers: int = 0
    heard_at: int | None = None  # when any writer was, forgotten ones too
    min_writers: int = 0
    timeout_ms: int | None = None
    skips: bool = False  # marks do not wait for writers that are behind
    rest_lag_ms: int | None = None  # how far behind the clock an idle stream of the ingestion domain goes on
    totals: Totals = NOTHING_COUNTED
    refused_at: int | None = None  # when the last call was
    spans: Spans = NO_SPANS
    keys: Mapping[str, KeyStanding] = {}


NO_STANDING: Final = Standing()
_decoder = msgspec.json.Decoder(Standing)
_encoder = msgspec.json.Encoder()


def standing_text(standing: Standing) -> str:
    return _encoder.encode(standing).decode()


def standing_of(stream: str, text: str) -> Standing:
    """A stored standing. Raises StoreCorrupt for what is none."""
    try:
        return _decoder.decode(text)
    except (ValueError, msgspec.MsgspecError) as error:
        raise StoreCorrupt(stream=stream, table="head", reason=f"its standing is none: {error}") from error


def next_standing(
    before: Standing,
    stream: Stream,
    origin: StreamOrigin,
    changes: Changes,
    spans: Spans,
    counted: Totals,
) -> Standing:
    """The standing with a commit's changes; `counted` is what comes to the totals."""
    config, now, keys = stream.config, stream.clock, stream.keys or {DEFAULT_KEY}
    writers = [stream.writers[name] for name in changes.writers]
    heard_at = max((each.heard_at for each in writers), default=None)
    if changes.stream or changes.dropped or len(keys) == 1 or keys != before.keys.keys():
        changed = keys
    else:
        changed = {key for writer in writers for key in writer.key_states}.union(mark.key for mark in changes.marks)
    incomplete = [mark.key for mark in changes.marks if mark.excluded]
    found = {
        key: _key_standing(before.keys.get(key), stream, key, incomplete.count(key))
        if key in changed
        else before.keys[key]
        for key in sorted(keys)
    }
    return Standing(
        at=now,
        created_at=origin.created_at,
        sealed=stream.sealed,
        time_domain=config.time_domain.value,
        segments=len(stream.graph),
        writers=len(stream.writers),
        heard_at=greatest(before.heard_at, heard_at),
        min_writers=config.min_writers,
        timeout_ms=config.writer_timeout_ms,
        skips=config.late_writers is LateWriters.SKIP,
        rest_lag_ms=stream.rest_lag_ms(now),
        totals=before.totals + counted,
        refused_at=now if counted.refusals else before.refused_at,
        spans=spans,
        keys=found,
    )


def _key_standing(before: KeyStanding | None, stream: Stream, key: str, incomplete: int) -> KeyStanding:
    aggregate, now = stream.aggregate(key), stream.clock
    mark, census, remainder = aggregate.last, aggregate.census, aggregate.remainder
    is_of_log = stream.config.time_domain is TimeDomain.INGESTION
    rest = stream.resting(now) if is_of_log and key == DEFAULT_KEY else None
    reached = mark if rest is None else rest  # time, and whom it leaves out, are said of one mark
    excluded = () if reached is None else reached.excluded
    calling, lost, left_at = census.last(*CALLING), None, None
    if calling is None:
        lost, left = census.last(WriterState.TIMED_OUT), census.last(*LEFT_BY_THEMSELVES)
        closed_at = remainder.heard_at if remainder.closed else None
        left_at = greatest(None if left is None else left.heard_at, closed_at)
    holder = stream.held_by(key, now)
    return KeyStanding(
        seq=0 if mark is None else mark.seq,
        time=None if mark is None else mark.time,
        marked_at=None if mark is None else mark.created_at,
        leaves_out=mark is not None and bool(mark.excluded),
        excluded=excluded[:STATUS_EXCLUDED],
        excluded_writers=len(excluded),
        incomplete_marks=incomplete + (0 if before is None else before.incomplete_marks),
        writers=census.counts(),
        have_noted=aggregate.have_noted,
        peak=aggregate.peak(),
        heard=None if calling is None else (calling.heard_at, calling.served_at),
        lost=None if lost is None else (lost.key_states[key].lost_at or 0, lost.heard_at),
        left_at=left_at,
        holder=holder,
        served=stream.served(now),
        holder_heard_at=0 if holder is None or holder.writer is None else stream.writers[holder.writer].heard_at,
    )
