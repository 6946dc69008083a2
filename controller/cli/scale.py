"""`strandline scale`."""

from __future__ import annotations

import json
from typing import Any

import click

from controller.cli.client import ControllerClient, calls_controller, scale
from controller.cli.options import confirm, json_option, option, position, stream_argument, yes_option
from controller.format import indented
from controller.terminal import say
from strandline.core.segment import NewSegment
from strandline.errors import StrandlineError
from strandline.limits import SEGMENTS_PER_STREAM

WANTED = 'give 2=0:0.25,3=0.25:0.5, or JSON such as [{"id": "2", "low": 0, "high": 0.25}]'


def segments(text: str) -> list[NewSegment]:
    """New segments: `2=0:0.25,3=0.25:0.5`, or a JSON list of objects, which may name predecessors."""
    try:
        given = json.loads(text) if text.lstrip().startswith("[") else [_ranged(each) for each in text.split(",")]
        return [_segment(each) for each in given[:SEGMENTS_PER_STREAM]]
    except (ValueError, TypeError, AttributeError, RecursionError, StrandlineError) as error:
        raise click.BadParameter(f"{text[:200]!r} are no segments ({error}): {WANTED}") from None


def _ranged(text: str) -> dict[str, Any]:
    name, equals, bounds = text.strip().partition("=")
    low, colon, high = bounds.partition(":")
    if not equals or not colon:
        raise ValueError(f"{text.strip()!r} is no segment=low:high")
    return {"id": name, "low": float(low), "high": float(high)}


def _segment(given: dict[str, Any]) -> NewSegment:
    unknown = given.keys() - {"id", "low", "high", "predecessors"}
    if unknown or not isinstance(given.get("id"), str):
        raise ValueError("each has an id, and a low and a high, or predecessors")
    predecessors = given.get("predecessors")
    return NewSegment(
        id=given["id"],
        low=given.get("low"),
        high=given.get("high"),
        predecessors=None if predecessors is None else tuple(predecessors),
    )


@click.command
@stream_argument
@option("--seal", type=position, required=True, metavar="POSITION", help="the segments that end, and where, as 0=300")
@option(
    "--create",
    type=segments,
    required=True,
    metavar="SEGMENTS",
    help="their successors and the shares of the keys that these have, as 2=0:0.25,3=0.25:0.5; or JSON, which may "
    "name predecessors",
)
@yes_option
@calls_controller
@json_option
def command(
    client: ControllerClient, stream: str, seal: dict[str, int], create: list[NewSegment], yes: bool, as_json: bool
) -> None:
    """Split or merge segments: tell a stream what its log has done already. Scale the log first."""
    ends, begins = ", ".join(seal), ", ".join(each.id for each in create)
    confirm(f"In {stream}, end {ends} for good, and begin {begins}?", yes=yes, for_good=True)
    scaled = client.run(scale(stream, seal, create))
    say(indented(scaled.json) if as_json else f"{stream} has ended {ends}, and begun {begins}")
