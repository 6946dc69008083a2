"""`strandline truncate`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller, truncate
from controller.cli.options import confirm, json_option, option, position, stream_argument, yes_option
from controller.format import indented, offsets
from controller.terminal import say


@click.command
@stream_argument
@option("--head", type=position, required=True, metavar="POSITION", help="where the log begins now, as 0=5,1=7")
@yes_option
@calls_controller
@json_option
def command(client: ControllerClient, stream: str, head: dict[str, int], yes: bool, as_json: bool) -> None:
    """Tell a stream that its log has removed the events below a position. Marks that lie wholly below it are pruned."""
    confirm(f"Truncate {stream} at {offsets(head)}? Marks below are removed for good.", yes=yes, for_good=True)
    truncated = client.run(truncate(stream, head))
    say(indented(truncated.json) if as_json else f"{stream} begins at {offsets(truncated.value.head)}")
