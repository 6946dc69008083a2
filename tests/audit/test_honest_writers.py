"""Writers that keep their word are never accused, whatever happens to them: marks name those that they leave out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from reader_client.log_checks.promises import LeftOut, SegmentAudit
from strandline.core.chain import MarkChain
from strandline.core.config import StreamConfig
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.core.segment import SegmentGraph
from strandline.core.stream import Stream
from strandline.core.time_index import time_index

TIMEOUT_MS = 20
WRITERS, SEGMENTS = "abc", "01"
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(WRITERS), st.sampled_from(SEGMENTS), st.integers(0, 30)),
        st.tuples(st.just("note"), st.sampled_from(WRITERS), st.just("0"), st.integers(0, 30)),
        st.tuples(
            st.sampled_from(["exclude", "include", "register"]), st.sampled_from(WRITERS), st.just("0"), st.just(0)
        ),
        st.tuples(st.just("wait"), st.just("a"), st.just("0"), st.integers(1, TIMEOUT_MS + 5)),
    ),
    max_size=60,
)


class Honest:
    """Three registered writers of one log. Each writes nothing below the floor that it was given and its own notes."""

    def __init__(self, late_writers: str) -> None:
        settings = {"mark_interval_ms": 0, "max_ahead_ms": None, "writer_timeout_ms": TIMEOUT_MS}
        config = StreamConfig().changed(**settings, late_writers=late_writers)
        self.stream = Stream("orders", config, SegmentGraph.equal_shares(2, created_at=0), now=0)
        self.now = 0
        self.log: dict[str, list[tuple[int, str]]] = {segment: [] for segment in SEGMENTS}
        self.promised = dict.fromkeys(WRITERS, 0)
        self.marks: list[Mark] = []
        for writer in WRITERS:
            self.stream.register(writer, None, 0)

    def take(self, what: str, writer: str, segment: str, amount: int) -> None:
        self.marks += self.stream.advance(self.now)
        match what:
            case "write":
                self.log[segment].append((self.promised[writer] + amount, writer))
            case "note":
                self.promised[writer] += amount
                position = {segment: len(events) for segment, events in self.log.items()}
                note = Note(writer=writer, times={"": self.promised[writer]}, position=position)
                self.marks += self.stream.note(note, self.now).marks
            case "exclude":
                self.marks += self.stream.exclude(writer, self.now)
            case "include":
                self.marks += self.stream.include(writer, self.now)
            case "register":
                floor = self.stream.register(writer, None, self.now).floors[""]
                self.promised[writer] = max(self.promised[writer], floor or 0)
            case "wait":
                self.now += amount

    def audited(self, *, named: bool) -> list[SegmentAudit]:
        absences = LeftOut()
        for mark in self.marks:
            absences.take(mark.time, mark.excluded)
        found = []
        for segment, events in self.log.items():
            entries, _ = time_index(MarkChain(self.marks), segment, limit=10_000)
            audit = SegmentAudit(segment, 0, entries, absences.by_all_marks)
            for offset, (time, writer) in enumerate(events):
                audit.check(offset, time, writer=writer if named else None)
            found.append(audit)
        return found


@given(STEPS, st.sampled_from(["hold", "skip"]), st.booleans())
def test_writers_that_kept_their_word_broke_no_promise(
    steps: list[tuple[str, str, str, int]], late_writers: str, named: bool
) -> None:
    honest = Honest(late_writers)
    for step in steps:
        honest.take(*step)
    assert [each.counts.broken for each in honest.audited(named=named)] == [0, 0]


def test_a_lost_writer_that_comes_back_is_late_without_a_broken_promise() -> None:
    honest = Honest("hold")
    for writer in WRITERS:
        honest.take("note", writer, "0", 10)
    for _ in range(2):
        honest.take("wait", "a", "0", TIMEOUT_MS)
        honest.take("note", "a", "0", 10)
        honest.take("note", "b", "0", 10)
    honest.take("write", "c", "0", 5)
    (audit, _) = honest.audited(named=True)
    assert (audit.counts.left_out, audit.counts.broken) == (1, 0)
