"""What every log keeps to, whatever it is made of. A new log is added to the fixture `log_under_test`."""

from __future__ import annotations

from typing import Protocol

import pytest

from logs import Event, Log, Transaction
from logs.errors import InvalidEvent, TransactionOver
from strandline.errors import UnknownSegment


class LogUnderTest(Protocol):
    """What the contract needs: writers on one stream with segments "0", "1", "2", and what was written."""

    def writer(self) -> Log:
        """Another writer of the same stream."""
        ...

    def values(self, segment: str) -> list[bytes | None]:
        """The values of all events of a segment, in the order of their offsets."""
        ...


def _events(segment: str, *values: bytes) -> list[Event]:
    return [Event(value, segment=segment) for value in values]


def test_a_new_log_ends_at_zero_everywhere(log_under_test: LogUnderTest) -> None:
    log = log_under_test.writer()
    assert log.end_offsets() == {"0": 0, "1": 0, "2": 0}
    assert log.positions() == {}


def test_appends_keep_their_order_and_end_where_the_log_says(log_under_test: LogUnderTest) -> None:
    log = log_under_test.writer()
    log.append(_events("0", b"a", b"b"))
    log.append(_events("0", b"c") + _events("2", b"x"))
    assert log.flush() == {"0": 3, "2": 1}
    assert log.end_offsets() == {"0": 3, "1": 0, "2": 1}
    assert log_under_test.values("0") == [b"a", b"b", b"c"]
    assert log_under_test.values("2") == [b"x"]


def test_a_position_counts_only_the_writers_own_appends(log_under_test: LogUnderTest) -> None:
    first, second = log_under_test.writer(), log_under_test.writer()
    first.append(_events("0", b"first"))
    first.flush()
    second.append(_events("0", b"second") + _events("1", b"second"))
    second.flush()
    assert first.positions() == {"0": 1}
    assert second.positions() == {"0": 2, "1": 1}
    assert first.end_offsets() == second.end_offsets() == {"0": 2, "1": 1, "2": 0}


def test_everything_a_writer_wrote_lies_below_its_position(log_under_test: LogUnderTest) -> None:
    writers = [log_under_test.writer() for _ in range(3)]
    for turn in range(5):
        for name, log in enumerate(writers):
            log.append(_events("1", b"%d" % name) * (turn + name))
            log.flush()
    for name, log in enumerate(writers):
        beyond = log_under_test.values("1")[log.positions()["1"] :]
        assert b"%d" % name not in beyond


def test_the_same_key_goes_to_the_same_segment_from_every_writer(log_under_test: LogUnderTest) -> None:
    first, second = log_under_test.writer(), log_under_test.writer()
    keys = [b"key-%d" % n for n in range(60)]
    for key in keys:
        first.append([Event(b"1" + key, key=key)])
        second.append([Event(b"2" + key, key=key)])
    first.flush()
    second.flush()
    places = {value: segment for segment in "012" for value in log_under_test.values(segment)}
    assert [places[b"1" + key] for key in keys] == [places[b"2" + key] for key in keys]
    assert set(places.values()) == {"0", "1", "2"}


def test_a_value_may_be_empty_or_absent(log_under_test: LogUnderTest) -> None:
    log = log_under_test.writer()
    log.append([Event(None, segment="0"), Event(b"", segment="0"), Event(None, key=b"", segment="0")])
    log.flush()
    assert log_under_test.values("0") == [None, b"", None]


def test_appending_nothing_is_harmless(log_under_test: LogUnderTest) -> None:
    log = log_under_test.writer()
    assert log.append([]) == {}
    assert log.flush() == {}


def test_an_append_with_one_wrong_event_appends_none_of_them(log_under_test: LogUnderTest) -> None:
    log = log_under_test.writer()
    log.append(_events("0", b"good"))
    log.flush()
    with pytest.raises(UnknownSegment, match="'nowhere'"):
        log.append(_events("0", b"fine") + _events("nowhere", b"lost"))
    assert log.flush() == {"0": 1}
    assert log_under_test.values("0") == [b"good"]


def test_an_event_without_a_key_needs_a_segment() -> None:
    with pytest.raises(InvalidEvent, match="a key or a segment"):
        Event(b"lost")


@pytest.mark.parametrize("value", ["text", 1, bytearray(b"x")])
def test_an_event_takes_bytes_only(value: object) -> None:
    with pytest.raises(InvalidEvent, match="bytes or None"):
        Event(value, segment="0")  # type: ignore[arg-type]  # that is the point


class TestTransactions:
    def test_nothing_of_a_transaction_shows_before_its_commit(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        with log.begin() as transaction:
            transaction.write(_events("0", b"a"))
            transaction.write(_events("1", b"b", b"c"))
            assert log.end_offsets() == {"0": 0, "1": 0, "2": 0}
            assert log.positions() == {}
            assert transaction.commit() == {"0": 1, "1": 2}
        assert log.end_offsets() == {"0": 1, "1": 2, "2": 0}
        assert log.positions() == {"0": 1, "1": 2}

    def test_leaving_the_block_without_a_commit_aborts(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        with log.begin() as transaction:
            transaction.write(_events("0", b"a"))
        assert log.flush() == {}
        assert log.end_offsets()["0"] == 0

    def test_other_writers_go_on_during_a_transaction(self, log_under_test: LogUnderTest) -> None:
        first, second = log_under_test.writer(), log_under_test.writer()
        with first.begin() as transaction:
            transaction.write(_events("0", b"in the transaction"))
            second.append(_events("0", b"meanwhile"))
            second.flush()
            assert transaction.commit() == {"0": 2}
        assert log_under_test.values("0") == [b"meanwhile", b"in the transaction"]

    @pytest.mark.parametrize("end", ["commit", "abort"])
    def test_a_transaction_ends_once(self, log_under_test: LogUnderTest, end: str) -> None:
        log = log_under_test.writer()
        transaction = log.begin()
        transaction.write(_events("0", b"a"))
        getattr(transaction, end)()
        with pytest.raises(TransactionOver, match=end):
            transaction.commit()
        with pytest.raises(TransactionOver, match=end):
            transaction.write(_events("0", b"b"))
        transaction.abort()  # harmless

    def test_an_empty_transaction_commits_to_no_position(self, log_under_test: LogUnderTest) -> None:
        with log_under_test.writer().begin() as transaction:
            assert transaction.commit() == {}

    def test_a_transaction_with_one_wrong_event_writes_none_of_them(self, log_under_test: LogUnderTest) -> None:
        log = log_under_test.writer()
        transaction = log.begin()
        transaction.write(_events("0", b"fine"))
        with pytest.raises(UnknownSegment, match="'nowhere'"):
            _write_and_commit(transaction, _events("nowhere", b"lost"))
        transaction.abort()
        assert log.flush() == {}
        assert log.end_offsets()["0"] == 0


def _write_and_commit(transaction: Transaction, events: list[Event]) -> None:
    """Which of the two calls finds the mistake is up to the log."""
    transaction.write(events)
    transaction.commit()
