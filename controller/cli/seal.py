"""`strandline seal`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller, seal
from controller.cli.exclude import change
from controller.cli.options import confirm, json_option, option, position, stream_argument, times_option, yes_option
from controller.format import Times


@click.command
@stream_argument
@option(
    "--final",
    type=position,
    default="",
    metavar="POSITION",
    show_default="where each segment was noted last",
    help="where segments end, as 0=5,1=7",
)
@yes_option
@calls_controller
@json_option
@times_option
def command(
    client: ControllerClient, stream: str, final: dict[str, int], yes: bool, as_json: bool, times: Times
) -> None:
    """End a stream for good: its writers are closed, it takes no more notes, and readers come to its end."""
    confirm(f"Seal {stream}? It takes no more notes after that, for good.", yes=yes, for_good=True)
    change(client, seal(stream, final), f"{stream} is sealed", as_json, times)
