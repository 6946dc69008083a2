"""`strandline streams`."""

from __future__ import annotations

from typing import Final

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import name_of
from controller.cli.screen import MARK_HEADER, Output, fields, listing, mark_row, prints, settings
from controller.cli.stream_table import STREAMS_SHOWN, StreamsSeen, ask_streams, state_text, stream_rows
from controller.operators.wording import Times, counts, holding, indented, key_name
from controller.terminal import remark, say
from strandline.client.calls import describe, list_streams
from strandline.wire.status import KeyStatus
from strandline.wire.streams import StreamDescription, settings_by_name

SEGMENTS_SHOWN: Final = 50


@click.command
@click.argument("stream", required=False, type=name_of("stream"), help="the stream to describe")
@calls_controller
@prints
def command(client: ControllerClient, stream: str | None, output: Output) -> int:
    """List the streams, or describe one.

    The description has its segments, its writers by state, its latest marks, and who holds time back.
    """
    if stream is None:
        if output.as_json:
            say(indented({"streams": client.every(list_streams, "streams"), "next": None}))
            return 0
        seen = ask_streams(client, limit=STREAMS_SHOWN)
        say(*_table(seen, output.times))
    else:
        described = client.ask(describe(stream))
        if output.as_json:
            say(indented(described.json))
            return 0
        seen = ask_streams(client, [stream])
        say(*_page(seen, stream, described.value, output.times))
    if seen.lacks is not None:
        remark(f"strandline streams: {seen.lacks}")
    return int(seen.partial)


def _table(seen: StreamsSeen, times: Times) -> list[str]:
    others = "--json names all, `strandline streams NAME` describes one"
    return stream_rows(seen, times, sorted(seen.names), none="there is no stream yet", others=others)


def _page(seen: StreamsSeen, name: str, stream: StreamDescription, times: Times) -> list[str]:
    status = seen.streams.get(name)  # None where the stream was deleted just now
    keys = status.keys if status is not None else {}
    seen_at = status.seen_at if status is not None else 0
    held = [
        (
            f"held by{f' in {key}' if key else ''}",
            None if stream.sealed else holding(stream.held_by.get(key) if each.held_back else None),
        )
        for key, each in keys.items()
    ]
    marks = [(key_name(key), *mark_row(mark, times)) for key, mark in sorted(stream.latest_marks.items())]
    resting = [each.resting for each in keys.values() if each.resting is not None]
    shown = {name: value for name, value in settings_by_name(stream.config).items() if name != "time_domain"}
    top = [
        ("stream", name),
        ("time domain", stream.config.time_domain),
        *(("state" + (f" of {key}" if key else ""), _state(each, seen_at)) for key, each in keys.items()),
        ("sealed", stream.sealed),
        ("writers", counts(stream.writers)),
        *held,
        *(("at rest", f"time has reached {times.show(time)}") for time in resting),
        *settings(shown),
    ]
    latest = listing(("key", *MARK_HEADER), marks, none="no mark yet")
    return [*fields(top), "", "Latest marks", *latest, "", "Segments", *_segments(stream, times)]


def _state(key: KeyStatus, seen_at: int) -> str:
    return f"{state_text(key, seen_at)}: {key.reason}"


def _segments(stream: StreamDescription, times: Times) -> list[str]:
    header = ("id", "range", "predecessors", "final offset", "last noted")
    rows = [
        (
            each.segment.id,
            None if each.segment.low is None else f"{each.segment.low:g} to {each.segment.high:g}",
            each.segment.predecessors,
            each.segment.final_offset,
            times.show(each.last_noted_at),
        )
        for each in stream.segments
    ]
    return listing(header, rows, none="no segment yet", most=SEGMENTS_SHOWN)
