"""Ctrl-C at any moment of an append or a commit: the log and its writer know what the file has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from strandline.logs import Event, Memo, Position
from strandline.logs.errors import TransactionOver
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.interrupts import interrupted

EVENTS = [Event(b"a", segment="0"), Event(b"b", segment="1"), Event(b"c", segment="1")]


def behind(ends: Position) -> Position:
    """The position once EVENTS are written as well."""
    return {"0": ends["0"] + 1, "1": ends["1"] + 2}


def each_moment(begin: Callable[[], Callable[[], object]]) -> Iterator[None]:
    """Begins work and interrupts it, each time one moment later than the last, until it is done before that."""
    for moment in count():
        came_so_far = interrupted(begin(), moment)
        yield
        if not came_so_far:
            assert moment > 30  # there were moments before, within and after the commit
            return


def test_what_an_interrupted_append_wrote_is_in_the_logs_position_and_the_file_is_not_locked(tmp_path: Path) -> None:
    found = set()
    with (
        SqliteLog.create(tmp_path / "orders.log", 2) as log,
        SqliteLog(tmp_path / "orders.log", busy_timeout_ms=0) as other,
    ):
        own = log.append(EVENTS)
        for _ in each_moment(lambda: lambda: log.append(EVENTS)):
            ends = log.end_offsets()
            assert ends in (own, behind(own))
            found.add(ends == own)
            assert log.positions() == log.flush() == ends
            assert other.append([Event(b"other", segment="0")]) == {"0": ends["0"] + 1}
            assert log.positions() == ends
            own = log.append(EVENTS)
            assert own == behind({**ends, "0": ends["0"] + 1})
    assert found == {True, False}


@pytest.mark.parametrize("then", ["commit", "abort", "write"])
def test_an_interrupted_commit_was_done_or_not_and_a_second_try_writes_nothing_twice(tmp_path: Path, then: str) -> None:
    begun: list[Any] = []

    def commit() -> Callable[[], object]:
        transaction, memo = log.begin(), Memo("w", str(len(begun)))
        transaction.write(EVENTS)
        begun.append(transaction)
        return lambda: transaction.commit(memo)

    found = set()
    with SqliteLog.create(tmp_path / "orders.log", 2) as log, SqliteLogReader(log.path) as reader:
        ends = log.append(EVENTS)
        for _ in each_moment(commit):
            transaction, is_done = begun[-1], reader.end_offsets() != ends
            memo = str(len(begun) - 1)
            if then == "commit":
                try:
                    assert transaction.commit(Memo("w", memo)) == behind(ends)
                    found.add(is_done)
                except TransactionOver:
                    assert is_done  # the interrupted call was about to return
                is_done = True
                assert log.memo("w") == memo
            else:
                found.add(is_done)
            if then == "abort":
                transaction.abort()
            if is_done:
                with pytest.raises(TransactionOver, match="committed"):
                    transaction.write(EVENTS)
                ends = behind(ends)
            assert reader.end_offsets() == log.end_offsets() == log.positions() == ends
            assert log.in_transaction() is (not is_done and then == "write")
            transaction.abort()
    assert found == {True, False}
