"""Reader groups as rows and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, Table, select

from controller.storage import schema
from controller.storage.heads import Head, head_of
from controller.storage.rows import AnyRow, Values, to_json
from controller.storage.subjects import Kind, Subject
from controller.storage.unreadable import check_name_of, decoded
from strandline.access import EVERYTHING
from strandline.wire.groups import Aside


class Held(msgspec.Struct, frozen=True):
    """By key, the watermark that a group reported, where its streams now show a lesser one; and by stream, without whom
    a watermark was reported that the stream has not passed."""

    watermarks: dict[str, int] = {}
    aside: dict[str, Aside] = {}


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A reader group as the store has it."""

    name: str
    settings: dict[str, Any]
    identities: dict[str, str]  # of its streams, when it began to read them
    epochs: int
    caught_up: bool
    created_at: int
    head: Head
    readers: dict[str, tuple[int, int, int, str | None]]  # epoch, heard_at, served_at, registration
    offsets: dict[tuple[str, str], int]
    unsettled: dict[tuple[str, str], int]  # the settled offset, if it is below the one that was read
    owners: dict[tuple[str, str], str]
    held: Held


def group_values(
    name: str,
    settings: dict[str, Any],
    identities: dict[str, str],
    epochs: int,
    caught_up: bool,
    held: Held,
    created_at: int,
) -> Values:
    return {
        "name": name,
        "settings": to_json(settings),
        "identities": to_json(identities),
        "epochs": epochs,
        "caught_up": caught_up,
        "created_at": created_at,
        "held": to_json(held) if held.watermarks or held.aside else None,
    }


def load_group(connection: Connection, name: str) -> StoredGroup | None:
    """Loads a group by its name; None if it does not exist."""
    with connection.begin():
        return group_of_rows(connection, name)


def group_of_rows(connection: Connection, name: str) -> StoredGroup | None:
    """The same within the caller's transaction."""
    group, reader, place = schema.reader_group, schema.reader, schema.reader_position
    row = connection.execute(select(group).where(group.c.name == name)).one_or_none()
    head = head_of(connection, Subject(Kind.GROUP, name))
    if row is None or head is None:
        return None
    settings, identities, held = decoded(group, row, parts_of)
    readers = _all_of(connection, reader, reader.c.group == name)
    places = _all_of(connection, place, place.c.group == name)
    return StoredGroup(
        name=name,
        settings=settings,
        identities=identities,
        epochs=row.epochs,
        caught_up=row.caught_up,
        created_at=row.created_at,
        head=head,
        readers={each.name: (each.epoch, each.heard_at, each.served_at, each.registration) for each in readers},
        offsets={(each.stream, each.segment): each.offset for each in places},
        unsettled={(each.stream, each.segment): each.settled for each in places if each.settled is not None},
        owners={(each.stream, each.segment): each.reader for each in places if each.reader is not None},
        held=held,
    )


def group_streams(connection: Connection, after: str, limit: int) -> dict[str, list[str]]:
    """The names that follow `after`, in order, each with the streams that the group reads.

    Where they cannot be read it gets EVERYTHING, so that only callers who may read all streams see it.
    """
    name = schema.reader_group.c.name
    return _streams_by_name(connection, select(schema.reader_group).where(name > after).order_by(name).limit(limit))


def streams_of_groups(connection: Connection, names: Sequence[str]) -> dict[str, list[str]]:
    """The same of those groups that there are of these names."""
    return _streams_by_name(connection, select(schema.reader_group).where(schema.reader_group.c.name.in_(names)))


def _streams_by_name(connection: Connection, groups: Select[Any]) -> dict[str, list[str]]:
    with connection.begin():
        rows = connection.execute(groups).all()
    for row in rows:
        check_name_of(schema.reader_group, row.name)
    return {row.name: _streams_of(row) for row in rows}


class _Streams(msgspec.Struct):
    streams: list[str]


def _streams_of(row: AnyRow) -> list[str]:
    try:
        return msgspec.json.decode(row.settings, type=_Streams).streams
    except (ValueError, TypeError):
        return [EVERYTHING]


def _all_of(connection: Connection, table: Table, of_group: ColumnElement[bool]) -> list[Any]:
    """The rows of a group in a table, as they may be."""
    return [decoded(table, row, lambda each: each) for row in connection.execute(select(table).where(of_group))]


def parts_of(row: AnyRow) -> tuple[dict[str, Any], dict[str, str], Held]:
    """The settings of a group, the identities of its streams, and the watermarks that it holds."""
    held = msgspec.json.decode(row.held, type=Held) if row.held is not None else Held()
    identities = msgspec.json.decode(row.identities, type=dict[str, str])
    return msgspec.json.decode(row.settings, type=dict[str, Any]), identities, held


def groups_with(connection: Connection, stream: str) -> Sequence[str]:
    """The groups whose settings name a stream."""
    table = schema.reader_group
    query = select(table).where(table.c.settings.contains(to_json(stream), autoescape=True)).order_by(table.c.name)
    with connection.begin():
        return [row.name for row in connection.execute(query) if stream in _streams_of(row)]


def groups_that_read(connection: Connection, stream: str) -> Sequence[str]:
    """The groups that have a position in a stream."""
    place = schema.reader_position
    query = select(place.c.group).where(place.c.stream == stream).distinct().order_by(place.c.group)
    with connection.begin():
        return connection.execute(query).scalars().all()
