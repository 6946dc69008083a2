"""`strandline migrate`."""

from __future__ import annotations

import click

from controller.cli.store import database_option, store_failures
from controller.terminal import progress, say


@click.command
@database_option
def command(database: str) -> None:
    """Bring a store to the schema of this version. Stop its controllers first, see docs/how-to/upgrade.md."""
    with store_failures():
        from controller.storage.database import migrate
        from controller.storage.kinds import parse_url
        from controller.storage.refusals import shown

        with progress(lambda: "migrating, in one transaction"):
            found, reached = migrate(database)
    done = f"is at {reached} already" if found == reached else f"went from {found or 'nothing'} to {reached}"
    say(f"{shown(parse_url(database))} {done}")
