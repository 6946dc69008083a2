"""Show the time window at a position: everything older than its lower bound has been read."""

from __future__ import annotations

import argparse
import os

from controller.cli.arguments import add_controller, add_optional, add_showing, name_of, position, time_key
from controller.cli.options import add_option
from controller.terminal import say

HELP = "show the time window at a position"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", type=name_of("stream"), help="the stream that is read")
    wanted = 'how far it was read, as 0=5,1=7 or {"0": 5}; an empty text is its beginning'
    add_optional(parser, "position", position, wanted).required = "STRANDLINE_POSITION" not in os.environ
    add_option(parser, "key", time_key, "", "the time key")
    add_controller(parser)
    add_showing(parser)


def run(options: argparse.Namespace) -> int:
    from dataclasses import asdict

    from controller.cli.client import speaking
    from controller.format import NOTHING, Times, fields, indented, yes
    from strandline.client.calls import time_window

    times = Times(options.plain_times)
    with speaking(options) as speaker:
        window = speaker.run(time_window(options.stream, options.position, key=options.key))
        shown = fields(
            [
                ("lower", times.show(window.lower)),
                ("upper", times.show(window.upper)),
                ("complete", yes(window.complete)),
                ("end of stream", yes(window.end_of_stream)),
                ("mark", NOTHING if window.mark_seq is None else str(window.mark_seq)),
            ]
        )
        say(indented(asdict(window)) if options.json else "\n".join(shown))
    return 0
