"""When marks were made and their times, for charts; without their cuts."""

from __future__ import annotations

from typing import Final, TypeAlias

from sqlalchemy import Connection, bindparam, func, select

from controller.storage import schema
from controller.storage.checksums import CHECKSUMS
from controller.storage.rows import AnyRow

Moment: TypeAlias = tuple[int, int]  # when a mark was made, and its time

_PROBE_MARKS: Final = 256  # the first step back from the newest mark; each further step is twice as long

_mark = schema.mark.c
_OF_KEY = (_mark.stream == bindparam("stream")) & (_mark.key == bindparam("key"))
_ENDS = select(func.min(_mark.seq), func.max(_mark.seq)).where(_OF_KEY)
_MADE_AT = select(_mark.created_at).where(_OF_KEY, _mark.seq == bindparam("seq"))
_EVERY = (
    select(schema.mark)
    .where(
        _OF_KEY,
        _mark.seq >= bindparam("first"),
        (_mark.seq - bindparam("first")) % bindparam("step") == 0,
        _mark.created_at >= bindparam("since"),
    )
    .order_by(_mark.seq)
)


def timeline(connection: Connection, stream: str, key: str, since: int, points: int) -> list[Moment]:
    """The marks made since a time, oldest first; of very many, about `points` of them at equal distances."""
    of_key = {"stream": stream, "key": key}
    with connection.begin():
        oldest, newest = connection.execute(_ENDS, of_key).one()
        if newest is None:
            return []
        back = _PROBE_MARKS
        while (first := max(oldest, newest - back)) > oldest:
            made_at = connection.execute(_MADE_AT, {**of_key, "seq": first}).scalar_one_or_none()
            if made_at is None or made_at < since:
                break
            back *= 2
        step = max(1, (newest - first) // points)
        found = connection.execute(_EVERY, {**of_key, "first": first, "step": step, "since": since})
        return [CHECKSUMS[schema.mark].decoded(row, _moment_of) for row in found]


def _moment_of(row: AnyRow) -> Moment:
    return row.created_at, row.time
