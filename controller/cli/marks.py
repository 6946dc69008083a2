"""Show marks of a stream, the newest or those after a seq, and with --follow each new one as it is made."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from controller.cli.arguments import add_controller, add_optional, add_showing, name_of, time_key, whole
from controller.cli.limits import FOLLOW_PAUSE_MS, FOLLOW_WAIT_MS
from controller.cli.options import add_flag, add_option
from controller.terminal import say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.cli.client import CommandAnswer, ControllerClient
    from strandline.wire.streams import MarksPage

HELP = "show the marks of a stream"
SHOWN_DEFAULT = 20


def add_options(parser: argparse.ArgumentParser) -> None:
    from strandline.limits import PAGE_ENTRIES, TIME_BOUND_MS

    parser.add_argument("stream", type=name_of("stream"), help="whose marks")
    add_option(parser, "key", time_key, "", "the time key")
    add_optional(parser, "after", whole(0, TIME_BOUND_MS - 1), "from the mark after this seq on, not the newest", "SEQ")
    add_option(parser, "limit", whole(1, PAGE_ENTRIES), SHOWN_DEFAULT, "so many marks, before those that are followed")
    add_flag(parser, "follow", "go on with each new mark, until the stream's end or Ctrl-C; with --json one a line")
    add_controller(parser)
    add_showing(parser)


def run(options: argparse.Namespace) -> int:
    from controller.cli.client import marks, speaking
    from controller.format import compact, indented

    with speaking(options) as speaker:
        after = _newest(options, speaker) if options.after is None else options.after
        first = speaker.run(marks(options.stream, options.key, after=after, limit=options.limit))
        if not options.follow:
            say(indented(first.json) if options.json else "\n".join([*_lines(first, options), *_rest(first, options)]))
            return 0
        for marked in _follow(options, speaker, first, after):
            for line in map(compact, marked.json["marks"]) if options.json else _lines(marked, options):
                say(line)
    return 0


def _newest(options: argparse.Namespace, speaker: ControllerClient) -> int:
    """The seq after which the newest marks come."""
    from controller.cli.client import describe

    latest = speaker.run(describe(options.stream)).value.latest_marks.get(options.key)
    return max(0, latest.seq - options.limit) if latest is not None else 0


def _follow(
    options: argparse.Namespace, speaker: ControllerClient, marked: CommandAnswer[MarksPage], after: int
) -> Iterator[CommandAnswer[MarksPage]]:
    """The first marks, and each one after them. Ends with the stream."""
    from controller.cli.client import describe, marks

    while True:
        if marked.value.marks:
            after = marked.value.marks[-1].seq
            yield marked
        elif speaker.run(describe(options.stream)).value.sealed:
            return
        else:
            time.sleep(FOLLOW_PAUSE_MS / 1000)  # a controller that is about to stop answers at once
        marked = speaker.run(marks(options.stream, options.key, after=after, wait_ms=FOLLOW_WAIT_MS))


def _lines(marked: CommandAnswer[MarksPage], options: argparse.Namespace) -> list[str]:
    from controller.format import MARK_HEADER, Times, mark_line, mark_row, table

    rows = [mark_row(mark, Times(options.plain_times)) for mark in marked.value.marks]
    if options.follow:
        return [mark_line(row) for row in rows]
    return table(MARK_HEADER, rows) if rows else ["no mark yet" if not options.after else "no mark after that"]


def _rest(marked: CommandAnswer[MarksPage], options: argparse.Namespace) -> list[str]:
    from controller.format import Times

    resting = marked.value.resting
    return [] if resting is None else [f"at rest: time has reached {Times(options.plain_times).show(resting)}"]
