"""The judge: given everything written, every mark, and all that writers were told, which events were late in silence?

An event is late for a mark (T, C) when it is older than T and not below C. That is said, and so allowed, when

    the mark is incomplete and names the event's writer,
    or the note that covered the event was answered with a floor above the event's time, as every late one is,
    or the last word to the process that wrote it was a refusal, after the event.

Nothing here knows how marks are made.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from strandline.core.segment import Segment
from strandline.wire.streams import WireMark


@dataclass(frozen=True, slots=True, order=True)
class Written:
    """An event as it stands in the log. `process` is the life of the writer that wrote it, `number` counts in it."""

    process: str
    number: int
    time: int
    segment: str
    offset: int

    @property
    def writer(self) -> str:
        return self.process.partition("#")[0]


@dataclass(frozen=True, slots=True)
class Told:
    """What a process was told after it had written so many events: an answer to its note, or a refusal."""

    written: int
    refused: str | None = None
    late: bool = False
    floor: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that is known at the end."""

    events: Sequence[Written]
    marks: Sequence[WireMark]
    told: Mapping[str, Sequence[Told]]  # by process, in order
    segments: Sequence[Segment]


@dataclass(slots=True)
class Judgement:
    """What came of it: `silent` must be empty; the rest says that the story was one worth telling."""

    silent: list[tuple[Written, WireMark]] = field(default_factory=list)
    said: dict[str, int] = field(default_factory=dict)  # late events by what told of them
    disorder: list[str] = field(default_factory=list)


def judge(evidence: Evidence) -> Judgement:
    """Looks at every event beside every mark that it could be late for."""
    result = Judgement(disorder=_disorder(evidence))
    reach = _Reach(evidence.segments)
    times = [mark.time for mark in evidence.marks]
    for event in evidence.events:
        # Cuts never go back (or `disorder` says so), so after one that holds the event all others do.
        for mark in evidence.marks[bisect_right(times, event.time) :]:
            if reach.is_below(event, mark.cut):
                break
            told = _told_of(event, mark, evidence.told.get(event.process, ()))
            if told is None:
                result.silent.append((event, mark))
            else:
                result.said[told] = result.said.get(told, 0) + 1
    return result


def _told_of(event: Written, mark: WireMark, told: Sequence[Told]) -> str | None:
    """What told of a late event, if anything did."""
    if event.writer in mark.excluded and not mark.complete:
        return "incomplete"
    after = [each for each in told if each.written > event.number]
    answer = next((each for each in after if each.refused is None), None)
    if answer is not None:
        return "late" if answer.floor is not None and answer.floor > event.time else None
    return after[-1].refused if after else None


class _Reach:
    """What lies below a cut as it comes off the wire: naming a successor means its predecessors are wholly below."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._successors: dict[str, list[str]] = {}
        for segment in segments:
            for predecessor in segment.predecessors:
                self._successors.setdefault(predecessor, []).append(segment.id)

    def is_below(self, event: Written, cut: Mapping[str, int]) -> bool:
        if event.offset < cut.get(event.segment, 0):
            return True
        return any(self._begun(successor, cut) for successor in self._successors.get(event.segment, ()))

    def _begun(self, segment: str, cut: Mapping[str, int]) -> bool:
        if cut.get(segment, 0) > 0:
            return True
        return any(self._begun(successor, cut) for successor in self._successors.get(segment, ()))


def _disorder(evidence: Evidence) -> list[str]:
    """Marks whose time or cut went back, or that contradict themselves."""
    found = []
    reach = _Reach(evidence.segments)
    for before, after in zip(evidence.marks, evidence.marks[1:], strict=False):
        if after.time <= before.time or after.seq != before.seq + 1:
            found.append(f"mark {after.seq} at {after.time} follows mark {before.seq} at {before.time}")
        for segment, offset in before.cut.items():
            if offset and not reach.is_below(Written("", 0, 0, segment, offset - 1), after.cut):
                found.append(f"mark {after.seq} goes back in {segment}: {dict(before.cut)} → {dict(after.cut)}")
    found += [
        f"mark {mark.seq} is complete without {mark.excluded}"
        for mark in evidence.marks
        if mark.complete and mark.excluded
    ]
    return found
