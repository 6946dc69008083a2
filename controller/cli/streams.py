"""`strandline streams`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.options import name_of
from controller.cli.screen import MARK_HEADER, Output, fields, listing, mark_row, prints, settings
from controller.cli.stream_table import STREAMS_SHOWN, StreamsSeen, all_lines, ask_streams, others, rows, state_text
from controller.operators.wording import Times, counts, holding, key_name
from controller.terminal import remark
from strandline.client.calls import describe, list_streams
from strandline.limits import PAGE_ENTRIES
from strandline.wire.status import KeyStatus
from strandline.wire.streams import StreamDescription, settings_by_name

SEGMENTS_SHOWN: Final = 50


@click.command
@click.argument("stream", required=False, type=name_of("stream"), help="the stream to describe")
@calls_controller
@prints
def command(client: ControllerClient, stream: str | None, output: Output) -> None:
    """List the streams, or describe one.

    The description has its segments, its writers by state, its latest marks, and who holds time back.
    """
    if stream is None:
        names = client.every(list_streams, "streams") if output.as_json else []
        output.show({"streams": names, "next": None}, lambda: _table(client, output.times))
    else:
        described = client.ask(describe(stream))
        output.show(described.json, lambda: _page(client, stream, described.value, output.times))


def _seen(client: ControllerClient, names: Sequence[str] = (), limit: int = PAGE_ENTRIES) -> StreamsSeen:
    """These streams, or the first; says what is not known of them."""
    seen = ask_streams(client, names, limit)
    if seen.lacks is not None:
        remark(f"strandline streams: {seen.lacks}")
    return seen


def _table(client: ControllerClient, times: Times) -> list[str]:
    seen = _seen(client, limit=STREAMS_SHOWN)
    lines = rows(all_lines(seen, times, sorted(seen.names))) or ["there is no stream yet"]
    more = "--json names all, `strandline streams NAME` describes one"
    return [*lines, *others(seen, more)]


def _page(client: ControllerClient, name: str, stream: StreamDescription, times: Times) -> list[str]:
    status = _seen(client, [name]).streams.get(name)  # None where the stream was deleted just now
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
