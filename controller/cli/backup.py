"""Write a store, as it is at one moment, to a file. A controller may go on serving it."""

from __future__ import annotations

import argparse
from pathlib import Path

from controller.cli.options import add_option
from controller.terminal import Failure, say

HELP = "write a store to a file"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, help="the backup, which must not be there yet")
    add_database(parser)


def add_database(parser: argparse.ArgumentParser) -> None:
    from controller.settings import DATABASE_DEFAULT

    wanted = "the store: a path, sqlite:///path, or postgresql://user@host/name"
    add_option(parser, "database", str, DATABASE_DEFAULT, wanted, "URL")


def run(options: argparse.Namespace) -> int:
    try:
        from controller.cli.check import fault_of
        from controller.storage.backup import back_up
        from controller.storage.database import parse_url
        from controller.storage.refusals import StoreRefused
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is not installed: pip install 'strandline[controller]'") from None
    try:
        back_up(options.database, options.file)
        parsed = parse_url(options.database)
        store = parsed.render_as_string(hide_password=True)
        # What pg_dump writes cannot be looked into, so it is the store that is.
        fault = fault_of(str(options.file) if parsed.get_backend_name() == "sqlite" else options.database)
    except StoreRefused as refused:
        raise Failure(str(refused)) from None
    say(f"{options.file} has {store}: {options.file.stat().st_size:,} bytes")
    if fault is not None:
        raise Failure(
            f"the store is damaged, and so is its backup: {fault}. See `strandline check`; keep earlier backups"
        )
    return 0
