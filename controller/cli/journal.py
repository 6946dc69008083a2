"""Show what happened to a stream or a reader group: refusals, changes of state, who held time back, what was done."""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, Any

from controller.cli.arguments import add_controller, add_optional, add_showing, name_of, whole
from controller.cli.limits import REFRESH_MS
from controller.cli.options import add_flag, add_option
from controller.terminal import say

if TYPE_CHECKING:
    from controller.cli.client import ControllerClient
    from controller.format import Times

HELP = "show what happened to a stream or a reader group"
SHOWN_DEFAULT = 20
TOPICS = ("refusal", "state", "held", "incomplete", "registration", "action")


def add_options(parser: argparse.ArgumentParser) -> None:
    from strandline.limits import PAGE_ENTRIES, TIME_BOUND_MS

    whose = parser.add_mutually_exclusive_group(required="STRANDLINE_GROUP" not in os.environ)
    whose.add_argument("stream", nargs="?", type=name_of("stream"), help="the stream")
    add_optional(whose, "group", name_of("group"), "the reader group, in place of a stream")
    add_optional(parser, "topic", _topic, f"only entries on this: {', '.join(TOPICS)}", "TOPIC")
    add_optional(
        parser, "after", whole(0, TIME_BOUND_MS - 1), "from the entry after this seq on, not the newest", "SEQ"
    )
    add_option(parser, "limit", whole(1, PAGE_ENTRIES), SHOWN_DEFAULT, "so many, before those that are followed")
    add_flag(parser, "follow", "go on with each new entry until Ctrl-C; with --json one a line")
    add_controller(parser)
    add_showing(parser)


def run(options: argparse.Namespace) -> int:
    from controller.cli.client import speaking
    from controller.format import Times, compact, indented, table

    times = Times(options.plain_times)
    with speaking(options) as speaker:
        found, omitted = _entries(options, speaker, options.after or 0)
        wanted = [each for each in found if options.topic in (None, each["topic"])]
        shown = wanted[-options.limit :] if options.after is None else wanted[: options.limit]
        if not options.follow:
            if options.json:
                say(indented({"entries": shown, "next": None, "omitted": omitted}))
            else:
                header = ("seq", "at", "topic", "by", "what")
                lines = table(header, [_row(each, times) for each in shown]) if shown else ["nothing was told yet"]
                say("\n".join([*lines, *_left_out(omitted)]))
            return 0
        seen = found[-1]["seq"] if found else options.after or 0
        while True:
            for each in shown:
                say(compact(each) if options.json else "  ".join(_row(each, times)))
            time.sleep(REFRESH_MS / 1000)
            found, _ = _entries(options, speaker, seen)
            seen = found[-1]["seq"] if found else seen
            shown = [each for each in found if options.topic in (None, each["topic"])]


def _entries(options: argparse.Namespace, speaker: ControllerClient, after: int) -> tuple[list[Any], dict[str, int]]:
    """All entries after a seq, of which there are never very many, and what came too fast to be told."""
    from controller.cli.client import journal

    found: list[Any] = []
    on: int | None = after
    omitted: dict[str, int] = {}
    while on is not None:
        told = speaker.run(journal(options.stream, options.group, after=on))
        found += told.json["entries"]
        omitted, on = dict(told.value.omitted), told.value.next
    return found, omitted


def _left_out(omitted: dict[str, int]) -> list[str]:
    if not omitted:
        return []
    return ["", "came too fast to be told: " + ", ".join(f"{count} {name}" for name, count in sorted(omitted.items()))]


def _row(entry: dict[str, Any], times: Times) -> tuple[str, ...]:
    from controller.format import NOTHING
    from controller.status.journal_text import story

    told = story(entry["kind"], entry["details"], times)
    return str(entry["seq"]), times.show(entry["at"]), entry["topic"], entry["by"] or NOTHING, told


def _topic(text: str) -> str:
    """A topic of the journal."""
    if text not in TOPICS:
        raise argparse.ArgumentTypeError(f"{text!r} is no topic: {', '.join(TOPICS)}")
    return text
