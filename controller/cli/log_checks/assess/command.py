"""`strandline assess`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import click
from click import IntRange

from controller.cli import INTERRUPTED_STATUS
from controller.cli.log_checks.assess.model import Arrival, Assessed, Assessment, Losses, skewed
from controller.cli.log_checks.assess.picture import delay_text, picture
from controller.cli.log_checks.event_sources import (
    ASSESS_ROWS_SHOWN,
    UNITS,
    EventFields,
    FileSource,
    LogSource,
    Source,
    log_at,
)
from controller.cli.options import duration, kafka_settings_option, option
from controller.cli.screen import Output, listing, prints
from controller.terminal import Failure, progress
from controller.wording import NOTHING, Times, span
from strandline.core.time_units import Unit
from strandline.errors import StrandlineError

ASSESS_DELAYS: Final = "0,1s,2s,5s,10s,30s,1min,5min,1h"  # unless others are named
ASSESS_DELAYS_BOUND: Final = 50
ASSESS_DELAYS_BOUND_MS: Final = 366 * 86_400_000
ASSESS_NAMES: Final = 1_000  # partitions, and beginnings of keys, that are counted each by itself
ASSESS_UNREADABLE: Final = 1_000  # as many events without a time, to each one with a time, end it


def delays(text: str) -> tuple[int, ...]:
    """Reads spans of time with commas between."""
    read = duration(ASSESS_DELAYS_BOUND_MS)
    found = tuple(sorted({read(each) for each in text.split(",")}))
    if len(found) > ASSESS_DELAYS_BOUND:
        raise click.BadParameter(f"it names {len(found)} delays: the most is {ASSESS_DELAYS_BOUND}")
    return found


@click.command
@click.argument(
    "files",
    nargs=-1,
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="files of JSON lines, CSV or Parquet, oldest first, their rows in order of arrival",
)
@option("--servers", metavar="HOST:PORT,…", help="Kafka's bootstrap servers, to read a topic")
@option("--topic", metavar="TOPIC", help="the topic to read")
@kafka_settings_option
@option("--path", type=click.Path(path_type=Path), metavar="FILE", help="an embedded log to read")
@option(
    "--field",
    metavar="NAME",
    help="the field with an event's time, or . for the whole value; without it, the time of a log's record",
)
@option("--arrived", metavar="NAME", help="the field with the time of an event's arrival; without it, a log's own")
@option("--partition", metavar="NAME", help="the field with the partition; without it, a log's own")
@option("--key", metavar="NAME", help="the field with the key; without it, a log's own")
@option("--unit", type=click.Choice(list(UNITS)), default="ms", help="of times that are numbers")
@option(
    "--prefix",
    type=IntRange(0, 100),
    default=0,
    help="tell keys apart by so many first characters; 0: not at all",
)
@option("--delays", type=delays, default=ASSESS_DELAYS, metavar="SPAN,…", help="the delays to assess")
@option(
    "--window",
    "window_ms",
    type=duration(ASSESS_DELAYS_BOUND_MS, least_ms=1),
    default="1min",
    metavar="SPAN",
    help="the size of the windows whose results are waited for",
)
@option("--by-window", is_flag=True, help="an event counts as late only if its window has closed")
@option(
    "--skew",
    type=IntRange(1, 1_000),
    default=4,
    help="in the replay, how much faster one partition is read; 1: none",
)
@option("--fast", metavar="NAME", help="that partition; without it, the one with most events")
@option("--limit", type=IntRange(1, 10**12), help="look at so many events at most: a log's newest, the first of files")
@option("--svg", type=click.Path(path_type=Path), metavar="FILE", help="write a picture of it to this file")
@prints
def command(
    *,
    files: tuple[Path, ...],
    servers: str | None,
    topic: str | None,
    settings: Path | None,
    path: Path | None,
    field: str | None,
    arrived: str | None,
    partition: str | None,
    key: str | None,
    unit: str,
    prefix: int,
    delays: tuple[int, ...],
    window_ms: int,
    by_window: bool,
    skew: int,
    fast: str | None,
    limit: int | None,
    svg: Path | None,
    output: Output,
) -> int:
    """Say what a watermark of greatest time less a delay loses: of a topic, an embedded log, or files.

    For each delay: how many events come when the watermark has passed them, how long results wait, and what a replay
    loses that reads one partition faster. Nothing is changed, and no controller is needed. Ctrl-C ends the reading, and
    shows what was read.
    """
    fields = EventFields(field, arrived, partition, key, unit)
    if bool(files) + bool(path) + bool(servers or topic) != 1:
        raise click.UsageError(
            "Name what to read: files, or --path for an embedded log, or --servers and --topic for Kafka; one of these."
        )
    try:
        source: Source = (
            FileSource(files, fields, limit)
            if files
            else LogSource(log_at(path, servers, topic, settings), fields, limit)
        )
        try:
            found = _assess(source, fields, delays, window_ms, by_window, prefix, skew, fast)
        finally:
            source.close()
    except StrandlineError as error:
        raise Failure(str(error)) from None
    name = ", ".join(map(str, files)) or str(path or topic)
    if svg is not None:
        try:
            svg.write_text(picture(name, found.arrived, found.replayed, found.fast, skew), encoding="utf-8")
        except OSError as error:
            raise Failure(f"{svg} cannot be written: {error.strerror}") from None
    output.show(_json(found, skew), lambda: _lines(name, found, skew, output.times))
    return INTERRUPTED_STATUS if found.stopped else 0


@dataclass(frozen=True, slots=True)
class _Measured:
    arrived: Assessed
    replayed: Assessed | None
    fast: str | None
    unreadable: int
    unreadable_last: str
    stopped: bool
    unit: Unit | None  # that times look like which were read in another one
    rests_on: str


def _assess(
    source: Source,
    fields: EventFields,
    delays: tuple[int, ...],
    window_ms: int,
    by_window: bool,
    prefix: int,
    skew: int,
    fast: str | None,
) -> _Measured:
    def assessment() -> Assessment:
        return Assessment(
            delays, window_ms=window_ms, by_window=by_window, prefix_characters=prefix, names=ASSESS_NAMES
        )

    counted = assessment()
    stopped = _drain(source, source.arrivals(), counted, "read")
    unreadable, example = source.unreadable, source.unreadable_example
    if not counted.events:
        raise Failure(f"no event has a time: {example}" if unreadable else "there is no event")
    arrived = counted.result()
    names = [each.whose for each in arrived.partitions if each.whose is not None]
    if fast is not None and fast not in names:
        there = f"they are {', '.join(names[:10])}" if any(names) else "--partition names the field that has them"
        raise Failure(f"there is no partition {fast!r}: {there}")
    replayed = None
    if skew > 1 and len(names) > 1 and not stopped:
        most = max(arrived.partitions, key=lambda each: (each.whose is not None, each.events))
        fast = fast if fast is not None else most.whose
        again = assessment()
        assert fast is not None
        stopped = _drain(source, skewed(source.arrivals(), source.arrivals(), fast, skew), again, "replayed")
        replayed = None if stopped else again.result()
    unit = fields.looks_like(arrived.oldest, arrived.newest)
    fast = fast if replayed is not None else None
    return _Measured(arrived, replayed, fast, unreadable, example, stopped, unit, source.rests_on)


def _drain(source: Source, events: Iterable[Arrival], into: Assessment, what: str) -> bool:
    """Takes all events; returns whether it was stopped by Ctrl-C before the end."""

    def far() -> str:
        share = source.share()
        of = f", {share:.0%}" if share is not None else ""
        return f"{what} {into.events:,} events{of}; Ctrl-C shows what was read"

    try:
        with progress(far):
            for each in events:
                into.take(each)
                if source.unreadable > ASSESS_UNREADABLE * max(1, into.events):
                    raise Failure(f"hardly any event has a time: {source.unreadable_example}")
    except KeyboardInterrupt:
        return True
    return False


# -- what is shown -------------------------------------------------------------------------------------------------


def _lines(name: str, found: _Measured, skew: int, times: Times) -> list[str]:
    total, arrived, replayed = found.arrived.total, found.arrived, found.replayed
    lines = [
        f"{name}: {total.events:,} events in {len(arrived.partitions)} partition(s), "
        f"{times.show(arrived.oldest)} to {times.show(arrived.newest)}"
    ]
    if found.unit is not None:
        lines.append(f"these times look like {found.unit.word}: use --unit {found.unit}")
    if found.rests_on:
        lines.append(found.rests_on)
    if found.unreadable:
        lines.append(f"{found.unreadable:,} more have no time and were left out, the last one: {found.unreadable_last}")
    if found.stopped:
        lines.append("it was stopped: this is about what was read before" + ("" if replayed else ", without a replay"))
    lines += ["", *_by_delay(arrived, replayed), "", _enough("in this order", total)]
    if replayed is not None:
        what = f"in a replay that reads partition {found.fast} {skew} times as fast as the others"
        lines.append(_enough(what, replayed.total))
    for title, counted in (("partition", arrived.partitions), ("key", arrived.prefixes)):
        if len(counted) > 1 or (title == "key" and counted):
            lines += ["", *_by_name(title, counted, arrived.delays_ms)]
    return lines


def _by_delay(arrived: Assessed, replayed: Assessed | None) -> list[str]:
    header = ["delay", "late", "share"]
    header += ["late in replay", "share"] if replayed is not None else []
    header += ["results after", "99 %", "at most"] if arrived.waits else []
    rows = []
    for number, delay_ms in enumerate(arrived.delays_ms):
        row = [delay_text(delay_ms), *_late(arrived.total, number)]
        if replayed is not None:
            row += _late(replayed.total, number)
        if arrived.waits:
            waits = arrived.waits[number]
            row += [NOTHING] * 3 if waits is None else [span(waits.median_ms), span(waits.p99_ms), span(waits.most_ms)]
        rows.append(row)
    return listing(header, rows, none="no delay")


def _late(losses: Losses, number: int) -> list[str]:
    late = losses.late[number]
    share = 100 * late / losses.events
    return [f"{late:,}", f"{share:.1f} %" if share >= 0.05 or not late else "< 0.1 %"]


def _enough(order: str, losses: Losses) -> str:
    return f"To lose nothing {order}, the delay has to be {span(losses.most_behind_ms)} ({losses.most_behind_ms} ms)."


def _by_name(title: str, counted: tuple[Losses, ...], delays_ms: tuple[int, ...]) -> list[str]:
    """A line for each, with the delays for which something is late."""
    shown = [number for number in range(len(delays_ms)) if number == 0 or any(each.late[number] for each in counted)]
    header = [title, "events", "most behind", *(f"late at {delay_text(delays_ms[number])}" for number in shown)]
    rows = [
        [
            "(others)" if each.whose is None else each.whose or '""',
            f"{each.events:,}",
            span(each.most_behind_ms),
            *(f"{each.late[number]:,}" for number in shown),
        ]
        for each in counted
    ]
    return listing(header, rows, none="none", most=ASSESS_ROWS_SHOWN)


def _json(found: _Measured, skew: int) -> dict[str, Any]:
    replayed = found.replayed
    return {
        **asdict(found.arrived),
        "replay": None if replayed is None else {"fast": found.fast, "skew": skew, "total": asdict(replayed.total)},
        "without_time": found.unreadable,
        "stopped": found.stopped,
        "times_look_like": found.unit,
        "rests_on": found.rests_on or None,
    }
