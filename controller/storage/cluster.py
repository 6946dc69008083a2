"""Many controllers on one PostgreSQL store: who may write, and who owns which shard.

Each function takes one request of `controller.cluster.records` and is one transaction, except for `put_check` and
`put_release`, which are parts of a commit. Each raises CommitUnknown if it is not known whether it was carried out;
with any other error nothing was changed. Isolation must be READ COMMITTED: a statement sees all that was committed
before it began, also what it waited for in the one before it.

Who may write is decided by one row. A commit holds the row of its controller FOR KEY SHARE, beside which the beats of
that controller go on. Whoever ends a controller locks its row FOR UPDATE, and so waits for its commit. No shard can be
taken from a controller before it was ended: so a commit locks no shard.

Locks are taken in this order: rows of controllers by id, shards by id, the row of `cluster`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sqlalchemy import Connection, Table, or_, select, text, update
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg

from controller.cluster.records import (
    Adopt,
    Beat,
    BeatAnswer,
    Begin,
    Check,
    ControllerRow,
    End,
    Leave,
    NameTaken,
    Release,
    ShardRow,
    Take,
    Taken,
)
from controller.limits import ENDED_KEPT_MS, FENCES_SINCE_S, IDLE_BEGIN_MS, LEASE_MS
from controller.storage import schema, upgrade
from controller.storage.diagnosis import Cause, StoreTrouble
from controller.storage.dialect import StoreDialect, dialect_of
from controller.storage.save import Claim
from controller.storage.shards import fill_shards
from controller.storage.statements import Prepared, StatementRunner
from controller.storage.terms import end_terms
from controller.storage.transaction import decided, transaction


class ControllerEnded(StoreTrouble):
    """This controller was ended by another one: it writes nothing any more under its present id."""

    cause = Cause.TAKEN_OVER

    def __init__(self, controller: int) -> None:
        super().__init__(controller)
        self.controller = controller

    def __str__(self) -> str:
        return "another controller ended this one, which had not been heard of for a while or has the same name"


class NameReused(StoreTrouble):
    """A controller with the same name began later: this one has ended."""

    cause = Cause.TAKEN_OVER

    def __init__(self, name: str, address: str) -> None:
        super().__init__(name, address)
        self.name = name
        self.address = address

    def __str__(self) -> str:
        return f"another controller named {self.name!r} began to serve, at {self.address}"


class ShardsLost(StoreTrouble):
    """A commit was to write shards that its controller does not own with the fences that it named."""

    cause = Cause.TAKEN_OVER

    def __init__(self, shards: Sequence[int]) -> None:
        super().__init__(shards)
        self.shards = shards

    def __str__(self) -> str:
        return f"this controller no longer owns the shards {', '.join(map(str, self.shards))}"


@dataclass(frozen=True, slots=True)
class BeginAnswer:
    """The answer to a begin."""

    answer: BeatAnswer
    ended: tuple[int, ...]  # the controllers that it ended


@dataclass(frozen=True, slots=True)
class Due:
    """A stream or reader group that time alone may change. `wake_at` is None if it is not known when."""

    name: str
    wake_at: int | None


# -- statements ------------------------------------------------------------------------------------------------------

_NOW: Final = "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)"
_CONTROLLER: Final = (
    "id, name, address, client_address, version, beat, clock_bound, served_until, draining, ended_at, began_at"
)
_SHARD: Final = "shard.id, shard.owner, shard.fence, shard.served_until, shard.clock_floor, shard.unserved_ms"
_IDS: Final = "CAST(:shards AS integer[])"

_ALIVE: Final = "SELECT id FROM controller WHERE id = :me AND ended_at IS NULL"
_LOCK: Final = "SELECT id FROM controller WHERE id = :me FOR UPDATE"
_HOLD: Final = f"{_ALIVE} FOR KEY SHARE"
_HELD: Final = """
SELECT shard.id FROM shard
JOIN unnest(CAST(:shards AS integer[]), CAST(:fences AS integer[])) AS given (id, fence) USING (id, fence)
WHERE shard.owner = :me"""

_EXTEND: Final = f"""
UPDATE controller SET beat = beat + 1, clock_bound = greatest(clock_bound, {_NOW} + :lease),
served_until = greatest(served_until, :served_until), draining = :draining
WHERE id = :me AND ended_at IS NULL"""
# Before the controllers: so the owner of each shard is among them if it lives.
_READ_SHARDS: Final = f"""
SELECT {_NOW} AS store_now, cluster.version, {_SHARD} FROM cluster
LEFT JOIN shard ON cluster.version IS DISTINCT FROM :known ORDER BY shard.id"""
_READ_CONTROLLERS: Final = f"SELECT {_CONTROLLER} FROM controller WHERE ended_at IS NULL OR id = :me ORDER BY id"

_END: Final = f"UPDATE controller SET ended_at = {_NOW} WHERE id = :me AND beat = :beat AND ended_at IS NULL"
_LEAVE: Final = f"""
UPDATE controller SET ended_at = {_NOW}, clock_bound = least(clock_bound, CAST(:clock_shown AS bigint) + 1)
WHERE id = :me AND ended_at IS NULL"""

_LOCK_SHARDS: Final = f"SELECT id FROM shard WHERE id = ANY({_IDS}) ORDER BY id FOR NO KEY UPDATE"
# `greatest` leaves out nulls, which a shard without an owner has here. One that nobody ever had was never unserved.
_TAKE: Final = f"""
WITH former AS (
    SELECT shard.id, greatest(shard.clock_floor, owner.clock_bound, {_NOW}, :now) AS floor,
    greatest(shard.served_until, owner.served_until) AS served
    FROM shard LEFT JOIN controller AS owner ON owner.id = shard.owner
    WHERE shard.id = ANY({_IDS}) AND (shard.owner IS NULL OR owner.ended_at IS NOT NULL)
), taken AS (
    UPDATE shard SET owner = :me, fence = shard.fence + 1, clock_floor = former.floor, served_until = former.floor,
    unserved_ms = shard.unserved_ms + CASE shard.fence WHEN 0 THEN 0 ELSE greatest(0, former.floor - former.served) END
    FROM former WHERE shard.id = former.id
    AND EXISTS (SELECT FROM controller WHERE id = :me AND ended_at IS NULL)
    RETURNING {_SHARD}
), moved AS (
    UPDATE cluster SET version = version + 1 WHERE EXISTS (SELECT FROM taken)
)
SELECT {_SHARD} FROM taken AS shard ORDER BY id"""
_READ_NOW: Final = f"SELECT {_NOW}"
_READ_OWN: Final = f"""
SELECT {_SHARD} FROM shard JOIN controller ON controller.id = shard.owner
WHERE controller.id = :me AND controller.ended_at IS NULL ORDER BY shard.id"""

_ADD_UNSERVED: Final = """
UPDATE shard SET unserved_ms = greatest(shard.unserved_ms, given.unserved_ms),
served_until = greatest(shard.served_until, :served_until)
FROM unnest(CAST(:shards AS integer[]), CAST(:unserved AS bigint[])) AS given (id, unserved_ms)
WHERE shard.id = given.id AND shard.owner = :me"""

_RELEASE: Final = f"""
WITH released AS (
    UPDATE shard SET owner = NULL, served_until = greatest(served_until, :served_until),
    clock_floor = greatest(clock_floor, :clock_floor)
    WHERE id = ANY({_IDS}) AND owner = :me RETURNING id
)
UPDATE cluster SET version = version + 1 WHERE EXISTS (SELECT FROM released)"""

_READ_BOUND: Final = f"""
SELECT {_NOW}, max(greatest(shard.clock_floor, owner.clock_bound))
FROM shard LEFT JOIN controller AS owner ON owner.id = shard.owner WHERE shard.fence > 0"""
_REWIND: Final = """
WITH former AS (
    SELECT shard.id, greatest(shard.served_until, owner.served_until) AS served
    FROM shard LEFT JOIN controller AS owner ON owner.id = shard.owner WHERE shard.fence > 0
)
UPDATE shard SET owner = NULL, served_until = :now, clock_floor = :now,
unserved_ms = shard.unserved_ms - (former.served - :now)
FROM former WHERE shard.id = former.id"""


@cache
def _prepared(statement: str) -> Prepared:
    kind: Any = PGDialect_psycopg
    return Prepared(text(statement), kind(paramstyle="numeric_dollar"))


# -- beginning and ending --------------------------------------------------------------------------------------------


def begin(connection: Connection, request: Begin) -> BeginAnswer | NameTaken:
    """Begins a controller. See `Begin`.

    The first begin of all also ends the term of the controller that served the store alone, and gives each stream and
    group its shard. Raises WrongSchema if the store was migrated to what this version cannot serve.
    """
    own, who = request.id, request.identity
    with transaction(connection):
        connection.execute(text(f"SET LOCAL idle_in_transaction_session_timeout = {IDLE_BEGIN_MS}"))
        # Of several that begin with one name at once, each sees the one before it.
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtext(:name), 0)"), {"name": f"controller/{who.name}"})
        upgrade.none_meanwhile(connection)
        upgrade.check(connection)
        there = select(schema.controller.c.id).where(schema.controller.c.id == own)
        if connection.execute(there).one_or_none() is None:
            return _begin(connection, request)
    return BeginAnswer(beat(connection, Beat(own, 0, False, None)), ())


def _begin(connection: Connection, request: Begin) -> BeginAnswer | NameTaken:
    own, who, previous = request.id, request.identity, request.previous
    same = [row for row in _live(connection) if row.name == who.name and row.id != previous]
    if same and not request.restart:
        return NameTaken(same[0])
    ended = _end_all(connection, [row.id for row in same])
    if previous is not None:
        ended += _end_all(connection, [previous], request.clock_shown)
    _take_from_terms(connection)
    connection.execute(_forget(), {"kept": ENDED_KEPT_MS})
    connection.execute(_insert(), {"id": own, "lease": LEASE_MS, "revision": schema.REVISION, **_identity(request)})
    former = [*ended, *([] if previous is None else [previous])]
    theirs = select(schema.shard.c.id).where(schema.shard.c.owner.in_(former))
    shards = _array(connection.execute(theirs).scalars())
    connection.execute(text(_LOCK_SHARDS), {"shards": shards})
    connection.execute(text(_TAKE), {"shards": shards, "me": own, "now": 0})
    told = connection.execute(text(_READ_SHARDS), {"known": None}).all()
    controllers = connection.execute(text(_READ_CONTROLLERS), {"me": own}).all()
    answer = _answer(told, controllers)
    return BeginAnswer(answer, tuple(ended))


def _live(connection: Connection) -> list[ControllerRow]:
    found = connection.execute(text(f"SELECT {_CONTROLLER} FROM controller WHERE ended_at IS NULL ORDER BY id"))
    return [ControllerRow(*row) for row in found]


def _end_all(connection: Connection, controllers: Sequence[int], clock_shown: int | None = None) -> list[int]:
    """Ends these controllers, after their commits; returns those that had not ended yet."""
    table = schema.controller
    locked = select(table.c.id).where(table.c.id.in_(controllers), table.c.ended_at.is_(None)).order_by(table.c.id)
    ended = list(connection.execute(locked.with_for_update()).scalars())
    values: dict[str, Any] = {"ended_at": text(_NOW)}
    if clock_shown is not None:
        values["clock_bound"] = text("least(clock_bound, CAST(:clock_shown AS bigint) + 1)").bindparams(
            clock_shown=clock_shown
        )
    connection.execute(update(table).where(table.c.id.in_(ended)).values(values))
    return ended


def _take_from_terms(connection: Connection) -> None:
    """Goes on from where a controller that served alone left the store, if one did."""
    last = end_terms(connection)
    if last is None:
        return
    fill_shards(connection)
    restored_fence, restored_at = last.restored if last.restored is not None else (None, None)
    connection.execute(
        update(schema.shard).values(
            fence=last.fence,
            served_until=last.served_until,
            clock_floor=last.clock_bound,
            unserved_ms=last.unserved_ms,
            restored_fence=restored_fence,
            restored_at=restored_at,
        )
    )


def _forget() -> Any:
    return text(
        f"DELETE FROM controller WHERE ended_at < {_NOW} - :kept "
        "AND NOT EXISTS (SELECT FROM shard WHERE shard.owner = controller.id)"
    )


def _insert() -> Any:
    return text(
        f"INSERT INTO controller ({_CONTROLLER}, revision) VALUES (:id, :name, :address, :client_address, :version, 1, "
        f"{_NOW} + :lease, {_NOW}, false, NULL, {_NOW}, :revision)"
    )


def _identity(request: Begin) -> dict[str, str | None]:
    who = request.identity
    return {
        "name": who.name,
        "address": who.address,
        "client_address": who.client_address,
        "version": who.version,
    }


def beat(connection: Connection, request: Beat) -> BeatAnswer:
    """Extends the lease of a controller and tells what it may not know yet. One trip to the server. See `Beat`."""
    with _in_one_trip(connection) as runner:
        given = {"served_until": request.served_until, "draining": request.draining, "lease": LEASE_MS}
        runner.run(_prepared(_EXTEND), {"me": request.id, **given})
        told = runner.run(_prepared(_READ_SHARDS), {"known": request.known_version})
        controllers = runner.run(_prepared(_READ_CONTROLLERS), {"me": request.id})
    return _answer(told.fetchall(), controllers.fetchall())


def _answer(told: Sequence[Any], controllers: Iterable[Any]) -> BeatAnswer:
    (store_now, version, first, *_), *_ = told
    return BeatAnswer(
        store_now=store_now,
        controllers=tuple(ControllerRow(*row) for row in controllers),
        shards=None if first is None else tuple(ShardRow(*row[2:]) for row in told),
        cluster_version=version,
    )


def end(connection: Connection, request: End) -> bool:
    """Ends another controller after its commit, if its beat is the one that was seen; returns whether it has ended."""
    with _in_one_trip(connection) as runner:
        runner.run(_prepared(_LOCK), {"me": request.id})  # the UPDATE alone would not wait for FOR KEY SHARE
        runner.run(_prepared(_END), {"me": request.id, "beat": request.beat})
        alive = runner.run(_prepared(_ALIVE), {"me": request.id})
    return not alive.fetchall()


def leave(connection: Connection, request: Leave) -> None:
    """Ends the own row. See `Leave`."""
    with _in_one_trip(connection) as runner:
        runner.run(_prepared(_LOCK), {"me": request.id})
        runner.run(_prepared(_LEAVE), {"me": request.id, "clock_shown": request.clock_shown})


# -- shards ----------------------------------------------------------------------------------------------------------


def take(connection: Connection, request: Take) -> Taken:
    """Takes those of the shards that are free. See `Take`."""
    given = {"me": request.id, "shards": _array(request.shards)}
    with _in_one_trip(connection) as runner:
        runner.run(_prepared(_HOLD), given)
        runner.run(_prepared(_LOCK_SHARDS), given)
        taken = runner.run(_prepared(_TAKE), {**given, "now": request.now})
        now = runner.run(_prepared(_READ_NOW), {})
    return _taken(taken.fetchall(), now.fetchall())


def adopt(connection: Connection, request: Adopt) -> Taken:
    """Waits for what a lost session had under way; returns all own shards, none if this controller was ended."""
    with _in_one_trip(connection) as runner:
        runner.run(_prepared(_LOCK), {"me": request.id})
        own = runner.run(_prepared(_READ_OWN), {"me": request.id})
        now = runner.run(_prepared(_READ_NOW), {})
    return _taken(own.fetchall(), now.fetchall())


def _taken(rows: Iterable[Any], now: Sequence[Any]) -> Taken:
    return Taken(shards=tuple(ShardRow(*row) for row in rows), store_now=now[0][0])


def restores(connection: Connection, shards: Sequence[int]) -> dict[int, list[tuple[int, int]]]:
    """By shard, the fence and the time of the store's last restore: a `Tenure` is made with them."""
    table = schema.shard
    query = select(table.c.id, table.c.restored_fence, table.c.restored_at).where(table.c.id.in_(shards))
    with connection.begin():
        rows = connection.execute(query).all()
    return {row.id: [] if row.restored_fence is None else [(row.restored_fence, row.restored_at)] for row in rows}


def due_streams(connection: Connection, shards: Sequence[int], until: int, limit: int) -> list[Due]:
    """The streams of these shards that time alone may change by `until`; first those of which that is not known, then
    the oldest."""
    return _due(connection, schema.stream, shards, until, limit)


def due_groups(connection: Connection, shards: Sequence[int], until: int, limit: int) -> list[Due]:
    """The same of reader groups."""
    return _due(connection, schema.reader_group, shards, until, limit)


def _due(connection: Connection, table: Table, shards: Sequence[int], until: int, limit: int) -> list[Due]:
    wake_at = table.c.wake_at
    where = (table.c.shard.in_(shards), or_(wake_at.is_(None), wake_at <= until))
    query = select(table.c.name, wake_at).where(*where).order_by(wake_at.nulls_first(), table.c.name).limit(limit)
    with connection.begin():
        return [Due(row.name, row.wake_at) for row in connection.execute(query)]


# -- parts of a commit -----------------------------------------------------------------------------------------------


def put_check(runner: StatementRunner, request: Check) -> Callable[[], None]:
    """Adds the check of a commit to the statements of a runner; call what it returns once they have run.

    That raises ControllerEnded or ShardsLost if the commit may not be written. Else nobody can end this controller, or
    take its shards, before the transaction ends. `ShardCheck` uses it so:

        begun = connection.begin()
        with runner.together():
            judge = put_check(runner, check)
        judge()
        with decided(connection, begun, runner), runner.together():
            …the rows of the commit…
            put_release(runner, check.id, release)
            runner.commit()
    """
    shards, fences = [shard for shard, _ in request.fences], [fence for _, fence in request.fences]
    held = runner.run(_prepared(_HOLD), {"me": request.id})
    # A statement of its own, behind the lock: one that began before could miss what was committed meanwhile.
    owned = runner.run(_prepared(_HELD), {"me": request.id, "shards": _array(shards), "fences": _array(fences)})

    def judge() -> None:
        if not held.fetchall():
            raise ControllerEnded(request.id)
        lost = sorted(set(shards).difference(shard for (shard,) in owned.fetchall()))
        if lost:
            raise ShardsLost(lost)

    return judge


def put_release(runner: StatementRunner, controller: int, request: Release) -> None:
    """Adds the release of shards to the statements of a runner, in a commit whose check named them."""
    given = {"me": controller, "shards": _array(request.shards)}
    bounds = {"served_until": request.served_until, "clock_floor": request.clock_floor}
    runner.run(_prepared(_LOCK_SHARDS), given)  # in order, as a take does
    runner.run(_prepared(_RELEASE), {**given, **bounds})


@dataclass(slots=True)
class ShardCheck:
    """The check of a commit, as `CommitWriter` makes it, and perhaps a release of shards. See `ServingCheck`."""

    check: Check  # its shards are checked besides those of the claims
    release: Release | None
    unserved: Mapping[int, int]  # by shard, how long nobody could be heard, if that has grown since the last commit
    served_until: int  # the moment up to which `unserved` counts

    def ask(self, runner: StatementRunner, dialect: StoreDialect, claims: Sequence[Claim]) -> Callable[[], None]:
        """What it returns raises ControllerEnded and ShardsLost."""
        fences = dict(self.check.fences)
        fences.update((claim.tenure.shard, claim.tenure.fence) for claim in claims if claim.tenure.shard is not None)
        return put_check(runner, Check(self.check.id, tuple(sorted(fences.items()))))

    def finish(self, runner: StatementRunner) -> None:
        """Nobody owns the released shards once the commit is durable."""
        if self.unserved:
            released = self.release.shards if self.release is not None else ()
            runner.run(_prepared(_LOCK_SHARDS), {"shards": _array(sorted({*self.unserved, *released}))})
            given = {"shards": _array(self.unserved), "unserved": _array(self.unserved.values())}
            runner.run(_prepared(_ADD_UNSERVED), {**given, "me": self.check.id, "served_until": self.served_until})
        if self.release is not None:
            put_release(runner, self.check.id, self.release)


# -- restoring, and setting the clock back ---------------------------------------------------------------------------


def restore_shards(connection: Connection, now: int) -> int | None:
    """Records that the store was restored to an earlier moment; returns until when controllers served it together.

    The restored store does not know which fences were given out since. So the next ones are taken from the seconds of
    `now`, and what was written under lesser ones begins anew when it is loaded. Runs within the caller's transaction.
    """
    fence = max(0, now // 1000 - FENCES_SINCE_S)
    served: int | None = connection.execute(
        text(
            "SELECT max(greatest(shard.served_until, controller.served_until)) FROM shard "
            "LEFT JOIN controller ON controller.id = shard.owner WHERE shard.fence > 0"
        )
    ).scalar_one()
    connection.execute(text("UPDATE controller SET ended_at = :now WHERE ended_at IS NULL"), {"now": now})
    connection.execute(
        text(
            "UPDATE shard SET fence = greatest(shard.fence + 1, :fence), "
            "restored_fence = greatest(shard.fence + 1, :fence), "
            "restored_at = greatest(:now, shard.clock_floor, (SELECT clock_bound FROM controller WHERE id = owner)) "
            "WHERE fence > 0"
        ),
        {"fence": fence, "now": now},
    )
    connection.execute(text("UPDATE cluster SET version = version + 1"))
    return served


def rewind_shards(connection: Connection) -> tuple[int, int]:
    """Ends all controllers, and lets the clock of all shards begin at that of the store; returns this time, and by how
    much the clock was ahead of it, 0 if it was not: then nothing is changed.

    Served time continues where it was in each shard. Runs within the caller's transaction.
    """
    now, bound = connection.execute(text(_READ_BOUND)).one()
    if bound is None or bound <= now:
        return now, 0
    connection.execute(text("UPDATE controller SET ended_at = :now WHERE ended_at IS NULL"), {"now": now})
    connection.execute(text(_REWIND), {"now": now})
    connection.execute(text("UPDATE cluster SET version = version + 1"))
    return now, bound - now


# -- helpers ---------------------------------------------------------------------------------------------------------


@contextmanager
def _in_one_trip(connection: Connection) -> Iterator[StatementRunner]:
    """A transaction whose statements are sent together, COMMIT included: nobody waits for a process that stopped in
    the middle. Results are there on exit."""
    runner = StatementRunner(connection, dialect_of(connection.dialect).left_undone)
    with decided(connection, connection.begin(), runner), runner.together():
        yield runner
        runner.commit()


def _array(numbers: Iterable[int]) -> str:
    """As PostgreSQL reads it."""
    return f"{{{','.join(map(str, numbers))}}}"
