"""Ctrl-C at any moment of an append or a commit: the log and its writer know what the file has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from strandline.logs import Event, Memo
from strandline.logs.errors import TransactionOver
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.interrupts import interrupted

EVENTS = [Event(b"a", segment="0"), Event(b"b", segment="1"), Event(b"c", segment="1")]
WHOLE = {"0": 1, "1": 2}


def each_moment(path: Path, work: Callable[[SqliteLog], Callable[[], object]]) -> Iterator[SqliteLog]:
    """Logs in which the work was interrupted, each one moment later than the last."""
    for moment in count():
        with SqliteLog.create(path / f"{moment}.log", 2) as log:
            done = work(log)
            came_so_far = interrupted(done, moment)
            yield log
        if not came_so_far:
            assert moment > 30  # there were moments before, within and after the commit
            return


def test_what_an_interrupted_append_wrote_is_in_the_logs_position(tmp_path: Path) -> None:
    found = set()
    for log in each_moment(tmp_path, lambda log: lambda: log.append(EVENTS)):
        written = {segment: end for segment, end in log.end_offsets().items() if end}
        assert log.positions() == log.flush() == written
        found.add(tuple(written.items()))
        assert log.append(EVENTS) == {segment: written.get(segment, 0) + end for segment, end in WHOLE.items()}
    assert found == {(), tuple(WHOLE.items())}


def test_a_second_try_of_an_interrupted_commit_writes_nothing_twice(tmp_path: Path) -> None:
    begun: list[Any] = []

    def commit(log: SqliteLog) -> Callable[[], object]:
        transaction = log.begin()
        transaction.write(EVENTS)
        begun.append(transaction)
        return lambda: transaction.commit(Memo("w", "kept"))

    tried = set()
    for log in each_moment(tmp_path, commit):
        with SqliteLogReader(log.path) as reader:
            was_written = sum(reader.end_offsets().values()) > 0
        try:
            assert begun[-1].commit(Memo("w", "kept")) == WHOLE
            tried.add(was_written)
        except TransactionOver:
            assert was_written  # the interrupted call was about to return
        assert log.end_offsets() == log.positions() == WHOLE
        assert not log.in_transaction()
        assert log.memo("w") == "kept"
    assert tried == {True, False}


@pytest.mark.parametrize("end", ["abort", "write"])
def test_an_interrupted_commit_that_was_done_has_ended_the_transaction(tmp_path: Path, end: str) -> None:
    begun: list[Any] = []

    def commit(log: SqliteLog) -> Callable[[], object]:
        transaction = log.begin()
        transaction.write(EVENTS)
        begun.append(transaction)
        return transaction.commit

    for log in each_moment(tmp_path, commit):
        transaction = begun[-1]
        if end == "abort":
            transaction.abort()
        written = log.end_offsets() == WHOLE
        if written:
            with pytest.raises(TransactionOver, match="committed"):
                transaction.write(EVENTS)
        assert log.positions() == (WHOLE if written else {})
        assert log.in_transaction() is (not written and end == "write")


def test_another_process_appends_after_an_interrupted_append(tmp_path: Path) -> None:
    """No interrupted append leaves the file locked."""
    for log in each_moment(tmp_path, lambda log: lambda: log.append(EVENTS)):
        before = log.end_offsets()["0"]
        with SqliteLog(log.path, busy_timeout_ms=0) as other:
            assert other.append([Event(b"other", segment="0")]) == {"0": before + 1}
        assert log.positions().get("0", 0) == before
