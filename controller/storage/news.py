"""What others stored since a cache was equal to the store."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Select, and_, func, select

from controller.storage import schema
from controller.storage.groups import StoredGroup, group_of_rows
from controller.storage.heads import Head, Service, compare, lock, locked, locking
from controller.storage.kinds import KINDS, kind_of
from controller.storage.load import StreamRow, epochs_before, stream_of
from controller.storage.marks import MarksSince, marks_since, since_of
from controller.storage.rows import AnyRow, Query, by_stream, to_json
from controller.storage.subjects import Kind, Subject
from controller.storage.unreadable import decoded
from controller.storage.writer_states import StoredChange, changes_since, log_of
from strandline.errors import StoreCorrupt

# A cache of a stream that is further behind is loaded whole: others wait while it follows under the lock.
FOLLOWED_COMMITS: Final = 128
FOLLOWED_STATES: Final = 4_000  # of writers, in these commits


class Known(NamedTuple):
    """What a cache has: its head, and of a stream the seq of the newest mark by key."""

    head: Head
    newest: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class StreamNews:
    """What a cache of a stream takes in."""

    head: Head
    changes: list[StoredChange]  # of the log, from the version of the cache on
    first_seq: int  # of the rows that the log still has
    since: MarksSince
    epochs: int
    row: StreamRow
    standing: str


@dataclass(slots=True)
class Found:
    """Heads as the store has them, and what caches lack. An `outdated` cache must be loaded again."""

    heads: dict[Subject, Head]
    service: Service | None = None
    streams: dict[str, StreamNews] = field(default_factory=dict)
    groups: dict[str, StoredGroup] = field(default_factory=dict)
    outdated: set[Subject] = field(default_factory=set)
    epochs: dict[Subject, int] = field(default_factory=dict)  # of those that do not exist and are to be created


def look(connection: Connection, known: Mapping[Subject, Known]) -> Found:
    """Compares caches with the store."""
    with connection.begin():
        found = Found(compare(connection, known.keys()))
        behind = _compared(connection, found, known)
        rows = _news(connection, behind)
    return _decoded(found, behind, rows)


def lock_and_look(
    connection: Connection,
    subjects: Collection[Subject],
    known: Mapping[Subject, Known],
    creating: Collection[Subject],
    *,
    at_once: bool = False,
) -> Callable[[], Found]:
    """Locks subjects until the transaction of the connection ends, and compares those of which there are caches.

    `at_once` is for when others have probably written them: then the rows that caches lack are read in the same round
    trip, by statements that follow the lock. One statement would see them as they were before it waited for the lock.

    What is returned decodes what was found, in any thread: in that of the store, which would have to wait for the
    interpreter, it would make others wait for the rows.
    """
    kind = kind_of(connection)
    if creating:
        kind.reserve(connection, [f"{each.kind}/{each.name}" for each in creating])
    streams = {subject.name: each for subject, each in known.items() if subject.kind is Kind.STREAM and at_once}
    queries = [locking(kind.name, subjects), *(_selecting(kind.name, streams) if streams else ())]
    heads, *rows = kind.select_all(connection, queries)
    found = Found(*locked(connection, heads))
    behind = _compared(connection, found, known)
    for subject in creating:
        if subject not in found.heads:
            found.epochs[subject] = epochs_before(connection, subject)
    return partial(_decoded, found, behind, rows or _news(connection, behind))


def was_committed(connection: Connection, versions: Mapping[Subject, int], stamp: int) -> bool | None:
    """Whether the commit with a stamp, which gave these versions, is durable; None if that cannot be told. Locks its
    streams and groups, and so waits for a session in which it may still be under way."""
    heads, _ = lock(connection, versions.keys())
    for subject, head in heads.items():
        version = versions[subject]
        if head.version <= version:
            return head.stamp == stamp
        if subject.kind is Kind.STREAM:  # others have written it since
            of_version = _change.stream == subject.name, _change.seq == version
            found = connection.execute(select(_change.stamp).where(*of_version)).scalar_one_or_none()
            if found is not None:
                return bool(found == stamp)
    return None  # a group has no log, and what was deleted has no head


_head, _change = schema.head.c, schema.writer_change.c


@cache  # building a statement costs more than running it
def _rows_of(database: str) -> Select[Any]:
    """Selects the rows of streams with how they stand, and the seq of the oldest row that the log of each still has."""
    first_seq = select(func.min(_change.seq)).where(_change.stream == schema.stream.c.name).scalar_subquery()
    query = select(schema.stream, _head.standing, first_seq.label("first_seq"))
    query = query.join(schema.head, and_(_head.kind == Kind.STREAM.value, _head.name == schema.stream.c.name))
    return query.where(KINDS[database].among(schema.stream.c.name, "names"))


def _compared(connection: Connection, found: Found, known: Mapping[Subject, Known]) -> dict[str, Known]:
    """Finds which caches are outdated, and what those of groups lack. Returns those of streams that lack something."""
    behind: dict[str, Known] = {}
    for subject, (head, newest) in known.items():
        stored = found.heads.get(subject)
        if not head.differs(stored):
            continue
        if stored is None or not head.may_follow(stored):
            found.outdated.add(subject)
        elif subject.kind is Kind.GROUP:
            try:
                group = group_of_rows(connection, subject.name)
            except StoreCorrupt:  # the next load raises it, for its own callers
                group = None
            if group is None:
                found.outdated.add(subject)
            else:
                found.groups[subject.name] = group
        elif stored.version - head.version > FOLLOWED_COMMITS:
            found.outdated.add(subject)
        else:
            behind[subject.name] = Known(head, newest)
    return behind


def _selecting(database: str, behind: Mapping[str, Known]) -> list[Query]:
    return [
        changes_since(database, {name: each.head.version for name, each in behind.items()}),
        marks_since(database, {name: each.newest for name, each in behind.items()}),
        (_rows_of(database), {"names": to_json(list(behind))}),
    ]


def _news(connection: Connection, behind: Mapping[str, Known]) -> list[Sequence[AnyRow]]:
    kind = kind_of(connection)
    return kind.select_all(connection, _selecting(kind.name, behind)) if behind else []


def _decoded(found: Found, behind: Mapping[str, Known], rows: Sequence[Sequence[AnyRow]]) -> Found:
    """Adds what caches of streams lack. Without lost commits the log has the row of each one's version, with its stamp.
    `rows` may be of further streams."""
    if not behind:
        return found
    changes, marks, streams = map(by_stream, rows, ("stream", "known_stream", "name"))
    for name, each in behind.items():
        subject = Subject(Kind.STREAM, name)
        head = found.heads[subject]
        try:
            log = log_of(changes[name])
            whole = bool(log) and (log[0].seq, log[0].stamp, log[-1].seq) == (*each.head[1:3], head.version)
            if not (whole and streams[name]) or sum(len(it.writers) for it in log[1:]) > FOLLOWED_STATES:
                found.outdated.add(subject)
                continue
            (row,) = streams[name]
            found.streams[name] = StreamNews(
                head=head,
                changes=log[1:],
                first_seq=row.first_seq,
                since=since_of(marks[name]),
                epochs=row.epochs,
                row=decoded(schema.stream, row, stream_of),
                standing=row.standing,
            )
        except StoreCorrupt:  # the next load raises it, for its own callers
            found.outdated.add(subject)
    return found
