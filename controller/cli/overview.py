"""`strandline overview`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import option
from controller.cli.screen import Output, prints
from controller.cli.stream_table import all_lines, ask_streams, frame, others, rows
from controller.operators.wording import how_many_serve
from controller.terminal import remark
from strandline.limits import PAGE_ENTRIES


@click.command
@option("--trouble", is_flag=True, help="only streams in trouble")
@calls_controller
@prints
def command(client: ControllerClient, trouble: bool, output: Output) -> int:
    """Show all streams once, those in trouble first: their time, its lag, and which writer holds it back."""
    seen = ask_streams(client, limit=PAGE_ENTRIES, trouble=trouble)
    none = ["no stream is in trouble" if trouble else "there is no stream yet"]
    serving = how_many_serve(seen.controllers)
    output.show(
        frame(seen),
        lambda: [
            *(rows(all_lines(seen, output.times)) or none),
            *others(seen, "`strandline streams NAME` shows one"),
            *([f"{serving} controllers serve: `strandline controllers` names them"] if serving else []),
        ],
    )
    if seen.lacks is not None and not output.as_json:
        remark(f"strandline overview: {seen.lacks}")
    return int(seen.partial)
