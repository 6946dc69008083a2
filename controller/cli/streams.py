"""List the streams, or describe one: its segments, its writers by state, its latest marks, and who holds time back."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from controller.cli.arguments import add_controller, add_showing, name_of
from controller.cli.limits import SEGMENTS_SHOWN, STREAMS_SHOWN
from controller.terminal import say

if TYPE_CHECKING:
    from controller.cli.client import ControllerClient
    from controller.format import Times
    from strandline.wire.status import StreamStatusReply
    from strandline.wire.streams import StreamDescription

HELP = "list the streams, or describe one"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", nargs="?", type=name_of("stream"), help="the stream to describe")
    add_controller(parser)
    add_showing(parser)


def run(options: argparse.Namespace) -> int:
    from controller.cli.client import speaking

    with speaking(options) as speaker:
        return _list(options, speaker) if options.stream is None else _describe(options, speaker)


def _list(options: argparse.Namespace, speaker: ControllerClient) -> int:
    from controller.cli.client import list_streams
    from controller.cli.overview import lines_of, look, rows
    from controller.format import Times, indented

    if options.json:
        say(indented({"streams": speaker.every(list_streams), "next": None}))
        return 0
    seen = look(speaker, limit=STREAMS_SHOWN)
    shown = sorted(seen.streams.keys() | seen.unread.keys())
    lines = [line for name in shown for line in lines_of(name, seen, Times(options.plain_times))]
    say("\n".join(rows(lines)) if lines else "there is no stream yet")
    if seen.known > len(shown):
        say(f"and {seen.known - len(shown)} more: --json names all, `strandline streams NAME` describes one")
    return 0


def _describe(options: argparse.Namespace, speaker: ControllerClient) -> int:
    from controller.cli.client import describe
    from controller.cli.overview import look
    from controller.format import Times, indented

    described = speaker.run(describe(options.stream))
    if options.json:
        say(indented(described.json))
        return 0
    status = look(speaker, [options.stream]).streams.get(options.stream)
    say("\n".join(_page(options.stream, described.value, status, Times(options.plain_times))))
    return 0


def _page(name: str, stream: StreamDescription, status: StreamStatusReply | None, times: Times) -> list[str]:
    """`status` is None where the stream was deleted just now."""
    from controller.format import (
        MARK_HEADER,
        NOTHING,
        counts,
        fields,
        holding,
        key_name,
        mark_row,
        table,
        yes,
    )

    keys = status.keys if status is not None else {}
    held = [
        (f"held by{f' in {key}' if key else ''}", NOTHING if stream.sealed else holding(stream.held_by.get(key)))
        for key in keys
    ]
    marks = [(key_name(key), *mark_row(mark, times)) for key, mark in sorted(stream.latest_marks.items())]
    resting = [each.resting for each in keys.values() if each.resting is not None]
    top = [
        ("stream", name),
        ("time domain", str(stream.config.time_domain)),
        ("sealed", yes(stream.sealed)),
        ("writers", counts(stream.writers)),
        *held,
        *(("at rest", f"time has reached {times.show(time)}") for time in resting),
        *_settings(stream),
    ]
    latest = table(("key", *MARK_HEADER), marks) if marks else ["no mark yet"]
    return [*fields(top), "", "Latest marks", *latest, "", "Segments", *_segments(stream, times)]


def _settings(stream: StreamDescription) -> list[tuple[str, str]]:
    from strandline.wire.streams import settings_by_name

    shown = {name: value for name, value in settings_by_name(stream.config).items() if name != "time_domain"}
    return [(name, "null" if value is None else str(value)) for name, value in shown.items()]


def _segments(stream: StreamDescription, times: Times) -> list[str]:
    from controller.format import NOTHING, table

    header = ("id", "range", "predecessors", "final offset", "last noted")
    rows = [
        (
            each.segment.id,
            NOTHING if each.segment.low is None else f"{each.segment.low:g} to {each.segment.high:g}",
            ", ".join(each.segment.predecessors) or NOTHING,
            NOTHING if each.segment.final_offset is None else str(each.segment.final_offset),
            times.show(each.last_noted_at),
        )
        for each in stream.segments[:SEGMENTS_SHOWN]
    ]
    more = len(stream.segments) - len(rows)
    return [*table(header, rows), *([f"and {more} more: --json shows all"] if more else [])]
