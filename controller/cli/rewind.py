"""`strandline rewind`."""

from __future__ import annotations

import time

import click

from controller.cli.options import confirm, yes_option
from controller.cli.store import database_option, store_failures
from controller.terminal import say
from controller.wording import Times, span


@click.command
@database_option
@yes_option
def command(database: str, yes: bool) -> None:
    """Set a store's clock back to the host's, where it ran ahead.

    Where several controllers serve the store, its clock is that of the database server. Set the clock right, and stop
    the controllers, before that.
    """
    now = time.time_ns() // 1_000_000
    with store_failures():
        from controller.storage.database import set_clock_back
        from controller.storage.kinds import parse_url
        from controller.storage.refusals import shown

        store = shown(parse_url(database))
        confirm(
            f"This host's clock shows {Times().show(now)}. Is that right, is the database server's clock right, and "
            f"does no controller serve {store}?",
            yes=yes,
        )
        rewound = set_clock_back(database, now)
    shows = Times().show(rewound.to)
    if not rewound.by_ms:
        say(f"the clock of {store} is not ahead of {shows}: nothing was changed")
    else:
        say(f"the clock of {store} was {span(rewound.by_ms)} ahead, in {rewound.streams} streams: it begins at {shows}")
