"""Brings a store to the schema of this version, and tells whether it is there."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, inspect

import migrations
from controller.storage import schema
from controller.storage.refusals import ForeignStore, WrongSchema

OURS: Final = frozenset({schema.served.name, schema.stream.name})  # a store of any revision has these tables


def configuration(connection: Connection | None = None) -> Config:
    """What Alembic needs to know; the connection is the one to work on."""
    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    if connection is not None:
        config.attributes["connection"] = connection
    return config


@cache
def newest_revision() -> str:
    """The revision that this version of the controller needs."""
    head = ScriptDirectory.from_config(configuration()).get_current_head()
    assert head is not None, "the wheel lacks its migrations"
    return head


def revision(connection: Connection) -> str | None:
    """The revision that the store is at, None for one that was never upgraded."""
    return MigrationContext.configure(connection).get_current_revision()


def is_empty(connection: Connection) -> bool:
    """Whether the database has no tables at all."""
    return not inspect(connection).get_table_names()


def check_ours(connection: Connection, store: str) -> None:
    """Raises ForeignStore for a database that has tables of another application's, and not ours."""
    tables = inspect(connection).get_table_names()
    if tables and not OURS.issubset(tables):
        raise ForeignStore(store, sorted(tables))


def upgrade(connection: Connection, to: str = "head") -> None:
    """Runs the steps that are missing, in the transaction that the connection is in.

    Raises WrongSchema for a store of a later version.
    """
    try:
        command.upgrade(configuration(connection), to)
    except CommandError as error:  # there is no way from a revision that this version does not know
        raise WrongSchema(revision(connection), newest_revision()) from error


def check_now(connection: Connection) -> None:
    """As `check`, in a transaction of its own."""
    with connection.begin():
        check(connection)


def check(connection: Connection) -> None:
    """Raises WrongSchema unless the store is exactly at this version's revision."""
    found, wanted = revision(connection), newest_revision()
    if found != wanted:
        raise WrongSchema(found, wanted)
