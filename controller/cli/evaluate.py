"""`strandline evaluate`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller, evaluate
from controller.cli.options import json_option, key_option, stream_argument, times_option
from controller.format import Times, holding, indented, mark_line, mark_row
from controller.terminal import say


@click.command
@stream_argument
@key_option
@calls_controller
@json_option
@times_option
def command(client: ControllerClient, stream: str, key: str, as_json: bool, times: Times) -> None:
    """Have a stream make a mark now, if its time can advance, whatever its mark_interval_ms; else say who holds it."""
    evaluated = client.run(evaluate(stream, key))
    if as_json:
        say(indented(evaluated.json))
    elif evaluated.value.mark is not None:
        say(f"new mark: {mark_line(mark_row(evaluated.value.mark, times))}")
    else:
        say(f"no new mark; time is held back by: {holding(evaluated.value.held_by)}")
