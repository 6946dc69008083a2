"""The contract of every log, as tests that are shipped, for logs of your own too.

A test module inherits the tests and gives them a log; they need pytest:

    class TestMyLog(LogContract):
        @pytest.fixture
        def log_under_test(self) -> LogUnderTest: …

Call `pytest.register_assert_rewrite("strandline.logs.contract")` before the import, so that failures show the
values. Offsets without an event (a commit's marker, a compacted record) are allowed everywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Protocol, cast

import pytest

from strandline.errors import UnknownSegment
from strandline.logs import (
    EVENT_BYTES,
    Event,
    Log,
    LogReader,
    Memo,
    Position,
    StoredEvent,
    Transaction,
    TruncatableLog,
)
from strandline.logs.errors import InvalidEvent, NotInLog, TransactionOver, TransactionUnderWay

SEGMENTS = ("0", "1", "2")


class LogUnderTest(Protocol):
    """A new log with the segments "0", "1", "2", its writers and its readers."""

    def writer(self) -> Log:
        """Another writer of the log, as another process would open it. The fixture closes it."""
        ...

    def reader(self) -> LogReader:
        """A reader of the log, which the test closes."""
        ...


def events_to(segment: str, *values: bytes) -> list[Event]:
    return [Event(value, segment=segment) for value in values]


def stored(log_under_test: LogUnderTest, segment: str) -> list[StoredEvent]:
    """All events that a reader finds in a segment."""
    with log_under_test.reader() as reader:
        end = reader.end_offsets().get(segment, 0)
        return list(reader.rows(segment, 0, end))


def values(log_under_test: LogUnderTest, segment: str) -> list[bytes | None]:
    return [event.value for event in stored(log_under_test, segment)]


def own_end(log_under_test: LogUnderTest, segment: str, *own: bytes) -> int:
    """The offset behind the last of these values."""
    return max(event.offset for event in stored(log_under_test, segment) if event.value in own) + 1


def reached(position: Mapping[str, int]) -> Position:
    """A position without the segments at 0."""
    return {segment: offset for segment, offset in position.items() if offset}


def ends_behind(ends: Mapping[str, int], position: Mapping[str, int]) -> bool:
    """Whether the log ends at a position, or only commits' markers lie between."""
    return reached(ends).keys() == position.keys() and all(ends[name] >= position[name] for name in position)


class AppendContract:
    """Appends, and positions over them."""

    def test_a_new_log_ends_at_zero_everywhere(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        assert log.end_offsets() == dict.fromkeys(SEGMENTS, 0)
        assert log.positions() == {}

    def test_appends_keep_their_order_and_end_where_the_log_says(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        log.append(events_to("0", b"a", b"b"))
        log.append(events_to("0", b"c") + events_to("2", b"x"))
        position = log.flush()
        assert values(log_under_test, "0") == [b"a", b"b", b"c"]
        assert values(log_under_test, "2") == [b"x"]
        assert position == {"0": own_end(log_under_test, "0", b"c"), "2": own_end(log_under_test, "2", b"x")}
        assert ends_behind(log.end_offsets(), position)

    def test_a_position_counts_only_the_writers_own_appends(self, log_under_test: LogUnderTest) -> None:
        first, second = log_under_test.writer(), log_under_test.writer()
        first.append(events_to("0", b"first"))
        first.flush()
        second.append(events_to("0", b"second") + events_to("1", b"second"))
        second.flush()
        assert first.positions() == {"0": own_end(log_under_test, "0", b"first")}
        assert second.positions() == {segment: own_end(log_under_test, segment, b"second") for segment in ("0", "1")}
        assert reached(first.end_offsets()) == reached(second.end_offsets())
        assert ends_behind(first.end_offsets(), second.positions())

    def test_everything_a_writer_wrote_lies_below_its_position(self, log_under_test: LogUnderTest) -> None:
        writers = [log_under_test.writer() for _ in range(3)]
        for turn in range(5):
            for name, log in enumerate(writers):
                log.append(events_to("1", b"%d" % name) * (turn + name))
                log.flush()
        found = stored(log_under_test, "1")
        for name, log in enumerate(writers):
            end = log.positions()["1"]
            assert b"%d" % name not in [event.value for event in found if event.offset >= end]

    def test_the_same_key_goes_to_the_same_segment_from_every_writer(self, log_under_test: LogUnderTest) -> None:
        first, second = log_under_test.writer(), log_under_test.writer()
        keys = [b"key-%d" % n for n in range(60)]
        for key in keys:
            first.append([Event(b"1" + key, key=key)])
            second.append([Event(b"2" + key, key=key)])
        first.flush()
        second.flush()
        places = {value: segment for segment in SEGMENTS for value in values(log_under_test, segment)}
        assert [places[b"1" + key] for key in keys] == [places[b"2" + key] for key in keys]
        assert set(places.values()) == set(SEGMENTS)

    def test_a_value_may_be_empty_or_absent(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        log.append([Event(None, segment="0"), Event(b"", segment="0"), Event(None, key=b"", segment="0")])
        log.flush()
        assert values(log_under_test, "0") == [None, b"", None]

    def test_appending_nothing_is_harmless(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        assert log.append([]) == {}
        assert log.flush() == {}

    def test_an_append_with_one_wrong_event_appends_none_of_them(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        log.append(events_to("0", b"good"))
        before = log.flush()
        with pytest.raises(UnknownSegment, match="'nowhere'"):
            log.append(events_to("0", b"fine") + events_to("nowhere", b"lost"))
        assert log.flush() == before
        assert values(log_under_test, "0") == [b"good"]

    def test_an_event_without_a_key_needs_a_segment(self) -> None:
        with pytest.raises(InvalidEvent, match="a key or a segment"):
            Event(b"lost")

    @pytest.mark.parametrize("value", ["text", 1, bytearray(b"x")])
    def test_an_event_takes_bytes_only(self, value: object) -> None:
        with pytest.raises(InvalidEvent, match="bytes or None"):
            Event(value, segment="0")  # type: ignore[arg-type]  # that is the point

    def test_one_thread_may_flush_while_another_appends(self, log_under_test: LogUnderTest) -> None:
        """A flush covers all that was appended before it, and positions never go back."""
        log, over = log_under_test.writer(), threading.Event()
        flushed: list[tuple[int, int]] = []  # how many appends had returned before a flush, and the position after it
        appended = 0

        def flush() -> None:
            while not over.is_set():
                before = appended
                flushed.append((before, log.flush().get("0", 0)))

        flusher = threading.Thread(target=flush)
        flusher.start()
        try:
            for turn in range(50):
                log.append(events_to("0", b"%d" % turn))
                appended += 1
        finally:
            over.set()
            flusher.join()
        assert all(end >= before for before, end in flushed)
        assert flushed == sorted(flushed)
        assert log.flush() == {"0": own_end(log_under_test, "0", b"49")}


class TransactionContract:
    """Transactions."""

    def test_nothing_of_a_transaction_shows_before_its_commit(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        with log.begin() as transaction:
            transaction.write(events_to("0", b"a"))
            transaction.write(events_to("1", b"b", b"c"))
            assert [values(log_under_test, segment) for segment in SEGMENTS] == [[], [], []]
            assert log.positions() == {}
            position = transaction.commit()
        assert [values(log_under_test, segment) for segment in SEGMENTS] == [[b"a"], [b"b", b"c"], []]
        assert position == log.positions() == log.flush()
        assert position.keys() == {"0", "1"}
        assert position["0"] >= own_end(log_under_test, "0", b"a")
        assert position["1"] >= own_end(log_under_test, "1", b"c")

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_a_flush_says_nothing_of_an_open_transaction(self, log_under_test: LogUnderTest, end: str) -> None:
        """It returns the position without it, or raises TransactionUnderWay; after the transaction it counts again."""
        log = log_under_test.writer()
        log.append(events_to("0", b"before"))
        before = log.flush()
        transaction = log.begin()
        for segment in ("0", "1"):
            transaction.write(events_to(segment, b"in the transaction"))
            try:
                assert log.flush() == before
            except TransactionUnderWay:
                assert log.positions() == before
        getattr(transaction, end)()
        own = [b"before", b"in the transaction"] if end == "commit" else [b"before"]
        assert log.flush()["0"] >= own_end(log_under_test, "0", *own)
        assert (log.flush() == before) is (end == "abort")
        log.append(events_to("0", b"after"))
        assert log.flush()["0"] == own_end(log_under_test, "0", b"after")

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_a_log_says_whether_a_transaction_of_it_is_open(self, log_under_test: LogUnderTest, end: str) -> None:
        log, other = log_under_test.writer(), log_under_test.writer()
        assert not log.in_transaction()
        first, second = log.begin(), log.begin()
        assert log.in_transaction() and log.in_transaction(first) and not other.in_transaction()
        getattr(second, end)()
        assert log.in_transaction() and not log.in_transaction(first)
        getattr(first, end)()
        assert not log.in_transaction()

    def test_several_transactions_follow_each_other(self, log_under_test: LogUnderTest) -> None:
        """Positions grow with each commit, and with nothing else."""
        log = log_under_test.writer()
        position: Position = {}
        for turn in range(6):
            with log.begin() as transaction:
                transaction.write(events_to("0", b"%d" % turn))
                if turn % 3:
                    position = transaction.commit()
            assert log.flush() == position
        assert values(log_under_test, "0") == [b"1", b"2", b"4", b"5"]

    def test_leaving_the_block_without_a_commit_aborts(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        with log.begin() as transaction:
            transaction.write(events_to("0", b"a"))
        assert log.flush() == {}
        assert values(log_under_test, "0") == []

    def test_other_writers_go_on_during_a_transaction(self, log_under_test: LogUnderTest) -> None:
        first, second = log_under_test.writer(), log_under_test.writer()
        with first.begin() as transaction:
            transaction.write(events_to("0", b"in the transaction"))
            second.append(events_to("0", b"meanwhile"))
            second.flush()
            position = transaction.commit()
        assert set(values(log_under_test, "0")) == {b"meanwhile", b"in the transaction"}
        assert position["0"] >= own_end(log_under_test, "0", b"in the transaction")

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_a_transaction_ends_once(self, log_under_test: LogUnderTest, end: str) -> None:
        log = log_under_test.writer()
        transaction = log.begin()
        transaction.write(events_to("0", b"a"))
        getattr(transaction, end)()
        with pytest.raises(TransactionOver, match=end):
            transaction.commit()
        with pytest.raises(TransactionOver, match=end):
            transaction.write(events_to("0", b"b"))
        transaction.abort()  # harmless

    def test_an_empty_transaction_commits_to_no_position(self, log_under_test: LogUnderTest) -> None:
        with log_under_test.writer().begin() as transaction:
            assert transaction.commit() == {}

    def test_a_transaction_with_one_wrong_event_writes_none_of_them(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        transaction = log.begin()
        transaction.write(events_to("0", b"fine"))
        with pytest.raises(UnknownSegment, match="'nowhere'"):
            _write_and_commit(transaction, events_to("nowhere", b"lost"))
        transaction.abort()
        assert log.flush() == {}
        assert values(log_under_test, "0") == []

    def test_a_write_with_one_wrong_event_adds_none_of_them(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        with log.begin() as transaction:
            with pytest.raises(InvalidEvent):
                transaction.write(events_to("0", b"fine", bytes(EVENT_BYTES + 1)))
            transaction.write(events_to("0", b"again"))
            transaction.commit()
        assert values(log_under_test, "0") == [b"again"]

    def test_a_memo_is_kept_with_the_commit_and_found_by_another_process(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        assert log.memo("w1") is None
        for text in ("first", "second"):
            with log.begin() as transaction:
                transaction.write(events_to("0", b"x"))
                transaction.commit(Memo("w1", text))
        with log.begin() as transaction:
            transaction.write(events_to("0", b"y"))
            transaction.commit()  # leaves the memo as it is
        assert log_under_test.writer().memo("w1") == "second"
        assert log_under_test.writer().memo("w2") is None

    def test_a_memo_goes_with_an_abort(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        with log.begin() as transaction:
            transaction.write(events_to("0", b"x"))
            transaction.commit(Memo("w1", "kept"))
        transaction = log.begin()
        with pytest.raises(UnknownSegment):
            _write_and_commit(transaction, events_to("nowhere", b"lost"), Memo("w1", "never committed"))
        transaction.abort()
        assert log_under_test.writer().memo("w1") == "kept"


class TruncationContract:
    """Removal of the oldest events, for a log that is a `TruncatableLog`."""

    @staticmethod
    def truncatable(log_under_test: LogUnderTest) -> TruncatableLog:
        """Another writer, which can truncate."""
        return cast(TruncatableLog, log_under_test.writer())

    def test_what_lies_below_the_head_is_gone_and_the_rest_stays(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        log.append(events_to("0", b"a", b"b", b"c") + events_to("1", b"x"))
        log.flush()
        ends = log.end_offsets()
        third = next(event.offset for event in stored(log_under_test, "0") if event.value == b"c")

        assert self.truncatable(log_under_test).truncate({"0": third}) == {"0": third}

        assert log.end_offsets() == ends
        with log_under_test.reader() as reader:
            assert [event.value for event in reader.rows("0", third, ends["0"])] == [b"c"]
            assert [event.value for event in reader.rows("1", 0, ends["1"])] == [b"x"]
            with pytest.raises(NotInLog):
                list(reader.rows("0", third - 1, ends["0"]))

    def test_done_again_or_below_the_head_it_changes_nothing(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        log.append(events_to("0", b"a", b"b", b"c"))
        log.flush()
        cutting = self.truncatable(log_under_test)
        assert cutting.truncate({"0": 2}) == {"0": 2}
        assert cutting.truncate({"0": 2}) == cutting.truncate({"0": 1}) == cutting.truncate({"0": 0}) == {"0": 2}
        assert cutting.truncate({}) == {}

    def test_appends_go_on_behind_what_is_gone(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        log.append(events_to("0", b"a", b"b"))
        log.flush()
        end = log.end_offsets()["0"]
        begins = self.truncatable(log_under_test).truncate({"0": end})["0"]
        log.append(events_to("0", b"c"))
        log.flush()
        with log_under_test.reader() as reader:
            found = [event.value for event in reader.rows("0", begins, reader.end_offsets()["0"])]
        assert found[-1] == b"c" and log_under_test.writer().end_offsets()["0"] > end

    @pytest.mark.parametrize(
        ("head", "error"), [({"0": 1, "nowhere": 1}, UnknownSegment), ({"0": 1, "1": 99}, NotInLog)]
    )
    def test_a_wrong_head_is_refused_and_nothing_goes(
        self, log_under_test: LogUnderTest, head: Position, error: type[Exception]
    ) -> None:
        log = log_under_test.writer()
        log.append(events_to("0", b"a", b"b"))
        log.flush()
        with pytest.raises(error):
            self.truncatable(log_under_test).truncate(head)
        assert values(log_under_test, "0") == [b"a", b"b"]


class LogContract(AppendContract, TransactionContract):
    """Appends and transactions. A log without transactions takes AppendContract alone."""


def _write_and_commit(transaction: Transaction, events: list[Event], memo: Memo | None = None) -> None:
    """Either call may raise: the log decides which one finds the error."""
    transaction.write(events)
    transaction.commit(memo)
