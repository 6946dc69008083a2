"""Heads: one narrow row for each stream and reader group. Whoever writes it locks its head, and sees what others wrote.

    version, stamp     rises with each commit, and a random number of that commit
    structure          one more when a cache cannot follow by the log and the marks: then it is loaded whole
    clock, wake_at     the time of a stream, and a moment before which time alone does not change it
    journaled          the newest entry of its journal
    standing           what lists show of a stream (`records/standing.py`); whoever compares or locks heads reads none

Each commit adds to the log of a stream, with the version as the seq of the last row, and its stamp. So a cache that
compares the row of its own version notices that it is on another history: a fail-over or a restore lost commits, and
others took their numbers.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple, Self

from sqlalchemy import Connection, Select, and_, delete, or_, select, tuple_, update

from controller.storage import schema
from controller.storage.kinds import KINDS, kind_of
from controller.storage.rows import Query, Values, to_json
from controller.storage.subjects import Kind, Subject
from controller.storage.transaction import transaction
from strandline.core.served_time import Unserved

DUE_STREAMS: Final = 200  # found at a time
NEVER: Final = 2**62  # in place of a moment that never comes


class Head(NamedTuple):
    """A head as the store has it, or as it was when a cache was last equal to the store."""

    identity: str
    version: int
    stamp: int
    structure: int
    clock: int
    wake_at: int
    journaled: int
    restored_at: int | None  # set by a restore, until the next commit

    def differs(self, stored: Head | None) -> bool:
        """Whether a cache with this head lacks something that the store has, or has something that it lacks."""
        return stored is None or self[:4] != stored[:4] or self.restored_at != stored.restored_at

    def may_follow(self, stored: Head) -> bool:
        """Whether such a cache may take in what was stored since, instead of being loaded again."""
        same = self.identity == stored.identity and self.structure == stored.structure
        return same and self.version < stored.version and stored.restored_at is None

    def next(self, version: int, stamp: int, *, structural: bool, clock: int, wake_at: int, journaled: int) -> Self:
        """The head after a commit."""
        return self._replace(
            version=version,
            stamp=stamp,
            structure=self.structure + structural,
            clock=clock,
            wake_at=wake_at,
            journaled=journaled,
            restored_at=None,
        )


def new_head(identity: str, now: int) -> Head:
    """The head of something that is not stored yet."""
    return Head(identity, 0, 0, 0, now, NEVER, 0, None)


def new_stamp() -> int:
    return secrets.randbits(62)


def head_values(subject: Subject, head: Head, standing: str) -> Values:
    return {"kind": subject.kind.value, "name": subject.name, **head._asdict(), "standing": standing}


_head = schema.head.c
_service = schema.service.c
HEAD_COLUMNS: Final = tuple(_head[name] for name in Head._fields)


def _named(subjects: Iterable[Subject]) -> dict[str, str]:
    names: dict[Kind, list[str]] = {kind: [] for kind in Kind}
    for subject in subjects:
        names[subject.kind].append(subject.name)
    return {kind.value: to_json(of_kind) for kind, of_kind in names.items()}


@cache  # building a statement costs more than running it
def _comparing(database: str) -> Select[Any]:
    """Selects the heads of the parameters `group` and `stream`, which are lists of names as JSON."""
    among = KINDS[database].among
    named = [and_(_head.kind == kind.value, among(_head.name, kind.value)) for kind in Kind]
    return select(_head.kind, _head.name, *HEAD_COLUMNS).where(or_(*named))


@cache
def _locking(database: str) -> Select[Any]:
    """The same, and locks them in the order in which everybody does. With them it reads the service."""
    further = _service.served_until, _service.unserved_ms, KINDS[database].now
    query = _comparing(database).add_columns(*further).join(schema.service, _service.id == 1)
    return query.order_by(_head.kind, _head.name).with_for_update(key_share=True, of=schema.head)


class Service(NamedTuple):
    """Up to when the store was served, for how long it was not until then, and its clock if it has one."""

    served_until: int
    unserved_ms: int
    now: int | None


def compare(connection: Connection, subjects: Collection[Subject]) -> dict[Subject, Head]:
    """The heads of those subjects that exist. Runs within the caller's transaction."""
    rows = connection.execute(_comparing(connection.dialect.name), _named(subjects)).all()
    return {Subject(Kind(row[0]), row[1]): Head(*row[2:]) for row in rows}


def head_of(connection: Connection, subject: Subject) -> Head | None:
    return compare(connection, [subject]).get(subject)


def lock(connection: Connection, subjects: Collection[Subject]) -> tuple[dict[Subject, Head], Service]:
    """The same; nobody else writes them before the transaction ends."""
    return locked(connection, connection.execute(*locking(connection.dialect.name, subjects)).all())


def locking(database: str, subjects: Iterable[Subject]) -> Query:
    return _locking(database), _named(subjects)


def locked(connection: Connection, rows: Sequence[Any]) -> tuple[dict[Subject, Head], Service]:
    heads = {Subject(Kind(row[0]), row[1]): Head(*row[2:-3]) for row in rows}
    return heads, Service(*rows[0][-3:]) if rows else _read_service(connection)


def read_service(connection: Connection) -> Service:
    with connection.begin():
        return _read_service(connection)


def _read_service(connection: Connection) -> Service:
    now = kind_of(connection).now
    return Service(*connection.execute(select(_service.served_until, _service.unserved_ms, now)).one())


class DueStream(NamedTuple):
    """A stream that time alone changes, and when."""

    wake_at: int
    name: str


BEFORE_ALL: Final = DueStream(-NEVER, "")


@cache
def _standings(database: str) -> Select[Any]:
    query = select(_head.name, _head.standing).where(_head.kind == Kind.STREAM.value)
    return query.where(KINDS[database].among(_head.name, "names"))


def standings(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """How those of these streams stand that exist, as it is stored."""
    with connection.begin():
        rows = connection.execute(_standings(connection.dialect.name), {"names": to_json(list(names))})
        return {row.name: row.standing for row in rows}


def due_streams(connection: Connection, before: int, after: DueStream = BEFORE_ALL) -> list[DueStream]:
    """The first streams that time alone should have changed before a moment, or those that follow one of them."""
    order = _head.wake_at, _head.name
    query = select(*order).where(_head.kind == Kind.STREAM.value, _head.wake_at < before, tuple_(*order) > after)
    with connection.begin():
        rows = connection.execute(query.order_by(*order).limit(DUE_STREAMS)).all()
    return [DueStream(*row) for row in rows]


def serve(connection: Connection, now: int | None, *, by_hand: bool = False) -> Service:
    """Records that somebody serves at this moment, and returns that. Without `now` that is the store's clock. If the
    clock is moved by hand, there are no gaps."""
    with transaction(connection):
        found = _read_service(_locked_service(connection))
        moment = now if now is not None or found.now is None else found.now
        assert moment is not None
        unserved = Unserved(found.unserved_ms, found.served_until or moment)  # 0: nobody has served it yet
        if by_hand:
            unserved.until = max(moment, found.served_until)
        else:
            unserved.serve(moment)
        connection.execute(update(schema.service).values(served_until=unserved.until, unserved_ms=unserved.total_ms))
    assert unserved.until is not None
    return Service(unserved.until, unserved.total_ms, found.now)


def touch(connection: Connection) -> None:
    """Changes no value, but is a write like any other. Runs within the caller's transaction."""
    connection.execute(update(schema.service).values(served_until=_service.served_until))


def _locked_service(connection: Connection) -> Connection:
    connection.execute(select(_service.id).with_for_update())
    return connection


def start_over(connection: Connection, now: int) -> int | None:
    """Records that the store was restored to an earlier moment; returns when it was last served, None if never.

    The restored store does not have which epochs were given out since, also after an earlier restore of the same
    backup. So epochs continue from the milliseconds of `now` with the next commit of each stream and group. Other
    stamps show every cache that it is on another history.
    """
    stamped = {"stamp": new_stamp(), "structure": _head.structure + 1, "restored_at": now}
    connection.execute(update(schema.head).values(stamped))
    connection.execute(delete(schema.controller))  # who served then is not missing now
    connection.execute(update(schema.service).values(restored_at=now))
    return connection.execute(select(_service.served_until)).scalar_one() or None
