"""Show the time index of a segment: from each offset on, no event is older than the time beside it."""

from __future__ import annotations

import argparse

from controller.cli.arguments import add_controller, add_showing, name_of, time_key, whole
from controller.cli.options import add_option
from controller.terminal import say

HELP = "show offset and time within a segment"
SHOWN_DEFAULT = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    from strandline.limits import OFFSET_BOUND, PAGE_ENTRIES

    parser.add_argument("stream", type=name_of("stream"), help="the stream")
    parser.add_argument("segment", type=name_of("segment"), help="which of its segments")
    add_option(parser, "from-offset", whole(0, OFFSET_BOUND - 1), 0, "begin with the entry at this offset, or below")
    add_option(parser, "limit", whole(1, PAGE_ENTRIES), SHOWN_DEFAULT, "so many entries")
    add_option(parser, "key", time_key, "", "the time key")
    add_controller(parser)
    add_showing(parser)


def run(options: argparse.Namespace) -> int:
    from controller.cli.client import speaking, time_index
    from controller.format import Times, indented, table

    times = Times(options.plain_times)
    with speaking(options) as speaker:
        call = time_index(
            options.stream, options.segment, options.key, from_offset=options.from_offset, limit=options.limit
        )
        indexed = speaker.run(call)
        rows = [[str(entry.offset), times.show(entry.time)] for entry in indexed.value.entries]
        lines = table(["offset", "nothing older than"], rows) if rows else ["no mark says anything about it yet"]
        say(indented(indexed.json) if options.json else "\n".join(lines))
    return 0
