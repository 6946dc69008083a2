"""`strandline window`."""

from __future__ import annotations

from dataclasses import asdict

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import json_option, key_option, option, position, stream_argument, times_option
from controller.format import NOTHING, Times, fields, indented, yes
from controller.terminal import say
from strandline.client.calls import window_of


@click.command
@stream_argument
@option(
    "--position",
    type=position,
    required=True,
    metavar="POSITION",
    help='how far it was read, as 0=5,1=7 or {"0": 5}; {} is its beginning',
)
@key_option
@calls_controller
@json_option
@times_option
def command(
    client: ControllerClient, stream: str, position: dict[str, int], key: str, as_json: bool, times: Times
) -> None:
    """Show the time window at a position: everything older than its lower bound has been read."""
    window, identity = client.run(window_of(stream, position, key=key))
    shown = fields(
        [
            ("lower", times.show(window.lower)),
            ("upper", times.show(window.upper)),
            ("complete", yes(window.complete)),
            ("end of stream", yes(window.end_of_stream)),
            ("mark", NOTHING if window.mark_seq is None else str(window.mark_seq)),
        ]
    )
    say(indented({**asdict(window), "identity": identity}) if as_json else "\n".join(shown))
