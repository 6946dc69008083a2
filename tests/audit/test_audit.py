"""Whether events keep what marks promised: the same as comparing each event with each mark."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from reader_client.log_checks.promises import (
    LateEvent,
    LeftOut,
    NotedWriter,
    SegmentAudit,
    could_have_written,
)
from strandline.core.chain import MarkChain
from strandline.core.cut import Cut
from strandline.core.mark import Mark
from strandline.core.time_index import time_index


@dataclass(frozen=True, slots=True)
class Placed:
    """An event in segment "0"."""

    offset: int
    time: int
    writer: str | None = None


def mark(seq: int, time: int, offset: int, excluded: Iterable[str] = ()) -> Mark:
    return Mark(
        seq=seq,
        key="",
        time=time,
        upper=time,
        cut=Cut({"0": offset, "1": seq}),
        newest=None,
        excluded=tuple(sorted(excluded)),
        created_at=0,
    )


def absences(marks: Iterable[Mark]) -> LeftOut:
    found = LeftOut()
    for each in marks:
        found.take(each.time, each.excluded)
    return found


def begun(marks: Sequence[Mark], start: int = 0) -> SegmentAudit:
    entries, _ = time_index(MarkChain(marks), "0", start, limit=1_000)
    return SegmentAudit("0", start, entries, absences(marks).by_all_marks)


def audited(marks: Sequence[Mark], events: Iterable[Placed]) -> tuple[SegmentAudit, list[LateEvent]]:
    audit = begun(marks)
    found = [audit.check(each.offset, each.time, writer=each.writer) for each in events]
    return audit, [each for each in found if each is not None]


@st.composite
def histories(draw: st.DrawFn) -> list[Mark]:
    marks: list[Mark] = []
    time = offset = 0
    first = draw(st.integers(1, 3))  # older marks may have been pruned
    for seq in range(first, first + draw(st.integers(0, 8))):
        time += draw(st.integers(1, 4))
        offset += draw(st.integers(0, 4))
        marks.append(mark(seq, time, offset, draw(st.sets(st.sampled_from("xyz")))))
    return marks


@st.composite
def logs(draw: st.DrawFn) -> list[Placed]:
    offset, events = 0, []
    for _ in range(draw(st.integers(0, 20))):
        offset += draw(st.integers(0, 2))  # a log may have offsets without an event
        events.append(Placed(offset, draw(st.integers(0, 30)), draw(st.sampled_from([None, "x", "y", "other"]))))
        offset += 1
    return events


@given(histories(), logs())
def test_events_are_judged_as_if_each_was_compared_with_each_mark(marks: list[Mark], events: list[Placed]) -> None:
    audit, late = audited(marks, events)
    wanted, unpromised = [], 0
    for each in events:
        passed = [one for one in marks if one.cut.offset("0") <= each.offset]
        unpromised += not passed
        broken = [one for one in passed if each.time < one.time]
        if broken:
            by_all = set.intersection(*(set(one.excluded) for one in broken))
            told = bool(by_all) if each.writer is None else each.writer in by_all
            wanted.append((each.offset, each.time, broken[-1].time, told))
            named = absences(marks).writers(each.time, broken[-1].time)
            assert named == sorted(by_all)
    assert [(each.offset, each.time, each.mark_time, each.left_out) for each in late] == wanted
    counts = audit.counts
    assert (counts.events, counts.unpromised) == (len(events), unpromised)
    assert (counts.left_out, counts.broken) == (sum(w[3] for w in wanted), sum(not w[3] for w in wanted))
    assert counts.most_late_ms == max((mark_time - time for _, time, mark_time, _ in wanted), default=0)


@given(histories(), logs(), st.data())
def test_an_audit_that_goes_on_settles_each_event_once(
    marks: list[Mark], events: list[Placed], data: st.DataObject
) -> None:
    whole, wanted = audited(marks, events)
    end = events[-1].offset + 1 if events else 0
    whole.end(end)
    found: dict[int, LateEvent] = {}
    position = 0
    for known in [*sorted(data.draw(st.lists(st.integers(0, len(marks)), max_size=3))), len(marks)]:
        part = begun(marks[:known], position)
        late = [part.check(each.offset, each.time, writer=each.writer) for each in events if each.offset >= position]
        part.end(end)
        assert part.position >= position
        found = {offset: one for offset, one in found.items() if offset < position}
        found |= {one.offset: one for one in late if one is not None}
        position = part.position
    assert (list(found.values()), position) == (wanted, whole.position)


#     mark          1        2        3
#     time          10       20       30
#     offset        0        4        8
THREE = [mark(1, 10, 0), mark(2, 20, 4, "x"), mark(3, 30, 8)]


def test_an_event_at_the_cut_may_be_as_old_as_the_mark_and_not_older() -> None:
    _, late = audited(THREE, [Placed(3, 10), Placed(4, 20), Placed(5, 19), Placed(8, 29)])
    assert [(each.offset, each.mark_time, each.late_by_ms) for each in late] == [(5, 20, 1), (8, 30, 1)]


def test_whom_one_of_the_marks_counts_is_no_excuse() -> None:
    # x is left out by the mark of 20 alone: what is older than 10 is late for that of 10 too
    events = [Placed(5, 10), Placed(6, 9), Placed(7, 10, "x"), Placed(7, 10, "y")]
    assert [each.left_out for each in audited(THREE, events)[1]] == [True, False, True, False]


def test_what_lies_at_or_above_the_newest_cut_is_judged_again_later() -> None:
    audit, _ = audited(THREE, [Placed(6, 5), Placed(7, 5)])
    assert audit.position == 8
    audit.check(8, 5)
    assert (audit.counts.broken, audit.position) == (3, 8)
    assert (audit.end(9), audit.position) == (8, 8)
    further = begun(THREE, 12)
    assert (further.end(12), further.position) == (8, 12)


def test_an_event_without_a_time_is_counted() -> None:
    audit = begun(THREE)
    audit.skip(2)
    audit.skip(9)
    assert (audit.counts.without_time, audit.counts.events) == (2, 0)


def test_those_who_noted_past_an_event_and_its_time_are_named_first() -> None:
    late = LateEvent("0", 5, 12, 20, 0, None, left_out=False)
    writers = [
        NotedWriter("younger", "active", 9, 11),
        NotedWriter("shorter", "active", 5, 15),
        NotedWriter("past", "active", 6, 13),
        NotedWriter("elsewhere", "active", 0, 99),
        NotedWriter("joined", "joined", 3, None),
    ]
    named = [each.writer for each in could_have_written(late, writers)]
    assert named == ["past", "shorter", "joined", "younger"]
