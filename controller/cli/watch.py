"""`strandline watch`."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Sequence
from itertools import chain, repeat

import click

from controller.cli.client import REFRESH_MS, ControllerClient, calls_controller
from controller.cli.screen import Output, prints
from controller.cli.stream_table import (
    STREAMS_SHOWN,
    StreamsSeen,
    all_lines,
    ask_known,
    ask_streams,
    frame,
    of_streams,
    stream_rows,
)
from controller.operators.wording import Times, compact
from controller.terminal import printable, say
from strandline.errors import Refused, StrandlineError

HOME, END_OF_LINE, BELOW, WHOLE = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"
STANDING_OUT, AS_BEFORE = "\x1b[1;33m", "\x1b[0m"


@click.command
@of_streams
@calls_controller
@prints
def command(client: ControllerClient, streams: tuple[str, ...], trouble: bool, output: Output) -> None:
    """Watch streams: their time, how far it lags, which writer holds it back and when that one times out."""
    # It goes on while the controller is away, but not where it was away from the first.
    due = time.monotonic()
    seen = ask_known(client, streams, STREAMS_SHOWN, trouble=trouble)
    on_screen = sys.stdout.isatty() and not output.as_json
    if on_screen:
        sys.stdout.write(WHOLE)
    away = None
    while True:
        lacks = seen.lacks if away is None else f"this is from before: {away}"
        if output.as_json:
            say(compact({**frame(seen), **({} if away is None else {"error": away})}))
        elif on_screen:
            _paint(client.controller, _table(streams, seen, lacks, output.times))
        else:
            say(*(line for line, _ in _table(streams, seen, lacks, output.times)), "")
        due = max(due + REFRESH_MS / 1000, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        try:
            seen = ask_streams(client, streams, STREAMS_SHOWN, trouble=trouble)
            away = None
        except Refused:
            raise
        except StrandlineError as error:
            away = client.explain(error)


def _table(named: Sequence[str], seen: StreamsSeen, lacks: str | None, times: Times) -> list[tuple[str, bool]]:
    """The lines of the table, and whether each stands out."""
    stands_out = [False, *(line.stands_out for line in all_lines(seen, times, named))]
    others = None if named else "name those to watch"
    shown = stream_rows(seen, times, named, none="there is no stream to show", others=others)
    table = list(zip(shown, chain(stands_out, repeat(False)), strict=False))
    if lacks is not None:
        table.append((lacks, True))
    return table


def _paint(controller: str, table: list[tuple[str, bool]]) -> None:
    """Writes over what was there before, all at once, and no more than the terminal has room for."""
    columns, height = shutil.get_terminal_size()
    folded = [(line[at : at + columns], out) for line, out in table for at in range(0, max(1, len(line)), columns)]
    body = folded[: max(1, height - 3)]
    if len(body) < len(folded):
        body[-1] = (f"and {len(folded) - len(body) + 1} lines more", False)
    title = f"strandline watch: {controller}, each second; Ctrl-C ends it"
    colours = "NO_COLOR" not in os.environ
    painted = [
        f"{STANDING_OUT}{line[:columns]}{AS_BEFORE}" if stands_out and colours else line[:columns]
        for line, stands_out in [(title, False), ("", False), *body]
    ]
    sys.stdout.write(HOME + printable("".join(f"{line}{END_OF_LINE}\n" for line in painted)) + BELOW)
    sys.stdout.flush()
