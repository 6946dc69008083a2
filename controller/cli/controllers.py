"""`strandline controllers`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller, controllers
from controller.cli.options import json_option, times_option
from controller.cli.screen import table
from controller.format import NOTHING, Times, indented, span
from controller.terminal import say
from strandline.wire.controllers import ControllerReply


@click.command
@calls_controller
@json_option
@times_option
def command(client: ControllerClient, as_json: bool, times: Times) -> None:
    """List the controllers that serve the store: since when, how many shards, and how old their last beat is."""
    found = client.run(controllers())
    if as_json:
        say(indented(found.json))
        return
    header = ("controller", "state", "since", "shards", "last beat", "version", "address", "for clients")
    say("\n".join(table(header, [_row(each, times) for each in found.value.controllers])))


def _row(each: ControllerReply, times: Times) -> tuple[str, ...]:
    return (
        each.name or "alone",
        each.state.replace("_", " "),
        times.show(each.since),
        NOTHING if each.shards is None else str(each.shards),
        NOTHING if each.beat_age_ms is None else f"{span(each.beat_age_ms)} ago",
        each.version,
        each.address or NOTHING,
        each.client_address or NOTHING,
    )
