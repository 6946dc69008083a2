"""`strandline create`."""

from __future__ import annotations

import json
from typing import Any, Literal

import click
from click import IntRange

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import check_known, json_option, name_of, option, settings_in
from controller.operators.wording import indented
from controller.terminal import Failure, say
from strandline.client.calls import create_stream, describe
from strandline.core.config import SETTINGS, StreamConfig
from strandline.errors import InvalidConfig
from strandline.limits import SEGMENTS_PER_STREAM


def segments(text: str) -> int | Literal["open"]:
    """A number of segments, or `open`."""
    try:
        return "open" if text == "open" else IntRange(1, SEGMENTS_PER_STREAM)(text)
    except click.BadParameter as error:
        raise click.BadParameter(f"{str(error).rstrip('.')}, nor open") from None


@click.command
@click.argument("stream", type=name_of("stream"), help="the new stream")
@option(
    "--segments",
    type=segments,
    default="1",
    metavar="N|open",
    help="how many segments, with equal shares of the keys; open: those that notes name, as for a topic in Kafka",
)
@option(
    "--settings",
    type=settings_in,
    metavar="SETTINGS",
    help="as min_writers=2,writer_timeout_ms=10min; docs/reference/options.md has them all",
)
@calls_controller
@json_option
def command(
    client: ControllerClient,
    stream: str,
    segments: int | Literal["open"],
    settings: dict[str, Any] | None,
    as_json: bool,
) -> None:
    """Create a stream, or find that it is there already as it was asked for."""
    asked = settings or {}
    new = client.run(create_stream(stream, segments, config_of(asked)))
    described = client.ask(describe(stream))
    for name, wanted in asked.items():
        has = getattr(described.value.config, name)
        if has != wanted:
            change = f"strandline configure {stream} {name}={json.dumps(wanted)}"
            fixed = SETTINGS[name].says.stays
            how = "it cannot be changed" if fixed else f"`{change}` changes it"
            raise Failure(f"{stream} was there already, and its {name} is {json.dumps(has)}: {how}")
    done = f"created {stream}" if new else f"{stream} was there already"
    say(indented(described.json) if as_json else done)


def config_of(asked: dict[str, Any]) -> StreamConfig:
    """A configuration with these settings. Raises Failure, which names the setting that cannot be."""
    check_known(asked, SETTINGS)
    try:
        return StreamConfig(**asked)
    except InvalidConfig as error:
        raise Failure(str(error)) from None
