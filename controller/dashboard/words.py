"""What a status means, in words and colours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Set
from typing import Final, NamedTuple

from controller.operators.condition_text import ahead_text, has_leapt
from controller.operators.stream_status import WriterStatus
from controller.operators.wording import held_since, lag, moment, named, span
from strandline.core.rest import CALLING
from strandline.core.time_units import is_epoch
from strandline.core.writer import WriterState
from strandline.wire.status import GroupStatus, KeyStatus, State, StreamStatus

COLOURS: Final = {
    State.STALLED: "bad",
    State.STUCK: "bad",
    State.HELD: "warn",
    State.AHEAD: "bad",
    State.INCOMPLETE: "warn",
    State.NO_WRITERS: "soft",
    State.IDLE: "soft",
    State.FINE: "good",
    State.SEALED: "soft",
}
AHEAD_NAMED: Final = 3  # writers that are ahead of the clock, in a sentence
_BAD_STATES: Final = {WriterState.BEHIND, WriterState.TIMED_OUT, WriterState.EXCLUDED}


class Word(NamedTuple):
    """A word or a few, and their colour."""

    text: str
    colour: str


def state_of(status: StreamStatus) -> Word:
    """The state of a stream in a word."""
    if status.state is State.FINE and all(key.marked_at is None for key in status.keys.values()):
        return Word("no marks yet", "soft")
    return Word(status.state.text, COLOURS[status.state])


def in_trouble(states: Iterable[State], unread: int = 0) -> str:
    """How many streams somebody has to look at, by state, the gravest first, and how many are not known; empty if all
    is well."""
    found = Counter(state for state in states if state.is_urgent)
    counts = [f"{count} {state.text}" for state in reversed(State) if (count := found[state])]
    return ", ".join([*counts, *([f"{unread} not known"] if unread else [])])


def silence(heard_at: int, key: KeyStatus | None, now: int, *, holds: bool) -> int:
    """How long ago a writer was heard. Of the one that holds a key the status says it, which leaves out the time in
    which no controller served."""
    holder = key.held_by if key is not None and holds else None
    counts = None if holder is None else holder.last_heard_ms_ago
    return now - heard_at if counts is None else counts


def writer_word(state: WriterState, silent_ms: int, key: KeyStatus | None) -> Word:
    """The state of a writer. One that counts and has been silent for as long as its key stands still is no active one:
    it is silent."""
    if key is not None and key.state.stands_still and state in CALLING and silent_ms >= key.too_long_ms:
        return Word(f"silent, {span(silent_ms)}", "bad")
    return Word(spoken(state), colour_of({state}))


def colour_of(states: Set[str]) -> str:
    """The colour of writers that are in these states."""
    return "bad" if _BAD_STATES & states else "good" if WriterState.ACTIVE in states else "soft"


def spoken(state: str) -> str:
    return str(state).replace("_", " ")


def writers_word(status: StreamStatus) -> Word:
    """All writers of a stream by state, and who is silent and holds time."""
    text = ", ".join(f"{count} {spoken(state)}" for state, count in sorted(status.writers.items()) if count) or "none"
    worst, now = status.worst, status.seen_at
    if worst.state is State.STALLED and worst.last_heard_at is not None:
        return Word(f"{text}; all silent, {span(now - worst.last_heard_at)}", "bad")
    holder = worst.held_by if worst.state.stands_still else None
    if holder is not None and holder.writer is not None and (holder.last_heard_ms_ago or 0) >= worst.too_long_ms:
        return Word(f"{text}; {holder.writer} silent, {span(holder.last_heard_ms_ago or 0)}", "bad")
    return Word(text, colour_of({state for state, count in status.writers.items() if count}))


def below_marks(writer: WriterStatus, marked: int | None) -> str:
    """By how much a late writer is below the newest mark."""
    time = writer.time
    if writer.state is not WriterState.BEHIND or time is None or marked is None or time >= marked:
        return ""
    return f"{span(marked - time) if is_epoch(marked) else marked - time} below the marks"


def hold_story(key: KeyStatus, now: int) -> str:
    """Since when a key is held, how long its holder was silent, and when the holder times out."""
    return "nobody holds time back" if key.held_by is None else held_since(key.held_by, key.held_since, now)


def holder_name(key: KeyStatus) -> str | None:
    return None if key.held_by is None else key.held_by.writer


def is_held_back(key: KeyStatus) -> bool:
    """Whether a writer holds the others back."""
    return key.state is State.STUCK and holder_name(key) is not None


def still_story(status: StreamStatus) -> str:
    """Why the time of a stream stands still, and since when."""
    if is_held_back(status.worst):
        return "; ".join(filter(None, (hold_story(status.worst, status.seen_at), ahead_text(status.worst))))
    since = "" if status.state_since is None else f", since {moment(status.state_since, status.seen_at)}"
    return f"{status.reason}{since}"


def next_step(key: KeyStatus) -> str:
    """What happens next to a key that stands still or is ahead, and what somebody can do; empty for others."""
    counting = sum(key.writers.get(str(state), 0) for state in CALLING)
    free = [each.writer for each in key.ahead if not each.refused]
    if has_leapt(key):
        return 'What right writers write is late until the clock is there; the task "Time has leapt" says what to do.'
    if free and key.state.is_urgent:
        return (
            f"Exclude {named(free, AHEAD_NAMED)}, and set its clock right: if those that hold time back go, time leaps."
        )
    match key.state:
        case State.AHEAD:
            return "Set its clock right, or allow such times: max_ahead_ms. Until then it holds time back."
        case State.STALLED if counting:
            released = None if key.held_by is None else key.held_by.released_in_ms
            alone = holder_name(key) if counting == 1 else None
            who, whom = (alone, "") if alone is not None else ("one of them", "the first ")
            until = "" if released is None else f", or {whom}times out in {span(released)}"
            return f"Nothing moves until {who} notes{until}. Start it again; if nothing is to come, close it."
        case State.STALLED:
            return "Nothing moves until a writer notes. Start one again; if nothing is to come, close them."
        case State.STUCK if is_held_back(key):
            name = holder_name(key)
            return f"Time goes on when {name} notes a later time, times out, or is closed or excluded."
        case State.HELD:
            return f"Time goes on when {key.wanted_writers - key.have_noted} more have noted."
        case _:
            return ""


def first_ahead(key: KeyStatus) -> str | None:
    """The writer that is furthest ahead of the clock."""
    return key.ahead[0].writer if key.ahead else None


def far_ahead(key: KeyStatus, writer: str) -> str:
    """How far a writer is ahead of the clock, if it is far."""
    found = next((each for each in key.ahead if each.writer == writer), None)
    if found is None:
        return ""
    return f"{'notes refused, ' if found.refused else ''}{span(found.ahead_ms)} ahead"


def silent_for(key: KeyStatus, now: int) -> str:
    """For how long all writers of a stalled key have been silent."""
    return f"all silent for {span(now - key.last_heard_at)}" if key.state is State.STALLED and key.last_heard_at else ""


def group_lag(status: GroupStatus) -> str:
    """The lag of a group, if its times are on the clock's scale."""
    return lag(status.watermarks.get(""), status.seen_at)


def group_state(status: GroupStatus) -> Word:
    """Whether a group is in backlog. One that has caught up stays so while it reads, although it may be behind."""
    if status.backlog:
        return Word("in backlog", "bad")
    if status.backlog_threshold_ms is None:
        return Word("no threshold", "soft")
    if (status.lag_ms or 0) > status.backlog_threshold_ms:
        return Word("behind its threshold", "warn")
    return Word("caught up", "good")


def ago(silent_ms: int) -> str:
    return f"{span(silent_ms)} ago"


def rate(per_second: float) -> str:
    return f"{per_second:.2f}" if per_second < 10 else f"{per_second:,.0f}"


def number(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def key_label(key: str) -> str:
    """A time key for people."""
    return key or "(default)"


def stream_link(stream: str) -> str:
    return f"/streams/{stream}"


def writer_link(stream: str, writer: str) -> str:
    return f"/streams/{stream}/writers/{writer}"


def group_link(group: str) -> str:
    return f"/reader-groups/{group}"
