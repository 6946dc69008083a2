"""Terms of serving: which controllers served the store, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, delete, false, func, insert, select

from controller.limits import CLOCK_LEAD_MS, FENCES_SINCE_S
from controller.storage import schema
from controller.storage.save import CLUSTER, RESTORE, REWIND, Term, TermOver
from controller.storage.transaction import transaction


class Restores:
    """When the store was restored to an earlier moment."""

    def __init__(self, restores: Sequence[tuple[int, int]] = ()) -> None:
        """Takes (fence, time) of each restore, in order."""
        self._restores = restores

    def since(self, fence: int) -> int | None:
        """When the store was last restored after the term with this fence; None if it was not."""
        return max((moment for restored, moment in self._restores if restored > fence), default=None)


def begin_term(connection: Connection, owner: str, now: int) -> tuple[Term, Restores]:
    """Starts a term at `now`, or at the latest time that an earlier controller may have reported, if that is later.
    Times from before the clock was last set back do not count.

    Served time continues where the term before left it: nobody could be heard since.

    Raises CommitUnknown if it is not known whether the term began; an unused term does no harm.
    """
    table = schema.served
    with transaction(connection):
        # These locks wait for the last commit of the earlier controller, which cannot commit after it (`CommitWriter`).
        # SQLite has one lock, for whoever writes; if it were taken after a read, a commit in between would be an error.
        connection.execute(delete(table).where(false()))
        connection.execute(select(table.c.fence).order_by(table.c.fence).with_for_update())
        newest = connection.execute(select(func.max(table.c.fence))).scalar_one()
        if newest is not None:
            written = [
                connection.execute(select(func.min(each.c.fence))).scalar_one()
                for each in (schema.stream, schema.reader_group)
            ]
            oldest = min((fence for fence in written if fence is not None), default=newest)
            connection.execute(delete(table).where(table.c.fence < oldest))
        rows = connection.execute(select(table).order_by(table.c.fence)).all()
        set_back = max((place for place, row in enumerate(rows) if row.owner == REWIND), default=0)
        started_at = max([now, *(row.clock_bound for row in rows[set_back:])])
        unserved_ms = rows[-1].unserved_ms + started_at - rows[-1].served_until if rows else 0
        term = Term((newest or 0) + 1, owner, started_at, unserved_ms)
        connection.execute(
            insert(table).values(
                fence=term.fence,
                owner=owner,
                started_at=started_at,
                served_until=started_at,
                clock_bound=started_at + CLOCK_LEAD_MS,
                unserved_ms=unserved_ms,
            )
        )
    return term, Restores([(row.fence, row.clock_bound) for row in rows if row.owner == RESTORE])


@dataclass(frozen=True, slots=True)
class LastTerm:
    """Where the last controller that served alone left the store."""

    fence: int  # no row has a greater one
    served_until: int
    clock_bound: int
    unserved_ms: int
    restored: tuple[int, int] | None  # fence and time of the last restore


def end_terms(connection: Connection) -> LastTerm | None:
    """Enters that controllers serve together from now on: a controller with an earlier term commits nothing any more.

    None if that was entered before, or if nobody has served the store yet. Runs within the caller's transaction.
    """
    table = schema.served
    # As in `begin_term`: waits for the last commit of the earlier controller.
    connection.execute(select(table.c.fence).order_by(table.c.fence).with_for_update())
    rows = connection.execute(select(table).order_by(table.c.fence)).all()
    served = [row for row in rows if row.owner not in (RESTORE, REWIND)]
    if not served or served[-1].owner == CLUSTER:
        return None
    set_back = max((place for place, row in enumerate(rows) if row.owner == REWIND), default=0)
    restored = [(row.fence, row.clock_bound) for row in rows if row.owner == RESTORE]
    last = LastTerm(
        fence=rows[-1].fence + 1,
        served_until=rows[-1].served_until,
        clock_bound=max(row.clock_bound for row in rows[set_back:]),
        unserved_ms=rows[-1].unserved_ms,
        restored=restored[-1] if restored else None,
    )
    connection.execute(
        insert(table).values(
            fence=last.fence,
            owner=CLUSTER,
            started_at=last.served_until,
            served_until=last.served_until,
            clock_bound=last.clock_bound,
            unserved_ms=last.unserved_ms,
        )
    )
    return last


def begin_anew(connection: Connection, now: int) -> int | None:
    """Records that the store was restored to an earlier moment; returns when it was last served, None if never.

    The restored store does not know which epochs and fences were given out since, also after an earlier restore of the
    same backup. So the new fence is taken from the seconds of `now`, and epochs continue from its milliseconds when a
    stream or group is loaded (`Restores.since`). Runs within the caller's transaction.
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
            started_at=served_until,  # a term of no length: the time since counts as unserved
            served_until=served_until,
            clock_bound=max(last.clock_bound, now),
            unserved_ms=last.unserved_ms,
        )
    )
    return served_until


def taken_over(connection: Connection, term: Term) -> TermOver | None:
    """The error that names a controller with a later term; None if there is none."""
    table = schema.served
    newest = select(table.c.fence, table.c.owner).where(table.c.fence > term.fence).order_by(table.c.fence.desc())
    with connection.begin():
        row = connection.execute(newest.limit(1)).one_or_none()
    return None if row is None else TermOver(term.fence, row.fence, row.owner)
