"""Migrates a store to the schema of this version, and checks which schema it has.

A version serves the revisions of the schema from LEAST_REVISION to REVISION. It also serves a later one, as long as the
store says that nothing was removed which this version needs (`cluster.code_from`). So controllers can be replaced one
by one: the steps that only add are taken before, and those that remove are taken after.
"""

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
    func,
    insert,
    inspect,
    select,
    update,
)

from controller.storage import schema
from controller.storage.postgresql import STORE_NOW
from controller.storage.refusals import ForeignStore, ServedByOlder, StepsInTheWay, WrongSchema
from controller.storage.schema import LEAST_REVISION, REVISION
from controller.storage.shards import add_shards

if TYPE_CHECKING:
    from alembic.config import Config

OURS: Final = frozenset({schema.served.name, schema.stream.name})  # a store of any revision has these tables
SCRIPTS: Final = Path(__file__).with_name("migrations")  # which Alembic reads by their path; nothing imports them
ONLY_ADDS: Final = "only_adds"  # the name in a step that says so

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
    if not inspect(connection).has_table(_version.name):
        return None
    found = connection.scalars(select(_version.c.version_num)).all()
    return ", ".join(sorted(found)) or None  # more than one only if changed by hand


def is_empty(connection: Connection) -> bool:
    """Whether the database has no tables at all."""
    return not inspect(connection).get_table_names()


def one_at_a_time(connection: Connection) -> None:
    """PostgreSQL: waits until nobody else creates or changes the schema, and lets nobody begin to before this
    transaction ends."""
    connection.execute(select(func.pg_advisory_xact_lock(func.hashtext("schema"), 1)))


def none_meanwhile(connection: Connection) -> None:
    """PostgreSQL: waits until nobody changes the schema, and lets nobody begin to before this transaction ends."""
    connection.execute(select(func.pg_advisory_xact_lock_shared(func.hashtext("schema"), 1)))


def check_ours(connection: Connection, store: str) -> None:
    """Raises ForeignStore for a database that has tables, but not Strandline's."""
    tables = inspect(connection).get_table_names()
    if tables and not OURS.issubset(tables):
        raise ForeignStore(store, sorted(tables))


def check_now(connection: Connection) -> None:
    """The same as `check`, in a transaction of its own."""
    with connection.begin():
        check(connection)


def check(connection: Connection) -> None:
    """Raises WrongSchema unless this version can serve the store."""
    found = revision(connection)
    if found is None or found < LEAST_REVISION or (found > REVISION and _code_from(connection) > REVISION):
        raise WrongSchema(found, LEAST_REVISION, REVISION)


def _code_from(connection: Connection) -> str:
    """The revision that a version must know to serve this store, which has the table that says so."""
    found: str = connection.execute(select(schema.cluster.c.code_from)).scalar_one()
    return found


# -- changing the schema -----------------------------------------------------------------------------------------


def make(connection: Connection, shards: int) -> None:
    """Creates this version's schema in an empty database. The migrations build the same; a test compares them."""
    schema.metadata.create_all(connection, checkfirst=False)
    add_shards(connection, shards, REVISION)
    _version.create(connection, checkfirst=False)
    connection.execute(insert(_version).values(version_num=REVISION))


def upgrade(connection: Connection, to: str = "head") -> None:
    """Runs the missing migrations, in the transaction of the connection.

    Raises WrongSchema for a store of a later version.
    """
    from alembic import command
    from alembic.util.exc import CommandError

    try:
        command.upgrade(configuration(connection), to)
    except CommandError as error:  # this version does not know the store's revision
        raise WrongSchema(revision(connection), LEAST_REVISION, REVISION) from error


def add(connection: Connection, found: str) -> None:
    """Takes the steps that a store at the revision `found` lacks, up to the first one that does not only add.

    Whoever may serve the store now may do so afterwards. Raises StepsInTheWay if that is not enough for this version.
    """
    to = found if found == REVISION else _additions(found)
    if to < LEAST_REVISION:
        raise StepsInTheWay(found, LEAST_REVISION)
    may_serve = _code_from(connection) if inspect(connection).has_table(schema.cluster.name) else found
    if to != found:
        upgrade(connection, to)
    _let_serve_from(connection, may_serve)


def finish(connection: Connection) -> None:
    """Takes all steps that the store lacks. From then on only versions that know all of them can serve it."""
    if revision(connection) != REVISION:
        upgrade(connection)
    _let_serve_from(connection, REVISION)


def end_all(connection: Connection) -> None:
    """PostgreSQL: ends the rows of all controllers. Whoever comes back begins anew, and its version is checked then."""
    table = schema.controller
    if inspect(connection).has_table(table.name):
        connection.execute(update(table).where(table.c.ended_at.is_(None)).values(ended_at=STORE_NOW))


def check_all_know(connection: Connection) -> None:
    """Raises ServedByOlder if a controller that serves the store together with others does not know REVISION."""
    table = schema.controller
    if not inspect(connection).has_table(table.name):
        return  # nobody can serve it together with others yet
    older = select(table.c.name).where(table.c.ended_at.is_(None), table.c.revision < REVISION).order_by(table.c.name)
    names = connection.execute(older).scalars().all()
    if names:
        raise ServedByOlder(names)


def _additions(found: str) -> str:
    """The last revision that can be reached by steps that only add."""
    from alembic.script import ScriptDirectory
    from alembic.util.exc import CommandError

    try:
        steps = list(ScriptDirectory.from_config(configuration()).iterate_revisions("head", found))[::-1]
    except CommandError as error:
        raise WrongSchema(found, LEAST_REVISION, REVISION) from error
    last = found
    for step in steps:
        if not getattr(step.module, ONLY_ADDS, False):
            break
        last = step.revision
    return last


def _let_serve_from(connection: Connection, code_from: str) -> None:
    connection.execute(update(schema.cluster).values(code_from=code_from))
