"""`strandline audit`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, astuple, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
from click import IntRange

from controller.cli import INTERRUPTED_STATUS
from controller.cli.client import ControllerClient, calls_controller
from controller.cli.named_log import NamedLog, reads_log
from controller.cli.options import (
    key_option,
    option,
    position,
    stream_argument,
)
from controller.cli.screen import Output, listing, prints
from controller.operators.wording import NOTHING, Times, key_name, named, offsets, span
from controller.terminal import Failure, progress
from reader_client.log_checks.audit import AUDIT_WRITERS, AuditedStream, AuditRun
from reader_client.log_checks.event_sources import ASSESS_ROWS_SHOWN, CheckFailed, EventFields
from reader_client.log_checks.promises import AuditCounts, LateCounts, LateEvent, NotedWriter, could_have_written
from strandline.client import calls
from strandline.core.config import TimeDomain
from strandline.core.segment import SegmentGraph
from strandline.core.time_units import Unit
from strandline.errors import StrandlineError
from strandline.limits import PAGE_ENTRIES

AUDIT_NAMED: Final = 20  # late events that are named, unless --most has another number
AUDIT_NAMED_BOUND: Final = 10_000
AUDIT_WRITERS_NAMED: Final = 20  # for one event; beside it in the table, fewer

BROKEN_STATUS = 1
NAMES_IN_A_CELL = 3


@click.command
@stream_argument
@reads_log
@option("--record-time", is_flag=True, help="an event's time is that of its record; the default in ingestion time")
@option("--writer", metavar="NAME", help="the field with the name of an event's writer, if there is one")
@key_option
@option("--from", "begin", type=position, default="", metavar="POSITION", help="begin there, as 0=5,1=7")
@option(
    "--state",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="begin where the last audit ended that wrote this file, and write it for the next one",
)
@option("--most", type=IntRange(0, AUDIT_NAMED_BOUND), default=AUDIT_NAMED, help="name so many late events")
@option("--strict", is_flag=True, help="exit with 1 also if only writers that marks leave out were late")
@calls_controller
@prints
def command(
    client: ControllerClient,
    stream: str,
    log: NamedLog,
    field: str | None,
    unit: str | None,
    record_time: bool,
    writer: str | None,
    key: str,
    begin: Mapping[str, int],
    state: Path | None,
    most: int,
    strict: bool,
    output: Output,
) -> int:
    """Compare a stream's log with its marks: did every writer keep its word? Nothing is changed.

    Names each event that is older than a mark whose cut does not lie above it, and who could have written it. Exits
    with 0 if there is none, and with 1 if there is one, or if the times of events look to be in another --unit, in
    which nothing is judged. Ctrl-C ends the reading, and shows what was found.
    """
    if field is not None and record_time:
        raise click.UsageError("An event has one time: give --field or --record-time, not both.")
    audited = _stream(client, stream, key, timed=record_time or field is not None)
    place = log.place(stream)
    fields = EventFields(field, unit=unit or Unit.MILLISECONDS, writer=writer)
    name = log.name(stream)
    try:
        run = AuditRun(client.connection, audited, place, fields, log_name=name, most=most, state=state, begin=begin)
        _check_segments(audited, str(place), run)
        with progress(run.far):
            run.run()
    except CheckFailed as failed:
        raise Failure(str(failed)) from None
    total, late = _total(run.counts), _named(client, audited, run)
    output.show(_json(audited, run, total, late), lambda: _lines(audited, run, total, late, state, output.times))
    if run.stopped:
        return INTERRUPTED_STATUS
    return BROKEN_STATUS if total.broken or (strict and total.left_out) else 0


# -- the stream ----------------------------------------------------------------------------------------------------


def _stream(client: ControllerClient, name: str, key: str, *, timed: bool) -> AuditedStream:
    """Raises Failure for a key that the stream does not have, and UsageError if it must be said which time is meant."""
    answer = client.ask(calls.describe(name))
    described = answer.value
    marked = described.latest_marks
    if marked and key not in marked:
        raise Failure(f"{name} has no mark in key {key_name(key)}: it has {', '.join(map(key_name, sorted(marked)))}")
    if not timed and described.config.time_domain is TimeDomain.EVENT:
        raise click.UsageError(
            "Name the field that has the time of an event with --field; "
            "or give --record-time, if writers note the time of the log's records."
        )
    first = client.run(calls.marks(name, key=key, limit=1)).marks
    oldest = first[0].seq if first else None
    return AuditedStream(name, key, answer.json["created_at"], answer.json["open"], oldest, described)


def _check_segments(stream: AuditedStream, log: str, run: AuditRun) -> None:
    """A log that shares no segment with the stream is another one's."""
    known = [each.segment.id for each in stream.described.segments]
    if known and run.ends and not set(known) & run.ends.keys():
        theirs, ours = ", ".join(list(run.ends)[:5]), ", ".join(known[:5])
        raise Failure(f"{log} has the segments {theirs}, and {stream.name} has {ours}: is it the log of this stream?")


# -- who could have written it -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Named:
    """A late event, the seq of its mark, the writers that marks leave out if that explains it, those that could have
    written it, the likeliest first, and how many more noted its segment."""

    late: LateEvent
    mark_seq: int | None
    left_out_writers: list[str]
    could_have_written: list[NotedWriter]
    could_have_written_more: int


def _named(client: ControllerClient, stream: AuditedStream, run: AuditRun) -> list[_Named]:
    """What is known of the late events that are named."""
    by_segment, more = _suspects(client, stream, {late.segment for late in run.late})

    @cache
    def seq(time: int) -> int | None:
        mark = client.run(calls.marks_at(stream.name, time, key=stream.key)).floor
        return mark.seq if mark is not None and mark.time == time else None

    found = []
    for late in run.late:
        left_out = run.left_out(late) if late.left_out else []
        writers = could_have_written(late, by_segment[late.segment])
        others = more[late.segment] + max(0, len(writers) - AUDIT_WRITERS_NAMED)
        found.append(_Named(late, seq(late.mark_time), left_out, writers[:AUDIT_WRITERS_NAMED], others))
    return found


def _suspects(
    client: ControllerClient, stream: AuditedStream, segments: set[str]
) -> tuple[dict[str, list[NotedWriter]], Counter[str]]:
    """Whom the controller knows to have noted these segments, and how many more there are. It knows the newest note of
    each."""
    by_segment: dict[str, list[NotedWriter]] = {segment: [] for segment in segments}
    more: Counter[str] = Counter()
    graph = SegmentGraph([each.segment for each in stream.described.segments], open=stream.open)
    after: str | None = "" if segments else None
    while after is not None:
        page = client.run(calls.list_writers(stream.name, after, PAGE_ENTRIES))
        for each in page.writers:
            for segment, offset in _noted(graph, each.position, segments).items():
                if len(by_segment[segment]) < AUDIT_WRITERS:
                    time = each.times.get(stream.key)
                    by_segment[segment].append(NotedWriter(each.writer, each.state, offset, time))
                else:
                    more[segment] += 1
        after = page.next
    return by_segment, more


def _noted(graph: SegmentGraph, position: Mapping[str, int], segments: set[str]) -> dict[str, int]:
    """How far a position reaches into each of these segments, if it does."""
    try:
        whole = graph.cut(position).offsets
    except StrandlineError:  # it names a segment that came into being meanwhile
        whole = dict(position)
    return {segment: whole[segment] for segment in segments if whole.get(segment)}


# -- what is shown -------------------------------------------------------------------------------------------------


def _total(counts: Mapping[str, AuditCounts]) -> AuditCounts:
    """What is said of the events of all segments."""
    each = [astuple(one) for one in counts.values()]
    most = max((one.most_late_ms for one in counts.values()), default=0)
    return replace(AuditCounts(*map(sum, zip(*each, strict=True))), most_late_ms=most)


def _lines(
    stream: AuditedStream, run: AuditRun, total: AuditCounts, late: list[_Named], state: Path | None, times: Times
) -> list[str]:
    newest = "there is no mark yet" if stream.newest is None else f"marks up to {times.show(stream.newest)}"
    lines = [
        f"{stream.name}: {total.events:,} events in {len(run.ends)} segment(s), {newest}: {_verdict(stream, total)}"
    ]
    lines += _notes(stream, run, total)
    if late:
        lines += [*_by("segment", run.counts), *_by("writer", run.writers), ""]
        lines += _late(late, total.broken + total.left_out, times)
    if run.stopped:
        there = f"with --state {state}" if state is not None else f"with --from {offsets(run.position)}"
        lines += ["", f"it was stopped: this is about what was read before; go on {there}"]
    return lines


def _verdict(stream: AuditedStream, total: AuditCounts) -> str:
    if total.broken:
        return f"{total.broken:,} broke a promise"
    if not total.events:
        return "nothing to judge"
    if stream.oldest is None or (stream.oldest > 1 and total.events == total.unpromised):
        return "nothing is known of what was promised"
    return "no promise is known to be broken" if total.left_out else "every promise was kept"


def _notes(stream: AuditedStream, run: AuditRun, total: AuditCounts) -> list[str]:
    """What else there is to know, a line each."""
    lines = []
    if total.left_out:
        more = " more" if total.broken else ""
        lines.append(
            f"{total.left_out:,}{more} are late, but the marks leave out a writer (lost, excluded or behind) "
            f"which may have written them"
        )
    if total.unpromised and stream.oldest is not None and stream.oldest > 1:
        lines.append(
            f"{total.unpromised:,} lie below the first mark that is kept ({stream.oldest}): they cannot be judged"
        )
    if total.without_time:
        example = run.unreadable_example
        lines.append(f"{total.without_time:,} more have no time and were left out, one of them: {example}")
    if run.removed:
        lines.append(f"{run.removed:,} offsets lie below where the log begins now: they cannot be judged")
    for segment, offset in run.undecided.items():
        lines.append(
            f"segment {segment}: from offset {offset} on nothing was judged, since a transaction is open there: audit "
            "again later"
        )
    for segment, offset in run.beyond.items():
        lines.append(
            f"segment {segment}: marks reach to {offset}, and the log ends before: it lost events, or is another log"
        )
    return lines


def _by(what: str, counts: Mapping[str, LateCounts]) -> list[str]:
    """The segments or writers with late events, the worst first."""
    worst = sorted(counts.items(), key=lambda each: (-each[1].broken, -each[1].left_out, each[0]))
    rows = [
        [name, f"{each.broken:,}", f"{each.left_out:,}", span(each.most_late_ms)]
        for name, each in worst
        if each.broken or each.left_out
    ]
    header = (what, "broke a promise", "left out", "most late")
    return ["", *listing(header, rows, none="none", most=ASSESS_ROWS_SHOWN)] if rows else []


def _late(named: list[_Named], count: int, times: Times) -> list[str]:
    rows = [
        [
            each.late.segment,
            each.late.offset,
            times.show(each.late.time),
            times.show(each.late.mark_time) + (f" (seq {each.mark_seq})" if each.mark_seq is not None else ""),
            span(each.late.late_by_ms),
            _whose(each),
        ]
        for each in named
    ]
    header = ("segment", "offset", "time", "older than mark", "by", "written by")
    return listing(header, rows, none="none", count=count, more="--most names more")


def _whose(found: _Named) -> str:
    late, names = found.late, [each.writer for each in found.could_have_written]
    if late.writer is not None:
        return f"{late.writer} (left out)" if late.left_out else late.writer
    if late.left_out:
        return f"perhaps {named(found.left_out_writers, NAMES_IN_A_CELL)} (left out)"
    count = len(names) + found.could_have_written_more
    return f"perhaps {named(names, NAMES_IN_A_CELL, count)}" if names else NOTHING


def _json(stream: AuditedStream, run: AuditRun, total: AuditCounts, late: list[_Named]) -> dict[str, Any]:
    return {
        "stream": stream.name,
        "key": stream.key,
        "oldest_mark_seq": stream.oldest,
        "newest_mark_time": stream.newest,
        **asdict(total),
        "segments": [
            {"segment": segment, "from": run.starts[segment], "to": run.ends[segment], **asdict(each)}
            for segment, each in run.counts.items()
        ],
        "late": [
            {**each.pop("late"), "late_by_ms": one.late.late_by_ms, **each}
            for one, each in zip(late, map(asdict, late), strict=True)
        ],
        "writers": {writer: asdict(each) for writer, each in run.writers.items()},
        "removed_offsets": run.removed,
        "undecided": run.undecided,
        "beyond_the_log": run.beyond,
        "position": run.position,
        "stopped": run.stopped,
    }
