"""Make a store from a backup. Without a file: the store was brought back in another way, and is made safe to serve."""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime
from pathlib import Path

from controller.cli.backup import add_database
from controller.terminal import Failure, say

HELP = "make a store from a backup"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", nargs="?", type=Path, help="the backup; none for a store that was brought back already")
    add_database(parser)


def run(options: argparse.Namespace) -> int:
    try:
        from controller.cli.check import fault_of
        from controller.storage.backup import restore
        from controller.storage.database import parse_url
        from controller.storage.refusals import StoreRefused
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is not installed: pip install 'strandline[controller]'") from None
    try:
        restored = restore(options.database, options.file, time.time_ns() // 1_000_000)
        store = parse_url(options.database).render_as_string(hide_password=True)
        fault = fault_of(options.database)
    except StoreRefused as refused:
        raise Failure(str(refused)) from None
    moment = "it was made, and never served"
    if restored.served_until is not None:
        moment = f"they were at {datetime.fromtimestamp(restored.served_until / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    say(f"{store} has {restored.streams} streams and {restored.groups} reader groups as {moment}")
    say("serve it; writers and readers that had registered have to register again: docs/how-to/backup.md says why")
    if fault is not None:
        raise Failure(f"the backup was damaged, and so is the store: {fault}. See `strandline check --database …`")
    return 0
