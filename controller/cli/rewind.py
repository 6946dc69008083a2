"""Set a store's clock back to the host's, where it ran ahead.

Set the host's clock right, and stop the controller, before that.
"""

from __future__ import annotations

import argparse
import sys
import time

from controller.cli.backup import add_database
from controller.cli.exclusion import confirmed
from controller.cli.options import add_flag
from controller.terminal import Failure, say

HELP = "set a store's clock back to the host's, where it ran ahead"


def add_options(parser: argparse.ArgumentParser) -> None:
    add_database(parser)
    add_flag(parser, "yes", "do not ask for confirmation")


def run(options: argparse.Namespace) -> int:
    try:
        from controller.format import Times, span
        from controller.storage.database import parse_url, set_clock_back, shown
        from controller.storage.refusals import StoreRefused
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is not installed: pip install 'strandline[controller]'") from None
    now = time.time_ns() // 1_000_000
    shows = Times().show(now)
    question = f"This host's clock shows {shows}. Is that right, and does no controller serve {options.database}?"
    if not options.yes and sys.stdin is not None and sys.stdin.isatty() and not confirmed(question):
        raise Failure("nothing was changed")
    try:
        rewound = set_clock_back(options.database, now)
        store = shown(parse_url(options.database))
    except StoreRefused as refused:
        raise Failure(str(refused)) from None
    if not rewound.by_ms:
        say(f"the clock of {store} is not ahead of this host's, which shows {shows}: nothing was changed")
    else:
        say(f"the clock of {store} was {span(rewound.by_ms)} ahead, in {rewound.streams} streams: it begins at {shows}")
    return 0
