"""Finds the notes of a repeated request that were carried out before, when the answer was lost.

    stored at first            10@3
    a request                  20@5  30@7     done: 30@7 is stored, and the answer is lost
    the same request           20@5  30@7     30@7 repeats what is stored; 20@5 is below it and counts as done
    20@5 alone, or 20@9 30@7                  refused: nothing shows that they were done before

After a request, the stored state equals its last times and offsets. So the first notes of a request count as done if
they rise, and if together they end at exactly what is stored, in every key and segment that they name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from strandline.core.admission import Admitted
from strandline.core.note import Note
from strandline.core.writer import StreamWriter
from strandline.errors import PositionWentBack, Refused, TimeWentBack


def done_before(notes: Sequence[Note], writer: StreamWriter, admit_again: Callable[[Note], Admitted]) -> set[int]:
    """The indexes of the notes that were done before; `notes` are all notes of one writer in a request.

    `admit_again` admits a note, or raises its refusal, by the stored state. A note that it refuses for another reason
    than going back is ignored.
    """
    done: set[int] = set()
    waiting: list[int] = []
    times: dict[str, int] = {}
    position: dict[str, int] = {}
    for place, note in enumerate(notes):
        try:
            repeats = admit_again(note).repeats
        except (TimeWentBack, PositionWentBack):
            repeats = False
        except Refused:
            continue
        else:
            if not repeats:
                break  # this note is new, and so are all that follow
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
    """Whether a note is below an earlier one in the request: such a note is wrong in any case."""
    return any(time < times.get(key, time) for key, time in note.times.items()) or any(
        offset < position.get(segment, offset) for segment, offset in note.position.items()
    )


def _is_all(writer: StreamWriter, last: Note, times: dict[str, int], position: dict[str, int]) -> bool:
    """Whether the writer's stored state has exactly these times and offsets. Those in `last`, which repeats, are."""
    return all(key in last.times or _stored(writer, key) == time for key, time in times.items()) and all(
        segment in last.position or writer.noted.offset(segment) == offset for segment, offset in position.items()
    )


def _stored(writer: StreamWriter, key: str) -> int | None:
    key_state = writer.key_states.get(key)
    return key_state.time if key_state is not None else None
