"""What `exclude` and `include` have in common: both change a writer's part in a stream's time."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from controller.cli.arguments import add_controller, add_showing, name_of
from controller.cli.options import add_flag
from controller.terminal import Failure, say

if TYPE_CHECKING:
    from controller.cli.client import CommandAnswer
    from strandline.client.calls import Call
    from strandline.wire.streams import MarksPage


def add_writer_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", type=name_of("stream"), help="the stream")
    parser.add_argument("writer", type=name_of("writer"), help="its writer")
    add_flag(parser, "yes", "do not ask for confirmation")
    add_controller(parser)
    add_showing(parser)


def change(
    options: argparse.Namespace, call: Callable[[str, str], Call[CommandAnswer[MarksPage]]], question: str, done: str
) -> int:
    """Asks, where there is a terminal to answer at, then makes the call, and shows the marks that it brought about."""
    from controller.cli.client import speaking
    from controller.format import Times, indented, mark_line, mark_row

    if not options.yes and sys.stdin is not None and sys.stdin.isatty() and not confirmed(question):
        raise Failure("nothing was changed")
    with speaking(options) as speaker:
        marked = speaker.run(call(options.stream, options.writer))
        if options.json:
            say(indented(marked.json))
            return 0
        say(done)
        for mark in marked.value.marks:
            key = f" in {mark.key}" if mark.key else ""
            say(f"new mark{key}: {mark_line(mark_row(mark, Times(options.plain_times)))}")
    return 0


def confirmed(question: str) -> bool:
    """Whether the person at the terminal says yes. The question goes to standard error, beside the data."""
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
