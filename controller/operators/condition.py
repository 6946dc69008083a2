"""The state of a stream's time key: whether its time moves, and if not, why. The one definition of it.

Dashboard, API, commands, metrics and alerts show this, and nothing else decides whether a stream is in trouble. It is a
pure function of facts and the clock.

What is too long goes by the stream's own cadence, three usual pauses: a fixed bound makes a writer that notes once a
minute a trouble each minute, or finds a dead one too late.
"""

from __future__ import annotations

from typing import NamedTuple

from strandline.core.census import greatest
from strandline.wire.status import State


class Facts(NamedTuple):  # one for each key of each stream that is looked at
    """What the state of a key depends on. Moments are by the clock; silence is measured in served time."""

    sealed: bool
    counting: int  # writers that count, or would if they had caught up
    heard_at: int | None  # when the last of these was heard
    silent_ms: int  # how long ago that was
    lost: int  # writers that timed out
    lost_at: int | None  # when the last of them did
    lost_heard_at: int | None  # when the last of them was heard
    left_at: int | None  # when the last of the idle and closed writers called
    resting: bool  # in the ingestion domain: time follows the clock, since all are idle
    too_few: bool  # some have noted, but fewer than `min_writers`
    held: bool  # no mark can be made before a writer notes
    held_since: int | None  # since when that keeps others back, if it does and is known
    away_ms: int  # of the time since the holder was heard, how long callers could not reach the controller
    left_out: bool  # the newest mark leaves writers out
    left_out_since: int | None
    created_at: int  # when the stream was
    moved_at: int | None  # when the newest mark was made
    moving_since: int | None  # since when no pause between marks was too long
    ahead: bool  # some writer, or time itself, is far ahead of the clock
    ahead_since: int | None
    too_long_ms: int  # time that stands still for so long is trouble


class Condition(NamedTuple):
    """The state of a key, and since when, if that is known."""

    state: State
    since: int | None


def condition(facts: Facts, now: int) -> Condition:
    """The state of a key at a moment. That somebody is ahead is graver than that marks leave writers out: what is lost
    by a leap is lost for good. Where time stands still, the reason names both."""
    found = _condition(facts, now)
    if facts.ahead and found.state is not State.SEALED and found.state.gravity < State.AHEAD.gravity:
        return Condition(State.AHEAD, facts.ahead_since)
    return found


def _condition(facts: Facts, now: int) -> Condition:
    if facts.sealed:
        return Condition(State.SEALED, facts.moved_at)
    if facts.too_few and (facts.counting or facts.lost):
        return _waiting_for_more(facts, now)
    if facts.counting:
        return _with_writers(facts, now) or _moving(facts)
    if facts.resting:
        return Condition(State.IDLE, facts.left_at)
    return _without_writers(facts, now)


def _waiting_for_more(facts: Facts, now: int) -> Condition:
    since = facts.held_since
    fresh = since is not None and now - since < facts.too_long_ms
    return _moving(facts) if fresh else Condition(State.HELD, since)


def _with_writers(facts: Facts, now: int) -> Condition | None:
    """The state if somebody counts and time has stood still for too long, else None."""
    limit = facts.too_long_ms
    # Silence alone decides: while dead writers time out one after the other, marks are still made without them.
    if facts.silent_ms >= limit:
        return Condition(State.STALLED, facts.heard_at)
    since = greatest(facts.held_since, facts.moved_at)
    if facts.held and since is not None and _still_ms(since, facts, now) >= limit:
        return Condition(State.STUCK, since)
    return None


def _without_writers(facts: Facts, now: int) -> Condition:
    """The state if nobody counts: all said so, or the last one fell silent, or an operator excluded them."""
    if facts.lost_at is not None and (facts.held or facts.left_at is None or facts.left_at < facts.lost_at):
        since = facts.lost_heard_at
        if since is None or now - since >= facts.too_long_ms:
            return Condition(State.STALLED, since)
        return _moving(facts)
    if facts.left_out:
        return Condition(State.INCOMPLETE, facts.left_out_since)
    if facts.left_at is not None:
        return Condition(State.IDLE, facts.left_at)
    return Condition(State.NO_WRITERS, greatest(facts.created_at, facts.moved_at))


def _moving(facts: Facts) -> Condition:
    if facts.left_out:
        return Condition(State.INCOMPLETE, facts.left_out_since)
    return Condition(State.FINE, facts.created_at if facts.moving_since is None else facts.moving_since)


def _still_ms(since: int, facts: Facts, now: int) -> int:
    """How long time has stood still, without the time in which no writer could be heard."""
    return now - since - facts.away_ms
