"""Migrates a store to the schema of this version, and checks which schema it has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import (
    Column,
    Connection,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    delete,
    insert,
    inspect,
    select,
)

from controller.storage import schema
from controller.storage.refusals import ForeignStore, WrongSchema
from controller.storage.schema import REVISION

if TYPE_CHECKING:
    from alembic.config import Config

OURS: Final = frozenset({schema.service.name, schema.stream.name})  # a store of any revision has these tables
SCRIPTS: Final = next(  # which Alembic reads by their path; nothing imports them
    folder for parent in Path(__file__).parents[1:] if (folder := parent / "migrations").is_dir()
)

# Where Alembic keeps the revision. Alembic itself is imported only to run migrations: that takes longer than creating
# a store.
_version: Final = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)


def configuration(connection: Connection | None = None) -> Config:
    """Alembic's configuration; `connection` is the one that it migrates."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(SCRIPTS))
    if connection is not None:
        config.attributes["connection"] = connection
    return config


def revision(connection: Connection) -> str | None:
    """The store's revision, None if it has no schema."""
    if not {*OURS, _version.name}.issubset(inspect(connection).get_table_names()):
        return None
    found = connection.scalars(select(_version.c.version_num)).all()
    return ", ".join(sorted(found)) or None  # more than one only if changed by hand


def is_empty(connection: Connection) -> bool:
    """Whether the database has no tables, but for that of Alembic, which it leaves when it has stepped down."""
    return not _others(connection)


def _others(connection: Connection) -> list[str]:
    """The tables, if they are not Alembic's own, with no revision or this one."""
    tables = inspect(connection).get_table_names()
    if tables == [_version.name]:
        return tables if set(connection.scalars(select(_version.c.version_num))) - {REVISION} else []
    return sorted(tables)


def check_ours(connection: Connection, store: str) -> None:
    """Raises ForeignStore for a database that has tables, but not Strandline's."""
    tables = _others(connection)
    if tables and not OURS.issubset(tables):
        raise ForeignStore(store=store, tables=tables)


def check_now(connection: Connection) -> None:
    """The same as `check`, in a transaction of its own."""
    with connection.begin():
        check(connection)


def check(connection: Connection) -> None:
    """Raises WrongSchema unless the store has the schema of this version."""
    found = revision(connection)
    if found != REVISION:
        raise WrongSchema(found=found, wanted=REVISION)


# -- changing the schema -----------------------------------------------------------------------------------------


def make(connection: Connection) -> None:
    """Creates this version's schema in an empty database, as the migrations do."""
    schema.metadata.create_all(connection, checkfirst=False)
    connection.execute(insert(schema.service).values(schema.NOT_SERVED))
    _version.create(connection, checkfirst=True)
    connection.execute(delete(_version))
    connection.execute(insert(_version).values(version_num=REVISION))


def upgrade(connection: Connection, to: str = "head") -> None:
    """Runs the missing migrations, in the transaction of the connection.

    Raises WrongSchema for a store of a later version.
    """
    from alembic import command
    from alembic.util.exc import CommandError

    try:
        command.upgrade(configuration(connection), to)
    except CommandError as error:  # this version does not have the store's revision
        raise WrongSchema(found=revision(connection), wanted=REVISION) from error
