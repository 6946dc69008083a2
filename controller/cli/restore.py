"""`strandline restore`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from controller.cli.store import database_option, store_failures
from controller.operators.wording import Times
from controller.terminal import Failure, progress, say


@click.command
@click.argument(
    "file",
    required=False,
    type=click.Path(path_type=Path),
    help="the backup; none for a store that was brought back already",
)
@database_option
def command(file: Path | None, database: str) -> None:
    """Make a store from a backup.

    Without a file: the store was brought back in another way, and is made safe to serve.
    """
    with store_failures():
        from controller.cli.check import fault_of
        from controller.storage.backup import restore
        from controller.storage.kinds import parse_url
        from controller.storage.refusals import shown

        with progress(lambda: "restoring"):
            restored = restore(database, file, time.time_ns() // 1_000_000)
        store = shown(parse_url(database))
        fault = fault_of(database)
    moment = "it was made, and never served"
    if restored.served_until is not None:
        moment = f"they were at {Times().show(restored.served_until)}"
    say(f"{store} has {restored.streams} streams and {restored.groups} reader groups as {moment}")
    say("serve it; writers and readers that had registered have to register again: see docs/how-to/backup.md")
    if fault is not None:
        raise Failure(f"the backup was damaged, and so is the store: {fault}. See `strandline check --database …`")
