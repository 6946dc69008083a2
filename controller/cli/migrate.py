"""Bring a store to the schema of this version. Stop the controllers that use it first."""

from __future__ import annotations

import argparse

from controller.cli.options import add_option
from controller.terminal import Failure, say

HELP = "bring a store to the schema of this version"


def add_options(parser: argparse.ArgumentParser) -> None:
    from controller.settings import DATABASE_DEFAULT

    add_option(
        parser,
        "database",
        str,
        DATABASE_DEFAULT,
        "the store: a path, sqlite:///path, or postgresql://user@host/name",
        "URL",
    )


def run(options: argparse.Namespace) -> int:
    try:
        from controller.storage.database import migrate, parse_url, shown
        from controller.storage.refusals import StoreRefused
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is not installed: pip install 'strandline[controller]'") from None
    try:
        before, after = migrate(options.database)
    except StoreRefused as refused:
        raise Failure(str(refused)) from None
    told = f"is at {after} already" if before == after else f"went from {before or 'nothing'} to {after}"
    say(f"{shown(parse_url(options.database))} {told}")
    return 0
