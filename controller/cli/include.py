"""`strandline include`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller, include
from controller.cli.exclude import change, writer_argument
from controller.cli.options import confirm, json_option, stream_argument, times_option, yes_option
from controller.format import Times


@click.command
@stream_argument
@writer_argument
@yes_option
@calls_controller
@json_option
@times_option
def command(client: ControllerClient, stream: str, writer: str, yes: bool, as_json: bool, times: Times) -> None:
    """Include a writer that was excluded: time waits for it again."""
    confirm(f"Include {writer} in {stream} again? Time then waits for it.", yes=yes)
    change(client, include(stream, writer), f"{writer} counts in {stream} again", as_json, times)
