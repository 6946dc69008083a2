"""`strandline delete`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import confirm, group_option, json_option, name_of, one_of, yes_option
from controller.format import compact
from controller.terminal import say
from strandline.client.calls import delete_stream
from strandline.client.group_calls import delete_group


@click.command
@click.argument("stream", required=False, type=name_of("stream"), help="the stream")
@group_option
@yes_option
@calls_controller
@json_option
def command(client: ControllerClient, stream: str | None, group: str | None, yes: bool, as_json: bool) -> None:
    """Delete a stream with its writers, marks and journal, or a reader group with its positions. The log stays."""
    name, is_stream = one_of(stream, group)
    what = f"{name} with its writers, marks and journal" if is_stream else f"reader group {name} with its positions"
    confirm(f"Delete {what}? This cannot be undone.", yes=yes, for_good=True)
    client.run(delete_stream(name) if is_stream else delete_group(name))
    say(compact({"deleted": name}) if as_json else f"{name} is deleted")
