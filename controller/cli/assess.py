"""`strandline assess`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import click
from click import IntRange

from controller.cli import INTERRUPTED_STATUS
from controller.cli.named_log import NamedLog, reads_log
from controller.cli.options import duration, option
from controller.cli.screen import Output, listing, prints
from controller.operators.wording import NOTHING, Times, duration_text, span
from controller.terminal import Failure, progress
from reader_client.log_checks.assessment import Arrival, Assessed, Assessment, Losses, skewed
from reader_client.log_checks.event_sources import (
    ASSESS_ROWS_SHOWN,
    CheckFailed,
    EventFields,
    FileSource,
    LogSource,
    Source,
)
from strandline.core.time_units import Unit
from strandline.errors import StrandlineError

ASSESS_DELAYS: Final = "0,1s,2s,5s,10s,30s,1min,5min,1h"  # unless others are named
ASSESS_DELAYS_BOUND: Final = 50
ASSESS_DELAYS_BOUND_MS: Final = 366 * 86_400_000
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
@reads_log
@option("--arrived", metavar="NAME", help="the field with the time of an event's arrival; without it, a log's own")
@option("--partition", metavar="NAME", help="the field with the partition; without it, a log's own")
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
    help="in the replay, how much faster the partition with most events is read; 1: none",
)
@option("--limit", type=IntRange(1, 10**12), help="look at so many events at most: a log's newest, the first of files")
@prints
def command(
    *,
    files: tuple[Path, ...],
    log: NamedLog,
    field: str | None,
    unit: str | None,
    arrived: str | None,
    partition: str | None,
    delays: tuple[int, ...],
    window_ms: int,
    by_window: bool,
    skew: int,
    limit: int | None,
    output: Output,
) -> int:
    """Say what a watermark of greatest time less a delay loses: of a topic, an embedded log, or files.

    For each delay: how many events come when the watermark has passed them, how long results wait, and what a replay
    loses that reads one partition faster. In a log without --field, the time is that of the record. Nothing is changed,
    and no controller is needed. Ctrl-C ends the reading, and shows what was read.
    """
    if bool(files) + bool(log.path) + bool(log.servers or log.topic) != 1:
        raise click.UsageError(
            "Name what to read: files, or --path for an embedded log, or --servers and --topic for Kafka; one of these."
        )
    fields = EventFields(field, arrived, partition, unit or Unit.MILLISECONDS)
    try:
        if files:
            source: Source = FileSource(files, fields, limit)
        else:
            source = LogSource(log.place(), fields, limit)
        found = _assess(source, partial(Assessment, delays, window_ms=window_ms, by_window=by_window), skew)
    except (StrandlineError, CheckFailed) as error:
        raise Failure(str(error)) from None
    looks = fields.looks_like(found.arrived.oldest, found.arrived.newest) if unit is None else None
    if looks is not None:
        raise Failure(f"the times of these events look like {looks.word}, and no delay was tried: use --unit {looks}")
    name = ", ".join(map(str, files)) or str(log.path or log.topic)
    output.show(_json(found, skew, source.rests_on), lambda: _lines(name, found, skew, source, output.times))
    return INTERRUPTED_STATUS if found.stopped else 0


@dataclass(frozen=True, slots=True)
class _Measured:
    arrived: Assessed
    unreadable: int
    unreadable_last: str
    stopped: bool
    fast: str | None = None  # the partition that the replay reads faster
    replayed: Losses | None = None


def _assess(source: Source, assessment: Callable[[], Assessment], skew: int) -> _Measured:
    counted = assessment()
    stopped = _drain(source, source.arrivals(), counted, "read")
    unreadable, example = source.unreadable, source.unreadable_example
    if not counted.events:
        raise Failure(f"no event has a time: {example}" if unreadable else "there is no event")
    arrived = counted.result()
    named = [each for each in arrived.partitions if each.whose is not None]
    fast = max(named, key=lambda each: each.events).whose
    if skew == 1 or len(named) == 1 or stopped or fast is None:
        return _Measured(arrived, unreadable, example, stopped)
    again = assessment()
    if _drain(source, skewed(source.arrivals(), source.arrivals(), fast, skew), again, "replayed"):
        return _Measured(arrived, unreadable, example, stopped=True)
    return _Measured(arrived, unreadable, example, stopped=False, fast=fast, replayed=again.result().total)


def _drain(source: Source, events: Iterable[Arrival], into: Assessment, what: str) -> bool:
    """Takes all events; returns whether it was stopped by Ctrl-C before the end."""
    source.unreadable = 0
    of = "" if source.offsets is None else f", of {source.offsets:,} offsets"
    try:
        with progress(lambda: f"{what} {into.events:,} events{of}; Ctrl-C shows what was read"):
            for each in events:
                into.take(each)
                if source.unreadable > ASSESS_UNREADABLE * max(1, into.events):
                    raise Failure(f"hardly any event has a time: {source.unreadable_example}")
    except KeyboardInterrupt:
        return True
    return False


# -- what is shown -------------------------------------------------------------------------------------------------


def _lines(name: str, found: _Measured, skew: int, source: Source, times: Times) -> list[str]:
    arrived, replayed = found.arrived, found.replayed
    lines = [
        f"{name}: {arrived.total.events:,} events in {len(arrived.partitions)} partition(s), "
        f"{times.show(arrived.oldest)} to {times.show(arrived.newest)}"
    ]
    if source.rests_on:
        lines.append(source.rests_on)
    if found.unreadable:
        lines.append(f"{found.unreadable:,} more have no time and were left out, the last one: {found.unreadable_last}")
    if found.stopped:
        lines.append("it was stopped: this is about what was read before, without a replay")
    lines += ["", *_by_delay(arrived, replayed), "", _enough("in this order", arrived.total)]
    if replayed is not None:
        what = f"in a replay that reads partition {found.fast} {skew} times as fast as the others"
        lines.append(_enough(what, replayed))
    return [*lines, "", *_by_partition(arrived)] if len(arrived.partitions) > 1 else lines


def _by_delay(arrived: Assessed, replayed: Losses | None) -> list[str]:
    header = ["delay", "late", "share"]
    header += ["late in replay", "share"] if replayed is not None else []
    header += ["results after", "99 %", "at most"] if arrived.waits else []
    rows = []
    for number, delay_ms in enumerate(arrived.delays_ms):
        row = [duration_text(delay_ms), *_late(arrived.total, number)]
        if replayed is not None:
            row += _late(replayed, number)
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


def _by_partition(arrived: Assessed) -> list[str]:
    """A line for each, with the delays for which something is late."""
    shown = [number for number, late in enumerate(arrived.total.late) if number == 0 or late]
    header = ["partition", "events", "most behind"]
    header += [f"late at {duration_text(arrived.delays_ms[number])}" for number in shown]
    rows = [
        [
            "(others)" if each.whose is None else each.whose or '""',
            f"{each.events:,}",
            span(each.most_behind_ms),
            *(f"{each.late[number]:,}" for number in shown),
        ]
        for each in arrived.partitions
    ]
    return listing(header, rows, none="none", most=ASSESS_ROWS_SHOWN)


def _json(found: _Measured, skew: int, rests_on: str) -> dict[str, Any]:
    replayed = found.replayed
    return {
        **asdict(found.arrived),
        "replay": None if replayed is None else {"fast": found.fast, "skew": skew, "total": asdict(replayed)},
        "without_time": found.unreadable,
        "stopped": found.stopped,
        "rests_on": rests_on or None,
    }
