"""`strandline overview`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import json_option, option, times_option
from controller.cli.stream_table import all_lines, ask_streams, frame, rows
from controller.terminal import say
from controller.wording import Times, indented
from strandline.limits import PAGE_ENTRIES


@click.command
@option("--trouble", is_flag=True, help="only streams in trouble")
@calls_controller
@json_option
@times_option
def command(client: ControllerClient, trouble: bool, as_json: bool, times: Times) -> None:
    """Show all streams once, those in trouble first: their time, its lag, and which writer holds it back."""
    seen = ask_streams(client, limit=PAGE_ENTRIES, trouble=trouble)
    if as_json:
        say(indented(frame(seen)))
        return
    lines = all_lines(seen, times)
    say(*(rows(lines) or ["no stream is in trouble" if trouble else "there is no stream yet"]))
    if seen.known > len(seen.names):
        say(f"and {seen.known - len(seen.names)} more: `strandline streams NAME` shows one")
    if seen.partial:
        say("the controller could not read the status of all streams, and more may be in trouble")
