"""`strandline index`."""

from __future__ import annotations

import click

from controller.cli.client import ControllerClient, calls_controller, time_index
from controller.cli.limits import ENTRIES_SHOWN
from controller.cli.options import Whole, json_option, key_option, name_of, option, stream_argument, times_option
from controller.cli.screen import table
from controller.format import Times, indented
from controller.terminal import say
from strandline.core.time_units import unit_of
from strandline.limits import OFFSET_BOUND, PAGE_ENTRIES


@click.command
@stream_argument
@click.argument("segment", type=name_of("segment"), help="which of its segments")
@option(
    "--from-offset", type=Whole(0, OFFSET_BOUND - 1), default=0, help="begin with the entry at this offset, or below"
)
@option("--limit", type=Whole(1, PAGE_ENTRIES), default=ENTRIES_SHOWN, help="so many entries")
@key_option
@calls_controller
@json_option
@times_option
def command(
    client: ControllerClient,
    stream: str,
    segment: str,
    from_offset: int,
    limit: int,
    key: str,
    as_json: bool,
    times: Times,
) -> None:
    """Show the time index of a segment: from each offset on, no event is older than the time beside it."""
    indexed = client.run(time_index(stream, segment, key, from_offset=from_offset, limit=limit))
    rows = [[str(entry.offset), times.show(entry.time)] for entry in indexed.value.entries]
    lines = table(["offset", "nothing older than"], rows) if rows else ["no mark says anything about it yet"]
    entries = indexed.value.entries
    unit = unit_of(entries[0].time, entries[-1].time) if entries else None
    if unit is not None:
        lines.append(f"these times look like {unit.word}: writers have to note milliseconds")
    say(indented(indexed.json) if as_json else "\n".join(lines))
