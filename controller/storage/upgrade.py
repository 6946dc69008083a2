"""Brings a store to the schema of this version, and tells whether it is there."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import Column, Connection, MetaData, PrimaryKeyConstraint, String, Table, insert, inspect, select

import migrations
from controller.storage import schema
from controller.storage.refusals import ForeignStore, WrongSchema

if TYPE_CHECKING:
    from alembic.config import Config

OURS: Final = frozenset({schema.served.name, schema.stream.name})  # a store of any revision has these tables

# Where Alembic keeps the revision. Importing Alembic takes longer than making a store: only a store that has steps to
# take needs it.
_version: Final = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def configuration(connection: Connection | None = None) -> Config:
    """What Alembic needs to know; the connection is the one to work on."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(migrations.__file__).parent))
    if connection is not None:
        config.attributes["connection"] = connection
    return config


def revision(connection: Connection) -> str | None:
    """The revision that the store is at, None for one that has no schema."""
    if not inspect(connection).has_table(_version.name):
        return None
    found = connection.scalars(select(_version.c.version_num)).all()
    return ", ".join(sorted(found)) or None  # more than one is the work of somebody's hand


def is_empty(connection: Connection) -> bool:
    """Whether the database has no tables at all."""
    return not inspect(connection).get_table_names()


def check_ours(connection: Connection, store: str) -> None:
    """Raises ForeignStore for a database that has tables of another application's, and not ours."""
    tables = inspect(connection).get_table_names()
    if tables and not OURS.issubset(tables):
        raise ForeignStore(store, sorted(tables))


def make(connection: Connection) -> None:
    """Gives an empty database the schema of this version, as all steps in turn would: a test compares the two."""
    schema.metadata.create_all(connection, checkfirst=False)
    _version.create(connection, checkfirst=False)
    connection.execute(insert(_version).values(version_num=schema.REVISION))


def upgrade(connection: Connection, to: str = "head") -> None:
    """Runs the steps that are missing, in the transaction that the connection is in.

    Raises WrongSchema for a store of a later version.
    """
    from alembic import command
    from alembic.util.exc import CommandError

    try:
        command.upgrade(configuration(connection), to)
    except CommandError as error:  # there is no way from a revision that this version does not know
        raise WrongSchema(revision(connection), schema.REVISION) from error


def check_now(connection: Connection) -> None:
    """As `check`, in a transaction of its own."""
    with connection.begin():
        check(connection)


def check(connection: Connection) -> None:
    """Raises WrongSchema unless the store is exactly at this version's revision."""
    found = revision(connection)
    if found != schema.REVISION:
        raise WrongSchema(found, schema.REVISION)
