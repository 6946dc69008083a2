"""Spells of serving: who served from when until when, so that silence counts only while someone listened."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlalchemy import Connection, delete, func, insert, select

from controller.limits import CLOCK_LEAD_MS, FENCES_SINCE_S, SPELLS_KEPT
from controller.storage import schema
from controller.storage.transaction import transaction
from controller.storage.writing import RESTORE, Spell, SpellOver


class Gaps:
    """What came between the spell that wrote a stream last, and this one: time in which nobody served, and restores."""

    def __init__(self, spells: Sequence[tuple[int, int, int]], restores: Sequence[tuple[int, int]] = ()) -> None:
        """Takes (fence, started_at, served_until) and, of restores, (fence, when); each in order."""
        self._restores = restores
        self._gaps: list[tuple[int, int]] = [
            (fence, max(0, started_at - served_until))
            for (fence, _, served_until), (_, started_at, _) in pairwise(spells)
        ]
        self.ended_at = spells[-1][1] if spells else 0  # when the newest spell began

    def since(self, fence: int) -> int:
        """The milliseconds without service between that spell and the newest."""
        return sum(gap for before, gap in self._gaps if before >= fence)

    def is_old(self, fence: int) -> bool:
        """Whether what came after that spell may be forgotten before long, as so many followed it."""
        return len(self._gaps) > SPELLS_KEPT // 2 and fence < self._gaps[-SPELLS_KEPT // 2][0]

    def restored_at(self, fence: int) -> int | None:
        """When the store was brought back, the last time after that spell; None where it was not."""
        return max((moment for restored, moment in self._restores if restored > fence), default=None)


def begin_spell(connection: Connection, owner: str, now: int) -> tuple[Spell, Gaps]:
    """Starts a spell at `now`, or at the time up to which the clock may have been told before, if that is later.

    Raises CommitUnknown where nobody knows whether it began: one that nobody serves does no harm.
    """
    table = schema.served
    with transaction(connection):
        # Whoever served before us ends its last commit before we look, and begins no other one (Scribe.commit).
        connection.execute(select(table.c.fence).order_by(table.c.fence).with_for_update())
        newest = connection.execute(select(func.max(table.c.fence))).scalar_one()
        if newest is not None:
            written = [
                connection.execute(select(func.min(each.c.fence))).scalar_one()
                for each in (schema.stream, schema.reader_group)
            ]
            oldest = min((fence for fence in written if fence is not None), default=newest)
            # What a stream has of its writers may be from some spells before that, and which ones is not looked for.
            earlier = select(table.c.fence).where(table.c.fence < oldest).order_by(table.c.fence.desc())
            first_to_go = connection.execute(earlier.offset(SPELLS_KEPT).limit(1)).scalar_one_or_none()
            if first_to_go is not None:
                connection.execute(delete(table).where(table.c.fence <= first_to_go))
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
    restores = [(row.fence, row.clock_bound) for row in rows if row.owner == RESTORE]
    return spell, Gaps([*spells, (spell.fence, started_at, started_at)], restores)


def begin_anew(connection: Connection, now: int) -> int | None:
    """Enters that the store was brought back to an earlier moment; returns when it was served last, None for never.

    Epochs and fences may have been given out since that it does not know of, also after an earlier restore of the same
    backup. So its fence counts seconds, which have gone on, and epochs go on from the milliseconds of `now`, as soon as
    a stream or group is loaded (`Gaps.restored_at`). Within a transaction of the caller's.
    """
    table = schema.served
    last = connection.execute(select(table).order_by(table.c.fence.desc()).limit(1)).one_or_none()
    if last is None:
        return None
    served_until: int = last.served_until
    connection.execute(
        insert(table).values(
            fence=max(last.fence + 1, now // 1000 - FENCES_SINCE_S),
            owner=RESTORE,
            started_at=served_until,  # it served for no time at all: the silence since then is ours
            served_until=served_until,
            clock_bound=max(last.clock_bound, now),
        )
    )
    return served_until


def taken_over(connection: Connection, spell: Spell) -> SpellOver | None:
    """Who began to serve the store after this spell did, None where nobody did."""
    table = schema.served
    newest = select(table.c.fence, table.c.owner).where(table.c.fence > spell.fence).order_by(table.c.fence.desc())
    with connection.begin():
        row = connection.execute(newest.limit(1)).one_or_none()
    return None if row is None else SpellOver(spell.fence, row.fence, row.owner)
