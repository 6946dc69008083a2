"""Show where a time lies in a stream: the position at which reading from that time begins."""

from __future__ import annotations

import argparse

from controller.cli.arguments import add_controller, add_showing, moment, name_of, time_key
from controller.cli.options import add_option
from controller.terminal import say

HELP = "show where a time lies in a stream"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", type=name_of("stream"), help="the stream that is to be read")
    wanted = "from when on: a whole number as notes have it, or a date such as 2026-01-31T12:00:00Z"
    parser.add_argument("time", type=moment, help=wanted)
    add_option(parser, "key", time_key, "", "the time key")
    add_controller(parser)
    add_showing(parser)


def run(options: argparse.Namespace) -> int:
    from controller.cli.client import marks_at, speaking
    from controller.format import NOTHING, Times, fields, indented, offsets, yes

    times = Times(options.plain_times)
    with speaking(options) as speaker:
        around = speaker.run(marks_at(options.stream, options.key, options.time))
        found = around.value
        shown = fields(
            [
                ("position", offsets(found.start) or NOTHING),
                ("exact", yes(found.exact)),
                ("mark before", times.show(None if found.floor is None else found.floor.time)),
                ("mark after", times.show(None if found.ceiling is None else found.ceiling.time)),
            ]
        )
        say(indented(around.json) if options.json else "\n".join(shown))
    return 0
