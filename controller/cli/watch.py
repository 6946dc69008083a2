"""Watch streams: their time, how far it lags, which writer holds it back and when that one is let go."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from controller.cli.arguments import add_controller, add_showing, name_of
from controller.cli.limits import REFRESH_MS, STREAMS_SHOWN
from controller.cli.options import add_flag
from controller.terminal import say

if TYPE_CHECKING:
    from controller.cli.client import ControllerClient
    from controller.cli.overview import StreamsSeen

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
    from strandline.errors import Refused, StrandlineError, UnknownStream

    named = tuple(dict.fromkeys(options.streams))
    with speaking(options) as speaker:
        due = time.monotonic()
        seen = _look(speaker, named)
        for name in named:
            if name not in seen.streams and name not in seen.unread:
                raise UnknownStream(stream=name)
        on_screen = sys.stdout.isatty() and not options.once and not options.json
        if on_screen:
            sys.stdout.write(WHOLE)
        away = None
        while True:
            _show(options, named, seen, away, on_screen=on_screen)
            if options.once:
                return 0
            due = max(due + REFRESH_MS / 1000, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                seen = _look(speaker, named)
                away = None
            except Refused:
                raise
            except StrandlineError as error:
                away = speaker.explain(error)


def _look(speaker: ControllerClient, named: tuple[str, ...]) -> StreamsSeen:
    """The streams as they are now: those that are named, or the first by name."""
    from controller.cli.overview import look

    return look(speaker, named) if named else look(speaker, limit=STREAMS_SHOWN)


def _show(
    options: argparse.Namespace, named: tuple[str, ...], seen: StreamsSeen, away: str | None, *, on_screen: bool
) -> None:
    from controller.format import compact

    if options.json:
        frame = {"time": seen.at, "streams": seen.json, "resting": _resting(seen)}
        more = {"unread": seen.unread} if seen.unread else {}
        say(compact({**frame, **more} if away is None else {**frame, **more, "error": away}))
        return
    shown = named or sorted(seen.streams.keys() | seen.unread.keys())
    table = _table(options, shown, seen)
    if not named and seen.known > len(shown):
        table.append((f"and {seen.known - len(shown)} more: name those to watch", False))
    if away is not None:
        table.append((f"this is from before: {away}", True))
    if on_screen:
        _paint(options.controller, table)
    else:
        say("\n".join([*(line for line, _ in table), *([] if options.once else [""])]))


def _table(options: argparse.Namespace, shown: Sequence[str], seen: StreamsSeen) -> list[tuple[str, bool]]:
    """The lines of the table, and whether each stands out."""
    from controller.cli.overview import lines_of, rows
    from controller.format import Times

    lines = [line for name in shown for line in lines_of(name, seen, Times(options.plain_times))]
    if not lines:
        return [("there is no stream yet", False)]
    return list(zip(rows(lines), [False, *(line.stands_out for line in lines)], strict=True))


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


def _resting(seen: StreamsSeen) -> dict[str, int]:
    """The time that each stream at rest has reached."""
    resting = {name: [each.resting for each in stream.keys.values()] for name, stream in seen.streams.items()}
    return {name: time for name, times in resting.items() for time in times if time is not None}
