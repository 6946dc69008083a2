"""Watch streams: their time, how far it lags, which writer holds it back and when that one is let go."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from typing import TYPE_CHECKING

from controller.cli.arguments import add_controller, add_showing, name_of
from controller.cli.limits import REFRESH_MS, STREAMS_SHOWN
from controller.cli.options import add_flag
from controller.terminal import say

if TYPE_CHECKING:
    from controller.cli.client import ControllerClient
    from controller.cli.overview import Seen

HELP = "watch streams, their lag, and who holds them back"

HOME, END_OF_LINE, BELOW, WHOLE = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"
STANDING_OUT, AS_BEFORE = "\x1b[1;33m", "\x1b[0m"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "streams", nargs="*", type=name_of("stream"), help=f"which; else the first {STREAMS_SHOWN} by name"
    )
    add_flag(parser, "once", "show them once, and end")
    add_controller(parser)
    add_showing(parser)


def run(options: argparse.Namespace) -> int:
    """Goes on while the controller is away, but not where it was away from the first."""
    from controller.cli.client import speaking
    from strandline.errors import Refused, StrandlineError

    with speaking(options) as speaker:
        due = time.monotonic()
        seen, more = _look(options, speaker, first=True)
        loaded = sys.stdout.isatty() and not options.once and not options.json
        if loaded:
            sys.stdout.write(WHOLE)
        away = None
        while True:
            _show(options, seen, more, away, loaded=loaded)
            if options.once:
                return 0
            due = max(due + REFRESH_MS / 1000, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                seen, more = _look(options, speaker, first=False)
                away = None
            except Refused:
                raise
            except StrandlineError as error:
                away = speaker.explain(error)


def _look(options: argparse.Namespace, speaker: ControllerClient, *, first: bool) -> tuple[list[Seen], int]:
    """The streams as they are now, and how many more there are."""
    from controller.cli.client import list_streams
    from controller.cli.overview import look

    named = list(dict.fromkeys(options.streams))
    names = named or speaker.every(list_streams)
    shown = names if named else names[:STREAMS_SHOWN]
    return [look(speaker, name, must_be=first and bool(named)) for name in shown], len(names) - len(shown)


def _show(options: argparse.Namespace, seen: list[Seen], more: int, away: str | None, *, loaded: bool) -> None:
    from controller.format import compact

    if options.json:
        described = [each.described.json for each in seen if each.described is not None]
        clocks = [each.clock for each in seen if each.clock is not None]
        frame = {"time": max(clocks, default=None), "streams": described, "resting": _resting(seen)}
        say(compact(frame if away is None else {**frame, "error": away}))
        return
    table = _table(options, seen)
    if more:
        table.append((f"and {more} more: name those to watch", False))
    if away is not None:
        table.append((f"this is from before: {away}", True))
    if loaded:
        _paint(options.controller, table)
    else:
        say("\n".join([*(line for line, _ in table), *([] if options.once else [""])]))


def _table(options: argparse.Namespace, seen: list[Seen]) -> list[tuple[str, bool]]:
    """The lines of the table, and whether each stands out."""
    from controller.cli.overview import lines_of, rows
    from controller.format import Times

    lines = [line for each in seen for line in lines_of(each, Times(options.plain_times))]
    if not lines:
        return [("there is no stream yet", False)]
    return list(zip(rows(lines), [False, *(line.stalled for line in lines)], strict=True))


def _paint(controller: str, table: list[tuple[str, bool]]) -> None:
    """Writes over what was there before, all at once, and no more than the terminal has room for."""
    columns, height = shutil.get_terminal_size()
    body = table[: max(1, height - 3)]
    if len(body) < len(table):
        body[-1] = (f"and {len(table) - len(body) + 1} lines more", False)
    title = f"strandline watch: {controller}, each second; Ctrl-C ends it"
    colours = "NO_COLOR" not in os.environ
    painted = [
        f"{STANDING_OUT}{line[:columns]}{AS_BEFORE}" if stands_out and colours else line[:columns]
        for line, stands_out in [(title, False), ("", False), *body]
    ]
    sys.stdout.write(HOME + "".join(f"{line}{END_OF_LINE}\n" for line in painted) + BELOW)
    sys.stdout.flush()


def _resting(seen: list[Seen]) -> dict[str, int]:
    """The time that each stream at rest has reached."""
    return {each.name: each.resting for each in seen if each.resting is not None}
