"""What a status means, in words and colours."""

from __future__ import annotations

from typing import Final

from controller.format import NOTHING, held_since, span
from controller.status.stream_status import KeyStatus, StreamStatus, Trouble
from strandline.core.writer import WriterState

TROUBLES: Final = {
    Trouble.STUCK: ("stuck", "sl-bad"),
    Trouble.HELD: ("held", "sl-warn"),
    Trouble.INCOMPLETE: ("incomplete", "sl-warn"),
    Trouble.NONE: ("fine", "sl-good"),
}
_BAD_STATES: Final = {WriterState.BEHIND, WriterState.TIMED_OUT, WriterState.EXCLUDED}


def state_of(look: StreamStatus) -> tuple[str, str]:
    """The state of a stream in a word, and the word's colour."""
    if look.sealed:
        return "sealed", "sl-soft"
    if look.trouble is Trouble.NONE and all(key.marked_at is None for key in look.keys):
        return ("no marks yet" if look.writers else "no writers"), "sl-soft"
    return TROUBLES[look.trouble]


def writer_state(state: WriterState) -> dict[str, str]:
    """The state of a writer, as the fields of a row."""
    colour = "sl-bad" if state in _BAD_STATES else ("sl-good" if state is WriterState.ACTIVE else "sl-soft")
    return {"state": str(state).replace("_", " "), "state_class": colour}


def hold_story(look: KeyStatus, now: int) -> str:
    """Since when a key is held, how long its holder was silent, and when the holder times out."""
    return "nobody holds time back" if look.holder is None else held_since(look.holder, look.held_since, now)


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
