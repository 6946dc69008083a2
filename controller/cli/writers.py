"""List the writers of a stream: their states, times and positions, and who of them holds time back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from controller.cli.arguments import add_controller, add_optional, add_showing, name_of
from controller.terminal import say

if TYPE_CHECKING:
    from controller.format import Times

HELP = "list the writers of a stream"


def add_options(parser: argparse.ArgumentParser) -> None:
    from strandline.core.writer import WriterState

    parser.add_argument("stream", type=name_of("stream"), help="whose writers")
    states = ", ".join(WriterState)
    add_optional(parser, "state", _state, f"only writers in this state: {states}", "STATE")
    add_controller(parser)
    add_showing(parser)


def run(options: argparse.Namespace) -> int:
    from controller.cli.client import list_writers, speaking
    from controller.format import Times, indented, table

    times = Times(options.plain_times)
    with speaking(options) as speaker:
        found = speaker.every(lambda after: list_writers(options.stream, after))
        writers = [each for each in found if options.state in (None, each["state"])]
        if options.json:
            say(indented({"writers": writers, "next": None}))
        elif writers:
            header = ("writer", "state", "times", "position", "epoch", "last heard", "holds")
            say("\n".join(table(header, [_row(each, times) for each in writers])))
        else:
            say("no writer yet" if options.state is None else f"no writer is {options.state}, of {len(found)}")
    return 0


def _row(writer: dict[str, object], times: Times) -> tuple[str, ...]:
    from controller.format import NOTHING, key_name, offsets
    from strandline.wire.shapes import convert
    from strandline.wire.streams import WriterReply

    given = convert(writer, WriterReply)
    shown = [times.show(time) if key == "" else f"{key}={times.show(time)}" for key, time in given.times.items()]
    return (
        given.writer,
        given.state,
        ", ".join(shown) or NOTHING,
        offsets(given.position),
        NOTHING if given.epoch is None else str(given.epoch),
        times.show(given.last_heard_at),
        ", ".join(key_name(key) if key else "time" for key in given.holds) or NOTHING,
    )


def _state(text: str) -> str:
    """The state of a writer."""
    from strandline.core.writer import WriterState

    if text not in set(WriterState):
        raise argparse.ArgumentTypeError(f"{text!r} is no state of a writer: {', '.join(WriterState)}")
    return text
