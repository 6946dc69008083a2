"""When marks were made and their times, for charts; without their cuts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias

from sqlalchemy import Connection, bindparam, func, select

from controller.storage import schema

MadeMark: TypeAlias = tuple[int, int]  # when a mark was made, and its time

_GALLOP: Final = 8  # each step back from the newest mark is so many times as long as the one before

_mark = schema.mark.c
_OF_KEY = (_mark.stream == bindparam("stream")) & (_mark.key == bindparam("key"))
# Two queries: with both in one, SQLite reads all rows.
_ENDS = select(*(select(end(_mark.seq)).where(_OF_KEY).scalar_subquery() for end in (func.min, func.max)))
_OLDEST = select(_mark.created_at).where(_OF_KEY).order_by(_mark.seq).limit(1)
_NEWEST = select(_mark.created_at, _mark.time).where(_OF_KEY).order_by(_mark.seq.desc()).limit(bindparam("rows"))
_SOME = select(_mark.seq, _mark.created_at, _mark.time).where(_OF_KEY, _mark.seq.in_(bindparam("seqs", expanding=True)))


def timeline(connection: Connection, stream: str, key: str, since: int, most: int) -> list[MadeMark] | None:
    """The marks made since a time, oldest first; None if they are more than `most`."""
    with connection.begin():
        rows = connection.execute(_NEWEST, {"stream": stream, "key": key, "rows": most + 1}).all()
    found = [(row.created_at, row.time) for row in reversed(rows)]
    recent = [each for each in found if each[0] >= since]
    return recent if len(recent) <= most else None


def oldest_mark(connection: Connection, stream: str, key: str) -> int | None:
    """When the oldest mark of a key was made that is kept."""
    with connection.begin():
        return connection.execute(_OLDEST, {"stream": stream, "key": key}).scalar_one_or_none()


def times_at(connection: Connection, stream: str, key: str, moments: Sequence[int]) -> list[int | None]:
    """Which time a key had at each of these moments, which rise; None before its oldest mark.

    The answer for a moment that is over never changes while its marks are kept. Searches are binary, for all moments
    in one query, so that the number of marks between them hardly matters.
    """
    with connection.begin():
        return _times_of(connection, {"stream": stream, "key": key}, moments)


def _times_of(connection: Connection, of_key: dict[str, str], moments: Sequence[int]) -> list[int | None]:
    oldest, newest = connection.execute(_ENDS, of_key).one()
    if newest is None or not moments:
        return [None] * len(moments)
    times: dict[int, int] = {}
    low, high = [oldest - 1] * len(moments), [newest + 1] * len(moments)  # the mark is at low, or between

    def read_marks(seqs: Iterable[int]) -> dict[int, int]:
        """When these marks were made; one may be missing."""
        rows = connection.execute(_SOME, {**of_key, "seqs": list(seqs)}).all()
        times.update((row.seq, row.time) for row in rows)
        return {row.seq: row.created_at for row in rows}

    back = 1
    while True:
        seq = max(oldest, newest + 1 - back)
        made_at = read_marks([seq]).get(seq)
        for place, moment in enumerate(moments):
            if made_at is not None and made_at <= moment:
                low[place] = max(low[place], seq)
            elif made_at is not None:
                high[place] = min(high[place], seq)
        if seq == oldest or made_at is None or made_at <= moments[0]:
            break
        back *= _GALLOP
    while middles := {
        place: (begin + end) // 2 for place, (begin, end) in enumerate(zip(low, high, strict=True)) if end - begin > 1
    }:
        made = read_marks(set(middles.values()))
        for place, seq in middles.items():
            if seq in made and made[seq] <= moments[place]:
                low[place] = seq
            else:
                high[place] = seq
    return [times.get(seq) for seq in low]
