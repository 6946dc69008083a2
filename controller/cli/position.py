"""`strandline position`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller, marks_at
from controller.cli.options import json_option, key_option, moment, stream_argument, times_option
from controller.format import NOTHING, Times, fields, indented, offsets, yes
from controller.terminal import say


# A time may be negative, and is no option then.
@click.command(context_settings={"ignore_unknown_options": True})
@stream_argument
@click.argument(
    "time",
    type=moment,
    help="from when on: a whole number as notes have it, or a date such as 2026-01-31T12:00:00Z",
)
@key_option
@calls_controller
@json_option
@times_option
def command(client: ControllerClient, stream: str, time: int, key: str, as_json: bool, times: Times) -> None:
    """Show where a time lies in a stream: the position at which reading from that time begins."""
    around = client.run(marks_at(stream, key, time))
    found = around.value
    shown = fields(
        [
            ("position", offsets(found.start) or NOTHING),
            ("exact", yes(found.exact)),
            ("mark before", times.show(None if found.floor is None else found.floor.time)),
            ("mark after", times.show(None if found.ceiling is None else found.ceiling.time)),
        ]
    )
    say(indented(around.json) if as_json else "\n".join(shown))
