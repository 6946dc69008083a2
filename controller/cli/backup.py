"""`strandline backup`."""

from __future__ import annotations

from pathlib import Path

import click

from controller.cli.store import database_option, store_failures
from controller.terminal import Failure, progress, say


@click.command
@click.argument("file", type=click.Path(path_type=Path), help="the backup, which must not exist yet")
@database_option
def command(file: Path, database: str) -> None:
    """Write a store, as it is at one moment, to a file. A controller may go on serving it."""
    with store_failures():
        from controller.cli.check import fault_of
        from controller.storage.backup import back_up
        from controller.storage.kinds import parse_url
        from controller.storage.refusals import shown

        with progress(lambda: "writing the backup"):
            written = back_up(database, file)
        fault = fault_of(written)
        store = shown(parse_url(database))
    say(f"{file} has {store}: {file.stat().st_size:,} bytes")
    if fault is not None:
        raise Failure(
            f"the store is damaged, and so is its backup: {fault}. See `strandline check`; keep earlier backups"
        )
