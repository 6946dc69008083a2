"""Write a store, as it is at one moment, to a file. A controller may go on serving it."""

from __future__ import annotations

import argparse
from pathlib import Path

from controller.commands.options import Failure, add_option, say

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
        from controller.storage.backup import back_up
        from controller.storage.database import parse_url
        from controller.storage.refusals import StoreRefused
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is not installed: pip install 'strandline[controller]'") from None
    try:
        back_up(options.database, options.file)
        store = parse_url(options.database).render_as_string(hide_password=True)
    except StoreRefused as refused:
        raise Failure(str(refused)) from None
    say(f"{options.file} has {store}: {options.file.stat().st_size:,} bytes")
    return 0
