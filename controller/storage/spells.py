"""Spells of serving: who served from when until when, so that silence counts only while someone listened."""

from __future__ import annotations

from itertools import pairwise

from sqlalchemy import Connection, delete, func, insert, select

from controller.limits import CLOCK_LEAD_MS
from controller.storage import schema
from controller.storage.writing import Spell


class Gaps:
    """For how long nobody served, since the spell that wrote a stream last."""

    def __init__(self, spells: list[tuple[int, int, int]]) -> None:
        """Takes (fence, started_at, served_until), in order."""
        self._gaps: list[tuple[int, int]] = [
            (fence, max(0, started_at - served_until))
            for (fence, _, served_until), (_, started_at, _) in pairwise(spells)
        ]

    def since(self, fence: int) -> int:
        """The milliseconds without service between that spell and the newest."""
        return sum(gap for before, gap in self._gaps if before >= fence)


def begin_spell(connection: Connection, owner: str, now: int) -> tuple[Spell, Gaps]:
    """Starts a spell at `now`, or at the time up to which the clock may have been told before, if that is later."""
    table = schema.served
    with connection.begin():
        # Whoever served before us ends its last commit before we look, and begins no other one (Scribe.commit).
        connection.execute(select(table.c.fence).order_by(table.c.fence).with_for_update())
        oldest = connection.execute(select(func.min(schema.stream.c.fence))).scalar_one()
        newest = connection.execute(select(func.max(table.c.fence))).scalar_one()
        if newest is not None:
            connection.execute(delete(table).where(table.c.fence < (newest if oldest is None else oldest)))
        rows = connection.execute(select(table).order_by(table.c.fence)).all()
        started_at = max([now, *(row.clock_bound for row in rows)])
        spell = Spell(fence=(newest or 0) + 1, owner=owner, started_at=started_at)
        connection.execute(
            insert(table).values(
                fence=spell.fence,
                owner=owner,
                started_at=started_at,
                served_until=started_at,
                clock_bound=started_at + CLOCK_LEAD_MS,
            )
        )
    spells = [(row.fence, row.started_at, row.served_until) for row in rows]
    return spell, Gaps([*spells, (spell.fence, started_at, started_at)])
