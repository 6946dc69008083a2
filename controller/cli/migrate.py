"""`strandline migrate`."""

from __future__ import annotations

from typing import Final

import click

from controller.cli.options import Whole, option
from controller.cli.store import database_option, store_failures
from controller.cluster.records import SHARDS
from controller.terminal import Failure, say

LEAST_SHARDS: Final = 64  # of a store that more than one controller serves
MOST_SHARDS: Final = 4_096  # the same, at most


@click.command
@database_option
@option("--before", is_flag=True, help="add what this version needs, while controllers of the version before serve")
@option("--after", is_flag=True, help="remove what the version before needed, once none of its controllers serves")
@option(
    "--shards",
    type=Whole(LEAST_SHARDS, MOST_SHARDS),
    help=f"of an empty PostgreSQL database: into how many shards streams are divided; {SHARDS} unless said",
    metavar="N",
)
def command(database: str, before: bool, after: bool, shards: int | None) -> None:
    """Bring a store to the schema of this version. Stop its controllers first, or replace them one by one.

    To replace them: --before, then the controllers, then --after. See docs/how-to/upgrade.md.
    """
    if before and after:
        raise Failure("--before and --after are two runs: the controllers are replaced between them")
    with store_failures():
        from controller.storage.database import MigrationPart, migrate
        from controller.storage.kinds import parse_url
        from controller.storage.refusals import shown

        part = MigrationPart.BEFORE if before else MigrationPart.AFTER if after else MigrationPart.ALL
        found, reached = migrate(database, part, shards)
    done = f"is at {reached} already" if found == reached else f"went from {found or 'nothing'} to {reached}"
    rest = "; replace the controllers one by one, then run `strandline migrate --after`" if before else ""
    say(f"{shown(parse_url(database))} {done}{rest}")
