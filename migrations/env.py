"""Run by Alembic: over the connection of `strandline migrate`, or over one of its own to STRANDLINE_DATABASE.

STRANDLINE_DATABASE=postgresql://strandline@db.example/strandline alembic upgrade head
"""

import os

from alembic import context
from alembic.util import CommandError
from sqlalchemy import Connection

from controller.storage.database import migrating
from controller.storage.refusals import StoreRefused
from controller.storage.schema import metadata


def run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=True,  # SQLite cannot alter most things in place
    )
    with context.begin_transaction():
        context.run_migrations()


given = context.config.attributes.get("connection")
database = os.environ.get("STRANDLINE_DATABASE")
if given is not None:
    run(given)
elif database is None:
    raise CommandError("set STRANDLINE_DATABASE to the URL of the store, or to the path of an SQLite file")
elif context.is_offline_mode():
    raise CommandError("--sql is not for stores: a revision may read what it changes")
else:
    try:
        with migrating(database) as connection:
            run(connection)
    except StoreRefused as error:
        raise CommandError(str(error)) from None
