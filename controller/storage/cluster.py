"""Many controllers on one PostgreSQL store: who may write, and who owns which shard.

Each function takes one request of `controller.cluster.records` and is one transaction, except for `check_commit` and
`release`, which are parts of a commit. Each raises CommitUnknown if it is not known whether it was carried out;
with any other error nothing was changed. Isolation must be READ COMMITTED: a statement sees all that was committed
before it began, also what it waited for in the one before it.

Who may write is decided by one row. A commit holds the row of its controller FOR KEY SHARE, beside which the beats of
that controller go on. Whoever ends a controller locks its row FOR UPDATE, and so waits for its commit. No shard can be
taken from a controller before it was ended: so a commit locks no shard.

Locks are taken in this order: rows of controllers by id, shards by id, the row of `cluster`. Nobody waits long for a
process that stopped in the middle: the server ends a session that says nothing within a transaction (`joint_engine`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Final

from sqlalchemy import (
    BigInteger,
    Connection,
    bindparam,
    case,
    delete,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)

from controller.cluster.records import (
    LEASE_MS,
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
from controller.storage import schema, upgrade
from controller.storage.diagnosis import Cause, StoreTrouble
from controller.storage.postgresql import STORE_NOW
from controller.storage.save import Claim
from controller.storage.shards import fill_shards
from controller.storage.terms import FENCES_SINCE_S, end_terms
from controller.storage.transaction import transaction

IDLE_BEGIN_MS: Final = 10_000  # PostgreSQL: from a statement with which one of many controllers begins to the next
ENDED_STORED_MS: Final = 600_000  # PostgreSQL: how long the row of an ended controller without shards is kept


class ControllerEnded(StoreTrouble):
    """This controller was ended by another one: it writes nothing any more under its present id."""

    cause = Cause.TAKEN_OVER
    says = "another controller ended this one, which had not been heard of for a while or has the same name"
    controller: int


class NameReused(StoreTrouble):
    """A controller with the same name began later: this one has ended."""

    cause = Cause.TAKEN_OVER
    says = "another controller named {name!r} began to serve, at {address}"
    name: str
    address: str


class ShardsLost(StoreTrouble):
    """A commit was to write shards that its controller does not own with the fences that it named."""

    cause = Cause.TAKEN_OVER
    shards: Sequence[int]

    @property
    def detail(self) -> str:
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

_controller, _shard = schema.controller.c, schema.shard.c
_CONTROLLER: Final = [schema.controller.c[each.name] for each in fields(ControllerRow)]
_SHARD: Final = [schema.shard.c[each.name] for each in fields(ShardRow)]
_ME: Final = _controller.id == bindparam("me")
_LIVES: Final = _controller.ended_at.is_(None)
_THESE: Final = _shard.id.in_(bindparam("shards", expanding=True))
_UNTIL: Final = bindparam("until", type_=BigInteger)
_WITH_OWNERS: Final = schema.shard.outerjoin(schema.controller, _controller.id == _shard.owner)

_ALIVE: Final = select(_controller.id).where(_ME, _LIVES)
_LOCK: Final = select(_controller.id).where(_ME).with_for_update()
_HOLD: Final = _ALIVE.with_for_update(read=True, key_share=True)
_HELD: Final = select(_shard.id, _shard.fence).where(_THESE, _shard.owner == bindparam("me"))

_EXTEND: Final = (
    update(schema.controller)
    .where(_ME, _LIVES)
    .values(
        beat=_controller.beat + 1,
        clock_bound=func.greatest(_controller.clock_bound, STORE_NOW + LEASE_MS),
        served_until=func.greatest(_controller.served_until, _UNTIL),
        draining=bindparam("drains"),
    )
)
# Before the controllers: so the owner of each shard is among them if it lives.
_READ_SHARDS: Final = (
    select(STORE_NOW, schema.cluster.c.version, *_SHARD)
    .select_from(schema.cluster.outerjoin(schema.shard, schema.cluster.c.version.is_distinct_from(bindparam("known"))))
    .order_by(_shard.id)
)
_READ_CONTROLLERS: Final = select(*_CONTROLLER).where(or_(_LIVES, _ME)).order_by(_controller.id)

_END: Final = (
    update(schema.controller).where(_ME, _LIVES, _controller.beat == bindparam("at_beat")).values(ended_at=STORE_NOW)
)
_LEAVE: Final = (
    update(schema.controller)
    .where(_ME, _LIVES)
    .values(
        ended_at=STORE_NOW,
        clock_bound=func.least(_controller.clock_bound, bindparam("shown", type_=BigInteger) + 1),
    )
)
_FORGET: Final = delete(schema.controller).where(
    _controller.ended_at < STORE_NOW - ENDED_STORED_MS, ~exists().where(_shard.owner == _controller.id)
)

_LOCK_SHARDS: Final = select(_shard.id).where(_THESE).order_by(_shard.id).with_for_update(key_share=True)


# The shards as they were. `greatest` leaves out nulls, which a shard without an owner has here.
_was, _owner = schema.shard.alias("was"), schema.controller.alias("owner")
_NOW_BY_CALLER: Final = bindparam("now", type_=BigInteger)
_FORMER: Final = select(
    _was.c.id,
    func.greatest(_was.c.clock_floor, _owner.c.clock_bound, STORE_NOW, _NOW_BY_CALLER).label("floor"),
    func.greatest(_was.c.served_until, _owner.c.served_until).label("served"),
).select_from(_was.outerjoin(_owner, _owner.c.id == _was.c.owner))
_free = _FORMER.where(
    _was.c.id.in_(bindparam("shards", expanding=True)), or_(_was.c.owner.is_(None), _owner.c.ended_at.is_not(None))
).subquery("free")
_TAKE: Final = (
    update(schema.shard)
    .where(_shard.id == _free.c.id)
    .values(
        owner=bindparam("me"),
        fence=_shard.fence + 1,
        clock_floor=_free.c.floor,
        served_until=_free.c.floor,
        # One that nobody ever had was never unserved.
        unserved_ms=_shard.unserved_ms
        + case((_shard.fence == 0, 0), else_=func.greatest(0, _free.c.floor - _free.c.served)),
    )
    .returning(*_SHARD)
)
_MOVE: Final = update(schema.cluster).values(version=schema.cluster.c.version + 1)
_READ_NOW: Final = select(STORE_NOW)
_READ_OWN: Final = select(*_SHARD).select_from(_WITH_OWNERS).where(_ME, _LIVES).order_by(_shard.id)

_ADD_UNSERVED: Final = (
    update(schema.shard)
    .where(_shard.id == bindparam("at_shard"), _shard.owner == bindparam("me"))
    .values(
        unserved_ms=func.greatest(_shard.unserved_ms, bindparam("unserved", type_=BigInteger)),
        served_until=func.greatest(_shard.served_until, _UNTIL),
    )
)
_RELEASE: Final = (
    update(schema.shard)
    .where(_THESE, _shard.owner == bindparam("me"))
    .values(
        owner=None,
        served_until=func.greatest(_shard.served_until, _UNTIL),
        clock_floor=func.greatest(_shard.clock_floor, bindparam("floor", type_=BigInteger)),
    )
)


# -- beginning and ending --------------------------------------------------------------------------------------------


def begin(connection: Connection, request: Begin) -> BeginAnswer | NameTaken:
    """Begins a controller. See `Begin`.

    The first begin of all also ends the term of the controller that served the store alone, and gives each stream and
    group its shard. Raises WrongSchema if the store was migrated to what this version cannot serve.
    """
    own, who = request.id, request.identity
    with transaction(connection):
        connection.execute(select(func.set_config("idle_in_transaction_session_timeout", str(IDLE_BEGIN_MS), True)))
        # Of several that begin with one name at once, each sees the one before it.
        connection.execute(select(func.pg_advisory_xact_lock(func.hashtext(f"controller/{who.name}"), 0)))
        upgrade.none_meanwhile(connection)
        upgrade.check(connection)
        there = select(_controller.id).where(_controller.id == own)
        if connection.execute(there).one_or_none() is None:
            return _begin(connection, request)
    return BeginAnswer(beat(connection, Beat(own, 0, False, None)), ())


def _begin(connection: Connection, request: Begin) -> BeginAnswer | NameTaken:
    own, who, previous = request.id, request.identity, request.previous
    live = connection.execute(select(*_CONTROLLER).where(_LIVES).order_by(_controller.id))
    same = [ControllerRow(*row) for row in live if row.name == who.name and row.id != previous]
    if same and not request.restart:
        return NameTaken(same[0])
    ended = _end_all(connection, [row.id for row in same])
    if previous is not None:
        ended += _end_all(connection, [previous], request.clock_shown)
    _take_from_terms(connection)
    connection.execute(_FORGET)
    connection.execute(
        insert(schema.controller).values(
            **asdict(who),
            id=own,
            beat=1,
            clock_bound=STORE_NOW + LEASE_MS,
            served_until=STORE_NOW,
            draining=False,
            began_at=STORE_NOW,
        )
    )
    former = [*ended, *([] if previous is None else [previous])]
    theirs = connection.execute(select(_shard.id).where(_shard.owner.in_(former))).scalars().all()
    connection.execute(_LOCK_SHARDS, {"shards": theirs})
    _take(connection, own, theirs, 0)
    return BeginAnswer(_answer(connection, own, None), tuple(ended))


def _end_all(connection: Connection, controllers: Sequence[int], clock_shown: int | None = None) -> list[int]:
    """Ends these controllers, after their commits; returns those that had not ended yet."""
    locked = select(_controller.id).where(_controller.id.in_(controllers), _LIVES).order_by(_controller.id)
    ended = list(connection.execute(locked.with_for_update()).scalars())
    end = update(schema.controller).where(_controller.id.in_(ended)).values(ended_at=STORE_NOW)
    if clock_shown is not None:
        end = end.values(clock_bound=func.least(_controller.clock_bound, clock_shown + 1))
    connection.execute(end)
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


def beat(connection: Connection, request: Beat) -> BeatAnswer:
    """Extends the lease of a controller and tells what it may not know yet. See `Beat`."""
    with transaction(connection):
        connection.execute(_EXTEND, {"me": request.id, "until": request.served_until, "drains": request.draining})
        return _answer(connection, request.id, request.known_version)


def _answer(connection: Connection, controller: int, known_version: int | None) -> BeatAnswer:
    shards = connection.execute(_READ_SHARDS, {"known": known_version}).all()
    controllers = connection.execute(_READ_CONTROLLERS, {"me": controller})
    store_now, version, first, *_ = shards[0]
    return BeatAnswer(
        store_now=store_now,
        controllers=tuple(ControllerRow(*row) for row in controllers),
        shards=None if first is None else tuple(ShardRow(*row[2:]) for row in shards),
        cluster_version=version,
    )


def end(connection: Connection, request: End) -> bool:
    """Ends another controller after its commit, if its beat is the one that was seen; returns whether it has ended."""
    me = {"me": request.id}
    with transaction(connection):
        connection.execute(_LOCK, me)  # the UPDATE alone would not wait for FOR KEY SHARE
        connection.execute(_END, {**me, "at_beat": request.beat})
        return connection.execute(_ALIVE, me).first() is None


def leave(connection: Connection, request: Leave) -> None:
    """Ends the own row. See `Leave`."""
    with transaction(connection):
        connection.execute(_LOCK, {"me": request.id})
        connection.execute(_LEAVE, {"me": request.id, "shown": request.clock_shown})


# -- shards ----------------------------------------------------------------------------------------------------------


def take(connection: Connection, request: Take) -> Taken:
    """Takes those of the shards that are free. See `Take`."""
    with transaction(connection):
        lives = connection.execute(_HOLD, {"me": request.id}).first() is not None
        connection.execute(_LOCK_SHARDS, {"shards": request.shards})
        taken = _take(connection, request.id, request.shards, request.now) if lives else []
        return Taken(tuple(taken), store_now=connection.execute(_READ_NOW).scalar_one())


def _take(connection: Connection, controller: int, shards: Sequence[int], now: int) -> list[ShardRow]:
    """Takes those of these locked shards that are free, for a controller that lives."""
    rows = connection.execute(_TAKE, {"me": controller, "shards": shards, "now": now}).all()
    if rows:
        connection.execute(_MOVE)
    return sorted((ShardRow(*row) for row in rows), key=lambda shard: shard.id)


def adopt(connection: Connection, request: Adopt) -> Taken:
    """Waits for what a lost session had under way; returns all own shards, none if this controller was ended."""
    with transaction(connection):
        connection.execute(_LOCK, {"me": request.id})
        own = connection.execute(_READ_OWN, {"me": request.id}).all()
        return Taken(tuple(ShardRow(*row) for row in own), store_now=connection.execute(_READ_NOW).scalar_one())


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
    stream = schema.stream.c
    where = (stream.shard.in_(shards), or_(stream.wake_at.is_(None), stream.wake_at <= until))
    order = (stream.wake_at.nulls_first(), stream.name)
    query = select(stream.name, stream.wake_at).where(*where).order_by(*order).limit(limit)
    with connection.begin():
        return [Due(row.name, row.wake_at) for row in connection.execute(query)]


# -- parts of a commit -----------------------------------------------------------------------------------------------


def check_commit(connection: Connection, request: Check) -> None:
    """Checks, in the transaction of a commit, whether it may be written. Raises ControllerEnded and ShardsLost.

    If it may, nobody can end this controller, or take its shards, before the transaction ends.
    """
    if connection.execute(_HOLD, {"me": request.id}).first() is None:
        raise ControllerEnded(controller=request.id)
    if not request.fences:
        return
    # A statement of its own, behind the lock: one that began before could miss what was committed meanwhile.
    held = connection.execute(_HELD, {"me": request.id, "shards": [shard for shard, _ in request.fences]})
    lost = set(request.fences).difference((shard, fence) for shard, fence in held)
    if lost:
        raise ShardsLost(shards=sorted(shard for shard, _ in lost))


def put_release(connection: Connection, controller: int, request: Release) -> None:
    """Releases shards, in the transaction of a commit whose check named them."""
    connection.execute(_LOCK_SHARDS, {"shards": request.shards})  # in order, as a take does
    given = {"me": controller, "shards": request.shards, "until": request.served_until, "floor": request.clock_floor}
    if connection.execute(_RELEASE, given).rowcount:
        connection.execute(_MOVE)


@dataclass(slots=True)
class ShardCheck:
    """The check of a commit, and perhaps a release of shards. See `ServingCheck`."""

    request: Check  # its shards are checked besides those of the claims
    release: Release | None
    unserved: Mapping[int, int]  # by shard, how long nobody could be heard, if that has grown since the last commit
    served_until: int  # the moment up to which `unserved` counts

    def check(self, connection: Connection, claims: Sequence[Claim]) -> None:
        """Raises ControllerEnded and ShardsLost."""
        fences = dict(self.request.fences)
        fences.update((claim.tenure.shard, claim.tenure.fence) for claim in claims if claim.tenure.shard is not None)
        check_commit(connection, Check(self.request.id, tuple(sorted(fences.items()))))

    def finish(self, connection: Connection) -> None:
        """Nobody owns the released shards once the commit is durable."""
        if self.unserved:
            released = self.release.shards if self.release is not None else ()
            connection.execute(_LOCK_SHARDS, {"shards": sorted({*self.unserved, *released})})
            given = {"me": self.request.id, "until": self.served_until}
            connection.execute(
                _ADD_UNSERVED, [{**given, "at_shard": each, "unserved": ms} for each, ms in self.unserved.items()]
            )
        if self.release is not None:
            put_release(connection, self.request.id, self.release)


# -- restoring, and setting the clock back ---------------------------------------------------------------------------


def restore_shards(connection: Connection, now: int) -> int | None:
    """Records that the store was restored to an earlier moment; returns until when controllers served it together.

    The restored store does not know which fences were given out since. So the next ones are taken from the seconds of
    `now`, and what was written under lesser ones begins anew when it is loaded. Runs within the caller's transaction.
    """
    least = max(0, now // 1000 - FENCES_SINCE_S)
    last = select(func.max(func.greatest(_shard.served_until, _controller.served_until)))
    served: int | None = connection.execute(last.select_from(_WITH_OWNERS).where(_shard.fence > 0)).scalar_one()
    connection.execute(update(schema.controller).where(_LIVES).values(ended_at=now))
    fence = func.greatest(_shard.fence + 1, least)
    bound = select(_controller.clock_bound).where(_controller.id == _shard.owner).scalar_subquery()
    restored_at = func.greatest(literal(now, BigInteger), _shard.clock_floor, bound)
    values = {"fence": fence, "restored_fence": fence, "restored_at": restored_at}
    connection.execute(update(schema.shard).where(_shard.fence > 0).values(values))
    connection.execute(_MOVE)
    return served


def rewind_shards(connection: Connection) -> tuple[int, int]:
    """Ends all controllers, and lets the clock of all shards begin at that of the store; returns this time, and by how
    much the clock was ahead of it, 0 if it was not: then nothing is changed.

    Served time continues where it was in each shard. Runs within the caller's transaction.
    """
    greatest = func.max(func.greatest(_shard.clock_floor, _controller.clock_bound))
    now, bound = connection.execute(select(STORE_NOW, greatest).select_from(_WITH_OWNERS).where(_shard.fence > 0)).one()
    if bound is None or bound <= now:
        return now, 0
    connection.execute(update(schema.controller).where(_LIVES).values(ended_at=now))
    former = _FORMER.where(_was.c.fence > 0).subquery("former")
    served_since = former.c.served - now
    values = {"owner": None, "served_until": now, "clock_floor": now, "unserved_ms": _shard.unserved_ms - served_since}
    connection.execute(update(schema.shard).where(_shard.id == former.c.id).values(values), {"now": now})
    connection.execute(_MOVE)
    return now, bound - now
