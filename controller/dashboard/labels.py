"""What a status means, in words and colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from controller.format import NOTHING, held_since, is_epoch, moment, span
from controller.status.condition import State
from controller.status.condition_text import reason_of
from controller.status.stream_status import KeyStatus, StreamStatus
from strandline.core.writer import WriterState

COLOURS: Final = {
    State.STALLED: "sl-bad",
    State.STUCK: "sl-bad",
    State.HELD: "sl-warn",
    State.INCOMPLETE: "sl-warn",
    State.NO_WRITERS: "sl-soft",
    State.IDLE: "sl-soft",
    State.FINE: "sl-good",
    State.SEALED: "sl-soft",
}
EDGES: Final = {"sl-bad": "sl-stuck", "sl-warn": "sl-held", "sl-good": "sl-fine", "sl-soft": "sl-calm"}  # of cards
_BAD_STATES: Final = {WriterState.BEHIND, WriterState.TIMED_OUT, WriterState.EXCLUDED}


def state_of(look: StreamStatus) -> tuple[str, str]:
    """The state of a stream in a word, and the word's colour."""
    if look.state is State.FINE and all(key.marked_at is None for key in look.keys):
        return "no marks yet", "sl-soft"
    return look.state.text, COLOURS[look.state]


def in_trouble(states: Iterable[State]) -> str:
    """How many streams stand still, by state, the gravest first; empty if none does."""
    found = Counter(state for state in states if state.stands_still)
    return ", ".join(f"{count} {state.text}" for state, count in sorted(found.items(), reverse=True))


def writer_state(state: WriterState) -> dict[str, str]:
    """The state of a writer, as the fields of a row."""
    colour = "sl-bad" if state in _BAD_STATES else ("sl-good" if state is WriterState.ACTIVE else "sl-soft")
    return {"state": str(state).replace("_", " "), "state_class": colour}


def below_marks(state: WriterState, time: int | None, marked: int | None) -> str:
    """By how much a late writer is below the newest mark."""
    if state is not WriterState.BEHIND or time is None or marked is None or time >= marked:
        return ""
    return f"{span(marked - time) if is_epoch(marked) else marked - time} below the marks"


def hold_story(look: KeyStatus, now: int) -> str:
    """Since when a key is held, how long its holder was silent, and when the holder times out."""
    return "nobody holds time back" if look.holder is None else held_since(look.holder, look.held_since, now)


def is_held_back(key: KeyStatus) -> bool:
    """Whether a writer holds the others back."""
    return key.state is State.STUCK and key.holder is not None and key.holder.writer is not None


def still_story(look: StreamStatus) -> str:
    """Why the time of a stream stands still, and since when."""
    if is_held_back(look.worst):
        return hold_story(look.worst, look.seen_at)
    since = "" if look.since is None else f", since {moment(look.since, look.seen_at)}"
    return f"{reason_of(look.worst, look.seen_at)}{since}"


def silent_for(key: KeyStatus, now: int) -> str:
    """For how long all writers of a stalled key have been silent."""
    return f"all silent for {span(now - key.heard_at)}" if key.state is State.STALLED and key.heard_at else ""


def lag_of(status: StreamStatus | KeyStatus) -> str:
    """The lag of a stream or a key, if its times are on the clock's scale."""
    return NOTHING if status.lag_ms is None else span(status.lag_ms)


def rate(per_second: float) -> str:
    return f"{per_second:.2f}" if per_second < 10 else f"{per_second:,.0f}"


def stream_link(stream: str) -> str:
    return f"/streams/{stream}"


def writer_link(stream: str, writer: str) -> str:
    return f"/streams/{stream}/writers/{writer}"


def group_link(group: str) -> str:
    return f"/reader-groups/{group}"
