"""`strandline overview`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.screen import Output, prints
from controller.cli.stream_table import ask_known, frame, of_streams, stream_rows
from controller.operators.wording import how_many_serve
from controller.terminal import remark
from strandline.limits import PAGE_ENTRIES


@click.command
@of_streams
@calls_controller
@prints
def command(client: ControllerClient, streams: tuple[str, ...], trouble: bool, output: Output) -> int:
    """Show streams once, those in trouble first: their time, its lag, which writer holds it back and when that one
    times out."""
    seen = ask_known(client, streams, PAGE_ENTRIES, trouble=trouble)
    none = "no stream is in trouble" if trouble else "there is no stream yet"
    how = None if streams else "`strandline overview NAME` shows one"
    serving = None if streams else how_many_serve(seen.controllers)
    output.show(
        frame(seen),
        lambda: [
            *stream_rows(seen, output.times, streams, none=none, others=how),
            *([f"{serving} controllers serve: `strandline controllers` names them"] if serving else []),
        ],
    )
    if seen.lacks is not None and not output.as_json:
        remark(f"strandline overview: {seen.lacks}")
    return int(seen.partial)
