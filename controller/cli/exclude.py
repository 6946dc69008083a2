"""`strandline exclude`, and what `include` has in common with it: both change a writer's part in a stream's time."""

from __future__ import annotations

import click

from controller.cli.client import CommandAnswer, ControllerClient, calls_controller, exclude
from controller.cli.options import confirm, json_option, name_of, stream_argument, times_option, yes_option
from controller.format import Times, indented, mark_line, mark_row
from controller.terminal import say
from strandline.client.calls import Call
from strandline.wire.streams import MarksPage

writer_argument = click.argument("writer", type=name_of("writer"), help="its writer")


@click.command
@stream_argument
@writer_argument
@yes_option
@calls_controller
@json_option
@times_option
def command(client: ControllerClient, stream: str, writer: str, yes: bool, as_json: bool, times: Times) -> None:
    """Exclude a writer: time goes on without it, and marks name it, until it is included or registers again."""
    confirm(f"Exclude {writer} from {stream}? What it has not noted yet may then be late.", yes=yes)
    change(client, exclude(stream, writer), f"{writer} is excluded from {stream}", as_json, times)


def change(
    client: ControllerClient, call: Call[CommandAnswer[MarksPage]], done: str, as_json: bool, times: Times
) -> None:
    """Makes the call, and shows the marks that it caused."""
    marked = client.run(call)
    if as_json:
        say(indented(marked.json))
        return
    say(done)
    for mark in marked.value.marks:
        key = f" in {mark.key}" if mark.key else ""
        say(f"new mark{key}: {mark_line(mark_row(mark, times))}")
