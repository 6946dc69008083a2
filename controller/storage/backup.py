"""Writes backups of a store, and restores stores from them.

SQLite       a file with a snapshot of the store (`VACUUM INTO`); a controller may serve meanwhile
PostgreSQL   a file in pg_dump's custom format, also a snapshot

A restored store is older than what its writers and readers have seen. `heads.start_over` makes sure that no epoch is
given out twice, and that every earlier registration is fenced.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Connection, func, select

from controller.storage import schema, upgrade
from controller.storage.database import reading_only
from controller.storage.files import new_file
from controller.storage.heads import start_over
from controller.storage.kinds import kind_of, parse_url
from controller.storage.presence import check_nobody_serves
from controller.storage.refusals import NoBackup, WrongSchema, shown


@dataclass(frozen=True, slots=True)
class Restored:
    """The contents of a restored store. `served_until` is when it was last served, None if never."""

    streams: int
    groups: int
    served_until: int | None


def back_up(url: str, file: Path) -> str:
    """Writes a snapshot of the store to a new file; a controller may go on serving.

    Returns what shows whether the backup is whole: the file, or the store if such a file cannot be looked into. Raises
    StoreRefused, also if the file exists. An attempt that fails or is interrupted leaves no file of that name.
    """
    parsed = parse_url(url)
    _check_is_store(parsed)
    with new_file(file) as part:
        return str(file) if kind_of(parsed).back_up(parsed, part, file) else url


def _check_is_store(url: URL) -> None:
    """Raises WrongSchema for an empty database, and ForeignStore for another application's; older schemas are fine."""
    with reading_only(url) as connection:
        upgrade.check_ours(connection, shown(url))
        if upgrade.is_empty(connection):
            raise WrongSchema(found=None, wanted=schema.REVISION)


def restore(url: str, file: Path | None, now: int) -> Restored:
    """Makes a store from a backup. The store must not exist yet or, in PostgreSQL, must be empty.

    Without a file the store was restored in another way, and only gets its restore entry. `now` is the clock's time
    in milliseconds. Raises StoreRefused.
    """
    parsed = parse_url(url)
    if file is not None and not file.is_file():
        raise NoBackup(path=str(file), reason="the file does not exist")
    with kind_of(parsed).restored(parsed, file) as connection:
        check_nobody_serves(connection, shown(parsed))
        return _finish_restore(connection, now)


def _finish_restore(connection: Connection, now: int) -> Restored:
    served_until = start_over(connection, now)
    return Restored(
        streams=connection.execute(select(func.count()).select_from(schema.stream)).scalar_one(),
        groups=connection.execute(select(func.count()).select_from(schema.reader_group)).scalar_one(),
        served_until=served_until,
    )
