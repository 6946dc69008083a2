"""Terms of serving: which controllers served the store, one after the other, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, bindparam, delete, false, func, insert, select, update

from controller.cluster.records import Kind
from controller.storage import schema
from controller.storage.diagnosis import Cause, StoreTrouble
from controller.storage.refusals import ServedTogether
from controller.storage.save import Claim
from controller.storage.tenure import Tenure
from controller.storage.transaction import transaction
from strandline.core.served_time import Unserved

CLOCK_LEAD_MS: Final = 2_000  # the stored bound is this far ahead, so that the clock never steps back after a crash
FENCES_SINCE_S: Final = 1_735_689_600  # the start of 2025: seconds since then, as fences, fit for 68 years

# Owners of terms in which no controller served. Names of controllers have a colon, so these two differ from all.
RESTORE: Final = "restore"
REWIND: Final = "rewind"
CLUSTER: Final = "cluster"  # from here on controllers serve together, each with shards of its own


class OwnershipLost(StoreTrouble):
    """Somebody else has taken streams over that this controller wanted to take."""

    streams: Sequence[str]

    @property
    def detail(self) -> str:
        return f"another controller owns {', '.join(map(repr, self.streams))}"


class TermOver(StoreTrouble):
    """Another controller began to serve this store after this one did. `owner` is its name."""

    cause = Cause.TAKEN_OVER

    fence: int
    newest: int
    owner: str

    @property
    def detail(self) -> str:
        fences = f"its fence is {self.newest}, this controller's {self.fence}"
        if self.owner == RESTORE:
            return f"the store was restored from a backup while this controller served it: {fences}"
        if self.owner == REWIND:
            return f"the store's clock was set back while this controller served it: {fences}"
        if self.owner == CLUSTER:
            return f"controllers that serve the store together took it over: {fences}"
        return f"controller {self.owner} took the store over: {fences}"


class TermGone(StoreTrouble):
    """The store lacks the entry of this controller's term: it was restored to an earlier moment."""

    cause = Cause.MOVED
    says = (
        "the store no longer has this controller's entry (fence {fence}): it was restored to an earlier moment, or "
        "changed by hand"
    )
    fence: int


@dataclass(frozen=True, slots=True)
class Term:
    """One term of serving, from the start of a controller to its end. A later term has a greater fence."""

    fence: int
    owner: str
    started_at: int
    unserved_ms: int = 0  # how long, before this term, no caller could be heard
    restores: Sequence[tuple[int, int]] = ()  # fence and time of each restore of the store, in order


class OneTerm:
    """The tenures of a controller that serves a whole store alone: everything is under one, which is its term."""

    def __init__(self, term: Term, unserved: Unserved) -> None:
        self._tenure = Tenure(term.fence, term.owner, term.started_at, unserved, term.restores)

    def of(self, kind: Kind, name: str) -> Tenure:
        return self._tenure

    def serves(self, tenure: Tenure) -> bool:
        return True


# Built once: building a statement costs more than running it.
_KEEP_SERVING: Final = (
    update(schema.served)
    .where(schema.served.c.fence == bindparam("at_fence"), schema.served.c.ended.is_(False))
    .values(served_until=bindparam("until"), clock_bound=bindparam("bound"), unserved_ms=bindparam("unserved"))
)
_TAKE: Final = (
    update(schema.stream)
    .where(schema.stream.c.name == bindparam("at_name"), schema.stream.c.fence == bindparam("at_fence"))
    .values(owner=bindparam("new_owner"), fence=bindparam("new_fence"))
)
_END_ALL: Final = update(schema.served).values(ended=True)
_NEWEST: Final = select(schema.served.c.fence, schema.served.c.owner).order_by(schema.served.c.fence.desc()).limit(1)


@dataclass(slots=True)  # not frozen: it is made for each commit, and a frozen value takes three times as long
class TermCheck:
    """Extends a term, which fails if it is over, and takes the streams over that an earlier term wrote last.

    Other streams, and reader groups, are not checked: the newest term is the only one that writes.
    """

    term: Term
    served_until: int
    clock_bound: int
    unserved_ms: int = 0

    def check(self, connection: Connection, claims: Sequence[Claim]) -> None:
        """See `ServingCheck`. Raises TermOver, TermGone and OwnershipLost.

        A new term ends all before it in their own rows, which are locked meanwhile. So either it waits for this commit,
        and then sees what it wrote, or this commit waits for it, and then finds its row changed.
        """
        term = self.term
        serving = {
            "at_fence": term.fence,
            "until": self.served_until,
            "bound": self.clock_bound,
            "unserved": self.unserved_ms,
        }
        if not connection.execute(_KEEP_SERVING, serving).rowcount:
            raise _why_over(connection, term)
        lost = []
        for claim in claims:
            fence = claim.stored_fence
            if claim.kind is Kind.STREAM and fence is not None and fence != term.fence:
                taken = {"at_name": claim.name, "at_fence": fence, "new_owner": term.owner, "new_fence": term.fence}
                if not connection.execute(_TAKE, taken).rowcount:
                    lost.append(claim.name)
        if lost:
            raise OwnershipLost(streams=sorted(lost))

    def finish(self, connection: Connection) -> None:
        """Nothing is left to say: `check` has extended the term."""


def _why_over(connection: Connection, term: Term) -> TermOver | TermGone:
    newest = connection.execute(_NEWEST).one_or_none()
    if newest is None or newest.fence <= term.fence:
        return TermGone(fence=term.fence)
    return TermOver(fence=term.fence, newest=newest.fence, owner=newest.owner)


def enter_term(connection: Connection, **values: int | str) -> None:
    """Enters a term, which ends all before it. Runs within the caller's transaction."""
    connection.execute(_END_ALL)
    connection.execute(insert(schema.served).values(ended=False, **values))


def begin_term(connection: Connection, owner: str, now: int) -> Term:
    """Starts a term at `now`, or at the latest time that an earlier controller may have reported, if that is later.
    Times from before the clock was last set back do not count.

    Served time continues where the term before left it: nobody could be heard since.

    Raises ServedTogether for a store that was served in shards: terms know nothing of their fences, clocks and silence.
    Raises CommitUnknown if it is not known whether the term began; an unused term does no harm.
    """
    table = schema.served
    with transaction(connection):
        # These locks wait for the last commit of the earlier controller, which cannot commit after it (`TermCheck`).
        # SQLite has one lock, for whoever writes; if it were taken after a read, a commit in between would be an error.
        connection.execute(delete(table).where(false()))
        connection.execute(select(table.c.fence).order_by(table.c.fence).with_for_update())
        if were_served_together(connection):
            raise ServedTogether
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
        restores = tuple((row.fence, row.clock_bound) for row in rows if row.owner == RESTORE)
        term = Term((newest or 0) + 1, owner, started_at, unserved_ms, restores)
        enter_term(
            connection,
            fence=term.fence,
            owner=owner,
            started_at=started_at,
            served_until=started_at,
            clock_bound=started_at + CLOCK_LEAD_MS,
            unserved_ms=unserved_ms,
        )
    return term


def were_served_together(connection: Connection) -> bool:
    """Whether controllers have served this store together, each with shards of its own."""
    return connection.execute(select(schema.shard.c.id).where(schema.shard.c.fence > 0).limit(1)).first() is not None


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
    enter_term(
        connection,
        fence=last.fence,
        owner=CLUSTER,
        started_at=last.served_until,
        served_until=last.served_until,
        clock_bound=last.clock_bound,
        unserved_ms=last.unserved_ms,
    )
    return last


def start_over(connection: Connection, now: int) -> int | None:
    """Records that the store was restored to an earlier moment; returns when it was last served, None if never.

    The restored store does not know which epochs and fences were given out since, also after an earlier restore of the
    same backup. So the new fence is taken from the seconds of `now`, and epochs continue from its milliseconds when a
    stream or group is loaded (`Tenure.restored_at`). Runs within the caller's transaction.
    """
    table = schema.served
    last = connection.execute(select(table).order_by(table.c.fence.desc()).limit(1)).one_or_none()
    if last is None:
        return None
    served_until: int = last.served_until
    enter_term(
        connection,
        fence=max(last.fence + 1, now // 1000 - FENCES_SINCE_S),
        owner=RESTORE,
        started_at=served_until,  # a term of no length: the time since counts as unserved
        served_until=served_until,
        clock_bound=max(last.clock_bound, now),
        unserved_ms=last.unserved_ms,
    )
    return served_until


def taken_over(connection: Connection, term: Term) -> TermOver | None:
    """The error that names a controller with a later term; None if there is none."""
    with connection.begin():
        error = _why_over(connection, term)
    return error if isinstance(error, TermOver) else None
