"""`strandline writers`."""

from __future__ import annotations

from collections.abc import Set
from functools import partial

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import option, stream_argument
from controller.cli.screen import Output, listing, prints
from controller.cli.stream_table import ask_streams
from controller.operators.wording import Times, key_name, offsets
from strandline.client.calls import list_writers
from strandline.core.writer import WriterState
from strandline.wire.shapes import convert
from strandline.wire.streams import WriterReply


@click.command
@stream_argument
@option("--state", type=click.Choice([state.value for state in WriterState]), help="only writers in this state")
@calls_controller
@prints
def command(client: ControllerClient, stream: str, state: str | None, output: Output) -> None:
    """List the writers of a stream: their states, times and positions, and who of them holds time back."""
    found = client.every(partial(list_writers, stream), "writers")
    writers = [each for each in found if state in (None, each["state"])]
    none = "no writer yet" if state is None else f"no writer is {state}, of {len(found)}"

    def lines() -> list[str]:
        status = ask_streams(client, [stream]).streams.get(stream)
        held = {key for key, each in status.keys.items() if each.held_back} if status is not None else set()
        header = ("writer", "state", "times", "position", "epoch", "last heard", "holds")
        return listing(header, [_row(convert(each, WriterReply), held, output.times) for each in writers], none=none)

    output.show({"writers": writers, "next": None}, lines)


def _row(writer: WriterReply, held: Set[str], times: Times) -> tuple[object, ...]:
    """`held` are the keys whose time is held back: a writer that keeps up holds nobody."""
    shown = [times.show(time) if key == "" else f"{key}={times.show(time)}" for key, time in writer.times.items()]
    return (
        writer.writer,
        writer.state,
        shown,
        offsets(writer.position),
        writer.epoch,
        times.show(writer.last_heard_at),
        [key_name(key) if key else "time" for key in writer.holds if key in held],
    )
