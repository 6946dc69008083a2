"""Why a key is in its state, in a sentence."""

from __future__ import annotations

from typing import Final, assert_never

from controller.status.condition import COUNTING
from controller.wording import AHEAD_NAMED_MS, named, span
from strandline.core.time_units import unit_of
from strandline.wire.status import KeyStatus, State

STATUS_REASON_WRITERS: Final = 3  # writers with such a time, named in the reason of a state


def reason_of(key: KeyStatus, now: int) -> str:
    """Why a key is in its state at a moment, and whether its time is ahead of the clock, or looks as if it were not
    in milliseconds."""
    unit = unit_of(key.time) if key.time is not None else None
    if unit is None and key.lag_ms is not None and key.lag_ms <= -AHEAD_NAMED_MS:
        return f"{_reason(key, now)}; its time is {span(-key.lag_ms)} ahead of the clock"
    if unit is None:
        return _reason(key, now)
    return f"{_reason(key, now)}; its time looks like {unit.word}, and dates have to be in milliseconds"


def _reason(key: KeyStatus, now: int) -> str:
    match key.state:
        case State.SEALED:
            return "the stream is sealed: no mark follows"
        case State.FINE:
            return "time moves" if key.mark_seq else "no mark yet, and not for too long"
        case State.IDLE:
            return "all writers are idle or closed"
        case State.NO_WRITERS:
            return "no writer counts: they were excluded or forgotten" if key.mark_seq else "no writer has noted yet"
        case State.INCOMPLETE:
            return f"marks leave out {_left_out(key)}"
        case State.HELD:
            return f"{key.have_noted} of {key.wanted_writers} writers have noted (min_writers)"
        case State.STUCK:
            return _stuck(key, now)
        case State.STALLED:
            return _stalled(key, now)
        case _:
            assert_never(key.state)


def _left_out(key: KeyStatus) -> str:
    return named(key.excluded, STATUS_REASON_WRITERS, key.excluded_writers)


def _stuck(key: KeyStatus, now: int) -> str:
    holder = key.held_by
    if holder is None or holder.writer is None:
        return f"all writers that note are behind the last mark{_for(key, now)}"
    if key.held_since is None:
        return f"{holder.writer} notes, and its time has not moved{_for(key, now)}"
    silent = holder.last_heard_ms_ago
    how_long = "" if silent is None else f", silent for {span(silent)}"
    return f"{holder.writer} holds the others back{_for(key, now)}{how_long}"


def _stalled(key: KeyStatus, now: int) -> str:
    counting = sum(key.writers.get(str(state), 0) for state in COUNTING)
    ago = "" if key.last_heard_at is None else f", the last one heard {span(now - key.last_heard_at)} ago"
    if not counting:
        return f"every writer that counted has timed out{ago}"
    if counting > 1 or key.held_by is None or key.held_by.writer is None:
        return f"all writers that count ({counting}) are silent{ago}"
    last = "" if key.last_heard_at is None else f", last heard {span(now - key.last_heard_at)} ago"
    return f"{key.held_by.writer} is silent, and no other writer counts{last}"


def _for(key: KeyStatus, now: int) -> str:
    return "" if key.state_since is None else f" for {span(now - key.state_since)}"
