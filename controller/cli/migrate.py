"""`strandline migrate`."""

from __future__ import annotations

import click

from controller.cli.store import database_option, store_failures
from controller.terminal import say


@click.command
@database_option
def command(database: str) -> None:
    """Bring a store to the schema of this version. Stop the controllers that use it first."""
    with store_failures():
        from controller.storage.database import migrate, parse_url, shown

        before, after = migrate(database)
    done = f"is at {after} already" if before == after else f"went from {before or 'nothing'} to {after}"
    say(f"{shown(parse_url(database))} {done}")
