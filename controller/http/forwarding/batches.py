"""Notes of several streams: divided among their owners, and the results put together in the order of the notes.

Pure functions. A result is JSON, as it stands in the list of results: an answer or a problem.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TypeVar

Owner = TypeVar("Owner", bound=Hashable)
Value = TypeVar("Value")


def divided(owners: Iterable[Owner]) -> dict[Owner, list[int]]:
    """The places of notes by owner, those of each owner in order; `owners` has one for each note."""
    places: dict[Owner, list[int]] = {}
    for place, owner in enumerate(owners):
        places.setdefault(owner, []).append(place)
    return places


def together(count: int, parts: Iterable[tuple[Sequence[int], Sequence[Value]]]) -> list[Value]:
    """One list of so many results, from parts that each have the places of their results; of several results at one
    place, as of repeated attempts, the last one counts. Raises ValueError where there is none."""
    found: dict[int, Value] = {}
    for places, results in parts:
        found.update(zip(places, results, strict=True))
    if found.keys() != set(range(count)):
        raise ValueError(f"there are results at {len(found)} places for {count} notes")
    return [found[place] for place in range(count)]


def failed_as_one(statuses: Sequence[int | None]) -> int | None:
    """The place of the problem that is the answer to the whole request; None if the answer is a list of results.

    `statuses` are those of the problems, None for a note that was taken. If nothing was done for any note, the answer
    is 503. If besides some are not known, it is the 504 of one of them: 503 would say that nothing was done.
    """
    if not statuses or not set(statuses) <= {503, 504}:
        return None
    return statuses.index(504) if 504 in statuses else 0


def least(times: Iterable[int | None], own: int) -> int:
    """The clock that an answer of several owners tells: the least of theirs, or one's own if none told any."""
    return min((time for time in times if time is not None), default=own)
