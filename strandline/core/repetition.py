"""Which notes of a request were done when the same request was sent before, and its answer was lost.

    stored at first            10@3
    a request                  20@5  30@7     done: 30@7 is stored, and the answer is lost
    the same request           20@5  30@7     30@7 repeats what is stored; 20@5 is below it and counts as done
    20@5 alone, or 20@9 30@7                  refused: nothing shows that they were done before

A request that was done leaves its own last word behind. So its first notes count as done where they rise, and where all
of them together come to just what is stored, in every key and segment that they name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strandline.core.admission import Admitted
from strandline.core.note import Note
from strandline.core.writer import Writer
from strandline.errors import PositionWentBack, Refused, TimeWentBack


def done_before(notes: Sequence[Note], writer: Writer, judge: Callable[[Note], Admitted]) -> set[int]:
    """The places of those notes that were done before; `notes` are all that a request has of one writer.

    `judge` admits a note or raises what refuses it, by what is stored now. Notes that it refuses for another reason
    than going back stay out of it.
    """
    done: set[int] = set()
    waiting: list[int] = []
    times: dict[str, int] = {}
    position: dict[str, int] = {}
    for place, note in enumerate(notes):
        try:
            repeats = judge(note).repeats
        except (TimeWentBack, PositionWentBack):
            repeats = False
        except Refused:
            continue
        else:
            if not repeats:
                break  # this one says something new, and so does all that follows
        if _goes_back(note, times, position):
            continue
        times.update(note.times)
        position.update(note.position)
        waiting.append(place)
        if repeats and _is_all(writer, note, times, position):
            done.update(waiting)
            waiting.clear()
    return done


def _goes_back(note: Note, times: dict[str, int], position: dict[str, int]) -> bool:
    """Whether a note is below one before it in the request: then it is wrong by itself."""
    return any(time < times.get(key, time) for key, time in note.times.items()) or any(
        offset < position.get(segment, offset) for segment, offset in note.position.items()
    )


def _is_all(writer: Writer, last: Note, times: dict[str, int], position: dict[str, int]) -> bool:
    """Whether the writer stands at just these times and offsets; it does where `last`, which repeats, names them."""
    return all(key in last.times or _stored(writer, key) == time for key, time in times.items()) and all(
        segment in last.position or writer.noted.get(segment, 0) == offset for segment, offset in position.items()
    )


def _stored(writer: Writer, key: str) -> int | None:
    key_state = writer.key_states.get(key)
    return key_state.time if key_state is not None else None
