"""`strandline rewind`."""

from __future__ import annotations

import time

import click

from controller.cli.options import confirm, yes_option
from controller.cli.store import database_option, store_failures
from controller.format import Times, span
from controller.terminal import say


@click.command
@database_option
@yes_option
def command(database: str, yes: bool) -> None:
    """Set a store's clock back to the host's, where it ran ahead.

    Set the host's clock right, and stop the controller, before that.
    """
    now = time.time_ns() // 1_000_000
    shows = Times().show(now)
    with store_failures():
        from controller.storage.database import parse_url, set_clock_back, shown

        confirm(f"This host's clock shows {shows}. Is that right, and does no controller serve {database}?", yes=yes)
        rewound = set_clock_back(database, now)
        store = shown(parse_url(database))
    if not rewound.by_ms:
        say(f"the clock of {store} is not ahead of this host's, which shows {shows}: nothing was changed")
    else:
        say(f"the clock of {store} was {span(rewound.by_ms)} ahead, in {rewound.streams} streams: it begins at {shows}")
