"""Create a stream, or find that it is there already as it was asked for."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, Final, Literal

from controller.cli.arguments import add_controller, add_json, add_optional, name_of, whole
from controller.cli.options import add_option
from controller.terminal import Failure, say

if TYPE_CHECKING:
    from strandline.core.config import StreamConfig

HELP = "create a stream"
ONE_SEGMENT: Final[int | Literal["open"]] = 1


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", type=name_of("stream"), help="the new stream")
    wanted = "how many segments, with equal shares of the keys; open: those that notes name, as for a topic in Kafka"
    add_option(parser, "segments", segments, ONE_SEGMENT, wanted, "NUMBER|open")
    wanted = "as min_writers=2,writer_timeout_ms=null; docs/reference/options.md has them all"
    add_optional(parser, "settings", settings, wanted)
    add_controller(parser)
    add_json(parser)


def run(options: argparse.Namespace) -> int:
    from controller.cli.client import describe, speaking
    from controller.format import indented
    from strandline.client.calls import create_stream

    asked: dict[str, Any] = options.settings or {}
    config = config_of(asked)
    with speaking(options) as speaker:
        new = speaker.run(create_stream(options.stream, options.segments, config))
        described = speaker.run(describe(options.stream))
        for name, wanted in asked.items():
            has = getattr(described.value.config, name)
            if has != wanted:
                raise Failure(f"{options.stream} was there already, and its {name} is {json.dumps(has)}")
        said = f"created {options.stream}" if new else f"{options.stream} was there already"
        say(indented(described.json) if options.json else said)
    return 0


def segments(text: str) -> int | Literal["open"]:
    """A number of segments, or `open`."""
    from strandline.limits import SEGMENTS_PER_STREAM

    try:
        return "open" if text == "open" else whole(1, SEGMENTS_PER_STREAM)(text)
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(f"{error}, nor open") from None


def settings(text: str) -> dict[str, Any]:
    """`name=value,name=value`; what is not JSON is text, so that words need no quotes."""
    found = {}
    for each in text.split(","):
        name, equals, value = each.strip().partition("=")
        if not equals or name in found:
            trouble = "is given twice" if name in found else "is no setting"
            raise argparse.ArgumentTypeError(
                f"{each.strip()!r} {trouble}: give them as min_writers=2,late_writers=skip"
            )
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def config_of(asked: dict[str, Any]) -> StreamConfig:
    """What the settings make, the rest being as it is where nothing is said. A Failure names what cannot be."""
    from dataclasses import fields

    from strandline.core.config import StreamConfig
    from strandline.errors import InvalidConfig

    known = {field.name for field in fields(StreamConfig)}
    for name in asked:
        if name not in known:
            raise Failure(f"there is no setting {name!r}: there are {', '.join(sorted(known))}")
    try:
        return StreamConfig(**asked)
    except InvalidConfig as error:
        raise Failure(str(error)) from None
