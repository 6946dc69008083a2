"""A stream that is written and loaded again is the stream that was written: it goes on exactly as if nothing were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import delete, select

from controller.commit.writer_log import WriterLog
from controller.storage import schema
from controller.storage.database import Database, open_database
from controller.storage.writer_states import StoredLog
from controller.streams.loaded_stream import LoadedStream
from strandline.core.config import LateWriters, StreamConfig
from strandline.core.mark import Mark
from strandline.core.note import Note
from strandline.core.segment import NewSegment, SegmentGraph
from strandline.core.stream import Stream
from strandline.errors import StrandlineError
from tests.storage.loads import load_stream, made
from tests.storage.writes import write

Call = Callable[[Stream, int], Any]

WRITERS = st.sampled_from(["a", "b", "c"])
KEYS = st.sampled_from(["", "k"])
OFFSETS = st.dictionaries(st.sampled_from(["0", "1", "2", "3"]), st.integers(0, 40), max_size=3)


@st.composite
def notes(draw: st.DrawFn) -> Call:
    times = draw(st.dictionaries(KEYS, st.integers(0, 60), min_size=1))
    newest = draw(st.dictionaries(KEYS, st.integers(0, 90)))
    note = Note(writer=draw(WRITERS), times=times, position=draw(OFFSETS), newest=newest)
    return lambda stream, now: stream.note(note, now)


@st.composite
def others(draw: st.DrawFn) -> Call:
    name, offsets = draw(WRITERS), draw(OFFSETS)
    keys = draw(st.sets(KEYS))
    calls: list[Call] = [
        lambda stream, now: stream.register(name, keys, now),
        lambda stream, now: stream.register(name, keys, now, "once"),
        lambda stream, now: stream.idle(name, None, now),
        lambda stream, now: stream.close(name, None, now),
        lambda stream, now: stream.exclude(name, now),
        lambda stream, now: stream.include(name, now),
        lambda stream, now: stream.truncate(offsets, now),
        lambda stream, now: stream.evaluate("", now),
        lambda stream, now: stream.configure({"late_writers": "skip"}, now),
        lambda stream, now: stream.scale({"0": 30}, [NewSegment("2", 0.0, 0.5)], now),
        lambda stream, now: stream.scale({"2": 35, "1": 40}, [NewSegment("3", 0.0, 1.0)], now),
        lambda stream, now: stream.drop_segment("3", now),
        lambda stream, now: stream.seal({}, now),
    ]
    return draw(st.sampled_from(calls))


STEPS = st.lists(
    st.tuples(st.one_of(notes(), notes(), notes(), others()), st.integers(0, 40), st.booleans(), st.booleans()),
    max_size=40,
)
CONFIGS = st.builds(
    StreamConfig,
    writer_timeout_ms=st.sampled_from([None, 0, 50]),
    min_writers=st.sampled_from([1, 2]),
    mark_interval_ms=st.sampled_from([None, 0, 30]),
    late_writers=st.sampled_from(list(LateWriters)),
    max_ahead_ms=st.none(),
    forget_after_ms=st.sampled_from([100, 10_000]),
)


class Kept:
    """A stream whose every flush is written to a real database."""

    def __init__(self, database: Database, stream: Stream) -> None:
        self._database = database
        self._live = made(stream)
        self._live.log = WriterLog("s", StoredLog(), states_per_writer=1)  # so that rows go all the time

    @property
    def stream(self) -> Stream:
        return self._live.stream

    def __getattr__(self, name: str) -> Any:
        """Every call of a stream, but for the one below."""
        return getattr(self._live.stream, name)

    def drop_segment(self, segment: str, now: int) -> None:
        self._live.drop_segment(segment, now)

    def flush(self) -> None:
        write(self._database, self._live)

    def load_again(self) -> None:
        self.flush()
        stored = load_stream(self._database.reader, self._live.name)
        assert stored is not None
        self._live = LoadedStream.loaded(stored, watch=lambda _: None, status=lambda _: b"{}")
        self._live.log = WriterLog("s", stored.log, states_per_writer=1)

    def marks(self) -> list[Mark]:
        return [mark for _, chain in sorted(self._live.chains.items()) for mark in chain]


def state(stream: Stream, now: int) -> object:
    """All that a caller can find out about a stream, and what later cuts are made of."""
    return (
        stream.config,
        list(stream.graph),
        (stream.sealed, stream.epochs, stream.head),
        (stream.last_marks, stream.remainders, stream.passed),
        {key: stream.held_by(key, now) for key in sorted(stream.keys)},
        {
            name: (
                (writer.heard_at, writer.tail, writer.epoch, writer.closed, writer.closed_epoch, writer.excluded_at),
                (writer.registration, writer.noted, writer.position, stream.states(writer)),
                {key: replaced(each, stream.last_marks.get(key)) for key, each in sorted(writer.key_states.items())},
            )
            for name, writer in sorted(stream.writers.items())
        },
    )


def replaced(key_state: Any, last: Mark | None) -> tuple[Any, ...]:
    fields = ("phase", "floor", "time", "earlier_time", "newest", "has_noted", "lost_at")
    needed = [kept for kept in key_state.history if last is None or kept.time > last.time]
    return *(getattr(key_state, name) for name in fields), needed


def answer(stream: Any, call: Call, now: int) -> object:
    try:
        return call(stream, now)
    except StrandlineError as error:
        return error.code, error.values


# The store is one for all examples, and each empties it.
@settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.function_scoped_fixture])
@given(config=CONFIGS, open=st.booleans(), steps=STEPS)
def test_a_stream_goes_on_exactly_however_often_it_is_written_and_loaded(
    store_url: str, config: StreamConfig, open: bool, steps: list[tuple[Call, int, bool, bool]]
) -> None:
    def made() -> Stream:
        graph = SegmentGraph(open=True) if open else SegmentGraph.equal_shares(2, 0)
        return Stream("s", config, graph, now=0)

    with open_database(store_url) as database:
        with database.writer.begin():
            database.writer.execute(delete(schema.stream))
            database.writer.execute(delete(schema.head))
        plain, kept = made(), Kept(database, made())
        now = 0
        marks: list[Mark] = []
        for call, wait, restart, flush in steps:
            now += wait
            assert answer(kept, call, now) == answer(plain, call, now)
            if restart:
                kept.load_again()
            elif flush:
                kept.flush()
            assert state(kept.stream, now) == state(plain, now)
            assert kept.stream.next_wake() == plain.next_wake()
            changes = plain.drain()
            marks += changes.marks
            for segment in changes.dropped:
                marks = [replace(mark, cut=mark.cut.without(segment)) for mark in marks]
        kept.load_again()
        assert kept.marks() == sorted(marks, key=lambda mark: (mark.key, mark.seq))


def test_a_segment_added_after_a_drop_and_restart_comes_last(store_url: str) -> None:
    #   places   b 1   z 2   a 3        b is dropped; restart; m comes: behind a, which keeps its place
    with open_database(store_url) as database:
        kept = Kept(database, Stream("s", StreamConfig(), SegmentGraph(open=True), now=0))
        kept.note(Note(writer="w", times={"": 1}, position={"b": 1, "z": 1, "a": 1}), 0)
        kept.load_again()
        kept.drop_segment("b", 0)
        kept.load_again()
        kept.note(Note(writer="w", times={"": 2}, position={"m": 1}), 0)
        kept.load_again()
        with database.reader.begin():
            places = database.reader.execute(select(schema.segment.c.place)).scalars().all()

        assert [segment.id for segment in kept.stream.graph] == ["z", "a", "m"]
        assert len(set(places)) == 3


def test_a_dropped_segment_that_returns_comes_last_after_a_restart(
    store_url: str,
) -> None:
    with open_database(store_url) as database:
        kept = Kept(database, Stream("s", StreamConfig(), SegmentGraph(open=True), now=0))
        kept.note(Note(writer="w", times={"": 1}, position={"b": 1, "a": 1}), 0)
        kept.flush()
        kept.drop_segment("b", 0)
        kept.flush()
        kept.note(Note(writer="w", times={"": 2}, position={"b": 1}), 0)
        kept.load_again()
        assert [segment.id for segment in kept.stream.graph] == ["a", "b"]


def test_offsets_of_an_earlier_life_refuse_nothing_after_a_restart_either(store_url: str) -> None:
    with open_database(store_url) as database:
        kept = Kept(database, Stream("s", StreamConfig(), SegmentGraph.equal_shares(2, 0), now=0))
        kept.note(Note(writer="w", times={"": 1}, position={"0": 5}), 0)
        kept.close("w", None, 0)
        kept.note(Note(writer="w", times={"": 1}, position={"1": 1}), 0)
        kept.load_again()
        assert not kept.note(Note(writer="w", times={"": 2}, position={"0": 2}), 0).late
