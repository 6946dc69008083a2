"""Finds where reading begins and ends: at the head, at positions, or at a time, by the marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Final, assert_never

from spark_integration.errors import NotYetComplete
from spark_integration.offsets import begun
from spark_integration.options import AtEnd, AtHead, AtPositions, AtTime, ReadEnd, ReadStart, SourceOptions
from spark_integration.window_calls import WINDOW_FIRST_PAUSE_MS, WINDOW_PAUSE_BOUND_MS, ControllerWindows
from strandline.core.segment import Segment, SegmentGraph

if TYPE_CHECKING:
    from strandline.logs import LogReader
    from strandline.wire.streams import StreamDescription, WireMark


START_SEARCH_STEPS: Final = 64  # of the search for a mark below a time; each step back is twice the one before

Positions = dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Beginning:
    """Where reading starts. `doubt` says why events of the requested range may be missing; None: none are."""

    positions: Mapping[str, int]
    doubt: str | None = None
    widened: str | None = None  # why it starts earlier than necessary; no events are missing


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteMark:
    """A mark in the range that excludes writers: they may have older events, still to be written."""

    time: int
    excluded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRange:
    """The range of a batch read, and the reasons why it may be inexact."""

    beginning: Beginning
    end: Mapping[str, int]
    incomplete: tuple[IncompleteMark, ...]

    def remarks(self) -> list[str]:
        """Returns warnings about the range, as sentences."""
        sentences = [text for text in (self.beginning.doubt, self.beginning.widened) if text is not None]
        if self.incomplete:
            first = self.incomplete[0]
            names = sorted({name for mark in self.incomplete for name in mark.excluded})
            sentences.append(
                f"{len(self.incomplete)} of the marks in the range are incomplete, the first at {first.time}: they "
                f"exclude {', '.join(names)}, whose older events may have come later, or may still come"
            )
        return sentences


def opened(positions: Mapping[str, int], segments: Sequence[Segment]) -> Positions:
    """Returns the positions, with the predecessors of named segments at their final offsets."""
    graph = SegmentGraph(segments, open=True)
    before = {name: graph[name].final_offset or 0 for name in graph.ancestors(positions)}
    return begun(before | dict(positions))


def begin(options: SourceOptions, log: LogReader, windows: ControllerWindows) -> Beginning:
    """Returns where reading starts in a log."""
    start: ReadStart = options.start
    match start:
        case AtHead():
            return Beginning(positions=begun(options.place.head()))
        case AtPositions(positions):
            return Beginning(positions=opened(positions, log.segments()))
        case AtTime(time, slack_ms):
            at = windows.marks_at(time)
            if at.exact:
                return Beginning(positions=opened(at.start, log.segments()))
            unknown = f"the marks have no newest, so where {time} begins is unknown: reading starts"
            mark = None if slack_ms is None else _noted_by(time - slack_ms, windows)
            if slack_ms is None or mark is None:
                why, head = f"{unknown} at the head", begun(options.place.head())
                if not head:
                    return Beginning(positions=head, widened=why)
                older = {} if at.floor is None else opened(at.floor.cut, log.segments())
                # Below the head, where reading raises NotInLog, if a part above the last mark before the time is gone.
                positions = {segment: min(offset, older.get(segment, 0)) for segment, offset in head.items()}
                doubt = f"{why}, and retention may have removed events of that time before it"
                return Beginning(positions=begun(positions), doubt=doubt)
            why = (
                f"{unknown} where all writers had noted {time - slack_ms}, and misses events written more than "
                f"{slack_ms} ms ahead of their note"
            )
            return Beginning(positions=opened(mark.cut, log.segments()), doubt=why)
        case _:
            assert_never(start)


def find_range(options: SourceOptions) -> ReadRange:
    """Returns the range of a batch read. Raises NotYetComplete if the end is unknown after `endingWait`."""
    with closing(ControllerWindows(options.access)) as windows, options.place.open_reader() as log:
        beginning, end = begin(options, log, windows), _end(options, log, windows)
        incomplete = tuple(
            IncompleteMark(time=mark.time, excluded=mark.excluded)
            for mark in _marks_between(beginning.positions, end, windows)
            if not mark.complete
        )
    return ReadRange(beginning=beginning, end=end, incomplete=incomplete)


def _end(options: SourceOptions, log: LogReader, windows: ControllerWindows) -> Positions:
    end: ReadEnd = options.end
    match end:
        case AtEnd():
            return log.end_offsets()
        case AtPositions(positions):
            return opened(positions, log.segments())
        case AtTime(time):
            return _complete_to(time, options, log, windows)
        case _:
            assert_never(end)


def _complete_to(time: int, options: SourceOptions, log: LogReader, windows: ControllerWindows) -> Positions:
    """Returns a cut that has every event older than `time` below it."""
    started_ms = windows.now_ms()
    while True:
        sought = time + options.max_event_time_lag_ms
        mark = windows.marks_at(sought).ceiling
        if mark is not None:
            return _shown(opened(mark.cut, log.segments()), options, log, windows)
        stream = windows.describe()
        if stream.sealed:
            return log.end_offsets()
        waited_ms = windows.now_ms() - started_ms
        if waited_ms >= options.ending_wait_ms:
            raise _not_yet(time, options, stream, round(waited_ms))
        windows.pause(min(WINDOW_PAUSE_BOUND_MS, options.ending_wait_ms - waited_ms))


def _shown(cut: Positions, options: SourceOptions, log: LogReader, windows: ControllerWindows) -> Positions:
    """Returns the cut once the log shows all of it: Kafka answers a commit, and writers note it, before it is shown."""
    started_ms = windows.now_ms()
    while windows.now_ms() - started_ms < options.access.wait_ms:
        ends = log.end_offsets()
        if all(offset <= ends.get(name, 0) for name, offset in cut.items()):
            break
        windows.pause(WINDOW_FIRST_PAUSE_MS)
    return cut


def _not_yet(time: int, options: SourceOptions, stream: StreamDescription, waited_ms: int) -> NotYetComplete:
    key = options.access.time_key
    newest, holder = stream.latest_marks.get(key), stream.held_by.get(key)
    return NotYetComplete(
        stream=options.access.stream,
        time=time,
        reached=None if newest is None else newest.time,
        held_by=None if holder is None else holder.writer or holder.state,
        waited_ms=waited_ms,
    )


def _noted_by(time: int, windows: ControllerWindows) -> WireMark | None:
    """Finds a late mark with `upper` <= `time`: no event noted at a later time lies below its cut."""
    sought, step = time, 1
    for _ in range(START_SEARCH_STEPS):
        mark = windows.marks_at(sought).floor
        if mark is None or mark.upper <= time:
            return mark
        sought, step = min(mark.time - 1, sought - step), step * 2
    return None


def _marks_between(start: Mapping[str, int], end: Mapping[str, int], windows: ControllerWindows) -> Iterator[WireMark]:
    """The marks that are passed between two positions, oldest first."""
    last = windows.time_window(begun(end)).mark_seq or 0
    after = windows.time_window(begun(start)).mark_seq or 0
    return takewhile(lambda mark: mark.seq <= last, windows.marks_after(after) if after < last else ())
