"""The scripted log keeps the contract of logs, and acknowledges as it is told to."""

from __future__ import annotations

import threading

import pytest

from strandline.core.segment import NewSegment
from strandline.errors import UnknownSegment
from strandline.logs import Event, Log, Memo
from strandline.logs.errors import LogSealed, LogUnavailable, NotAcknowledged, NotInLog, SegmentSealed
from strandline.testing import Acknowledge, ManualClock, ScriptedLog, ScriptedLogReader

pytest.register_assert_rewrite("strandline.logs.contract")

from strandline.logs.contract import LogContract  # noqa: E402  # only what is imported after that line is rewritten


class ScriptedUnderTest:
    def __init__(self, acknowledge: Acknowledge) -> None:
        self._log, self._acknowledge = ScriptedLog(3), acknowledge

    def writer(self) -> Log:
        return self._log.writer(self._acknowledge)

    def reader(self) -> ScriptedLogReader:
        return self._log.reader()


class TestScriptedLog(LogContract):
    @pytest.fixture(params=[Acknowledge.AT_ONCE, Acknowledge.ON_FLUSH])
    def log_under_test(self, request: pytest.FixtureRequest) -> ScriptedUnderTest:
        return ScriptedUnderTest(request.param)


@pytest.fixture
def log() -> ScriptedLog:
    return ScriptedLog(2)


def event(value: bytes, segment: str = "0") -> Event:
    return Event(value, segment=segment)


def values(log: ScriptedLog, segment: str = "0") -> list[bytes | None]:
    with log.reader() as reader:
        return [row.value for row in reader.rows(segment, 0, reader.end_offsets()[segment])]


def test_what_is_under_way_is_in_no_position_and_in_no_end(log: ScriptedLog) -> None:
    writer = log.writer(Acknowledge.BY_HAND)
    assert writer.append([event(b"a")]) == {}
    writer.append([event(b"b")])
    assert (writer.under_way, writer.positions(), log.end_offsets()) == (2, {}, {"0": 0, "1": 0})
    writer.acknowledge(1)
    assert (writer.under_way, writer.positions(), values(log)) == (1, {"0": 1}, [b"a"])
    writer.acknowledge()
    assert (writer.flush(), values(log)) == ({"0": 2}, [b"a", b"b"])


def test_a_flush_waits_for_the_test_to_acknowledge(log: ScriptedLog) -> None:
    writer = log.writer(Acknowledge.BY_HAND)
    with pytest.raises(TimeoutError, match="no thread began to flush"):
        writer.wait_for_flush(timeout_s=0.01)
    writer.append([event(b"a")])
    flushed: list[dict[str, int]] = []
    thread = threading.Thread(target=lambda: flushed.append(writer.flush()))
    thread.start()
    writer.wait_for_flush()
    assert flushed == []
    writer.acknowledge()
    thread.join()
    assert flushed == [{"0": 1}]


def test_an_append_that_fails_is_told_of_once_and_never_was(log: ScriptedLog) -> None:
    writer = log.writer(Acknowledge.BY_HAND)
    writer.append([event(b"lost")])
    writer.append([event(b"kept")])
    writer.fail("the broker is gone")
    writer.acknowledge()
    with pytest.raises(NotAcknowledged, match="the broker is gone") as caught:
        writer.flush()
    assert caught.value.events == (event(b"lost"),)
    assert writer.flush() == {"0": 1}
    assert values(log) == [b"kept"]


def test_a_refused_append_and_one_whose_segment_is_sealed_meanwhile_append_nothing(log: ScriptedLog) -> None:
    writer = log.writer(Acknowledge.ON_FLUSH)
    writer.refuse(LogUnavailable(path="scripted", reason="disk full"))
    with pytest.raises(LogUnavailable, match="disk full"):
        writer.append([event(b"a")])
    writer.append([event(b"b")])
    writer.flush()
    writer.append([event(b"too late")])
    log.seal()
    with pytest.raises(NotAcknowledged, match="sealed"):
        writer.flush()
    assert values(log) == [b"b"]


def test_scaling_seals_segments_and_opens_their_successors(log: ScriptedLog) -> None:
    writer = log.writer()
    writer.append([event(b"a"), event(b"b", "1")])
    successors = [NewSegment("2", 0.0, 1.0)]
    assert log.scale(["0", "1"], successors) == {"0": 1, "1": 1}
    with pytest.raises(SegmentSealed):
        writer.append([event(b"c")])
    assert writer.append([Event(b"c", key=b"any")]) == {"2": 1}
    assert [one.predecessors for one in log.segments()] == [(), (), ("0", "1")]
    assert log.seal() == {"0": 1, "1": 1, "2": 1}
    with pytest.raises(LogSealed):
        writer.append([Event(b"d", key=b"any")])


def test_offsets_at_which_no_event_stands_are_passed_over_and_a_range_that_is_not_wholly_there_is_refused(
    log: ScriptedLog,
) -> None:
    writer = log.writer()
    writer.append([event(b"a")])
    log.skip("0", 2)
    assert writer.append([event(b"b")]) == {"0": 4}
    assert [row.offset for row in log.reader().rows("0", 0, 4)] == [0, 3]
    with pytest.raises(NotInLog):
        log.reader().rows("0", 0, 5)
    with pytest.raises(UnknownSegment):
        log.reader().rows("7", 0, 0)


def test_batches_hold_what_rows_do() -> None:
    log = ScriptedLog(clock=ManualClock(5))
    log.writer().append([event(b"a"), event(b"b"), Event(None, key=b"k")])
    batches = list(log.reader().read("0", 0, 3, batch_rows=2))
    assert [batch.num_rows for batch in batches] == [2, 1]
    found = [row for batch in batches for row in batch.to_pylist()]
    assert [(row["value"], row["key"], row["offset"]) for row in found] == [
        (b"a", None, 0),
        (b"b", None, 1),
        (None, b"k", 2),
    ]
    assert {row["appended_at"].timestamp() for row in found} == {0.005}


def test_a_commit_is_acknowledged_when_it_returns(log: ScriptedLog) -> None:
    writer = log.writer(Acknowledge.BY_HAND)
    with writer.begin() as transaction:
        transaction.write([event(b"a")])
        assert transaction.commit(Memo("w1", "noted")) == {"0": 1}
    assert (writer.positions(), log.writer().memo("w1")) == ({"0": 1}, "noted")
