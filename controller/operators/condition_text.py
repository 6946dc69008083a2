"""Why a key is in its state, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, assert_never

from controller.operators.wording import named, span
from strandline.core.rest import CALLING
from strandline.core.time_units import unit_of
from strandline.wire.status import AHEAD_KEPT, AHEAD_NAMED_MS, KeyStatus, State, WriterAhead

STATUS_REASON_WRITERS: Final = 3  # writers with such a time, named in the reason of a state


def reason_of(key: KeyStatus, now: int) -> str:
    """Why a key is in its state at a moment, and whether it or a writer is ahead of the clock, or looks as if it were
    not in milliseconds."""
    unit = unit_of(key.time) if key.time is not None else None
    wrong = "" if unit is None else f"its time looks like {unit.word}, and dates have to be in milliseconds"
    leapt = f"its time is {span(-key.lag_ms)} ahead of the clock" if has_leapt(key) and key.lag_ms is not None else ""
    return "; ".join(filter(None, (_reason(key, now), ahead_text(key), leapt, wrong)))


def has_leapt(key: KeyStatus) -> bool:
    """Whether its time is far ahead of the clock."""
    return key.lag_ms is not None and key.lag_ms <= -AHEAD_NAMED_MS


def ahead_text(key: KeyStatus) -> str:
    """Who is ahead of the clock, by how much, and what comes of it; empty if nobody is."""
    refused = [each for each in key.ahead if each.refused]
    free = [each for each in key.ahead if not each.refused]
    parts = []
    if refused:
        whose = named([each.writer for each in refused], STATUS_REASON_WRITERS)
        parts.append(f"notes of {whose} are refused: {_far(refused)} ahead of the clock (max_ahead_ms)")
    if free:
        who = named([each.writer for each in free], STATUS_REASON_WRITERS, least=len(key.ahead) >= AHEAD_KEPT)
        then = "" if has_leapt(key) else ", and time goes there once no other writer holds it back"
        parts.append(f"{who} {'is' if len(free) == 1 else 'are'} {_far(free)} ahead of the clock{then}")
    return "; ".join(parts)


def _far(writers: Sequence[WriterAhead]) -> str:
    return ("" if len(writers) == 1 else "up to ") + span(max(each.ahead_ms for each in writers))


def _reason(key: KeyStatus, now: int) -> str:
    match key.state:
        case State.AHEAD:
            return ""  # what follows says it
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
    counting = sum(key.writers.get(str(state), 0) for state in CALLING)
    ago = "" if key.last_heard_at is None else f", the last one heard {span(now - key.last_heard_at)} ago"
    if not counting:
        return f"every writer that counted has timed out{ago}"
    if counting > 1 or key.held_by is None or key.held_by.writer is None:
        return f"all writers that count ({counting}) are silent{ago}"
    last = "" if key.last_heard_at is None else f", last heard {span(now - key.last_heard_at)} ago"
    return f"{key.held_by.writer} is silent, and no other writer counts{last}"


def _for(key: KeyStatus, now: int) -> str:
    return "" if key.state_since is None else f" for {span(now - key.state_since)}"
