"""Ctrl-C while a writer appends to the embedded log: its next note covers what the log has."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest

from strandline.logs.errors import TransactionOver
from strandline.logs.sqlite import SqliteLog
from tests.interrupts import interrupted
from writer_client import BackgroundWriter, Event, Writer

TWO = [Event(b"x", segment="0"), Event(b"y", segment="1")]


@pytest.mark.parametrize(("kind", "within"), [(Writer, ""), (BackgroundWriter, "logs/sqlite")])
@pytest.mark.parametrize("in_transaction", [False, True])
def test_the_note_after_an_interrupted_write_covers_what_was_written(
    controller: Any, tmp_path: Path, kind: Any, within: str, in_transaction: bool
) -> None:
    stream = controller.stream(3)

    def append() -> None:
        if not in_transaction:
            writer.write(TWO)
            return
        with writer.begin() as transaction:
            transaction.write(TWO)
            transaction.commit()

    with SqliteLog.create(tmp_path / "log.db", 3) as log, kind(controller.url, stream, "w", log=log) as writer:
        if kind is BackgroundWriter:
            writer.register()
        writes = set()
        for moment in count():
            before = log.end_offsets()
            came_so_far = interrupted(append, moment, within=within)
            written = log.end_offsets()
            writes.add(written != before)
            writer.resume()
            writer.note_time(moment)
            if kind is BackgroundWriter:
                assert writer.wait_until_answered()
            mark = controller.marks(stream)[-1]
            assert (mark.time, {name: mark.cut.get(name, 0) for name in written}) == (moment, written)
            if not came_so_far:
                break
        assert writes == {True, False}


@pytest.mark.parametrize("kind", [Writer, BackgroundWriter])
def test_after_an_interrupted_commit_its_time_can_be_noted_and_nothing_is_written_twice(
    controller: Any, tmp_path: Path, kind: Any
) -> None:
    stream = controller.stream(3)
    with SqliteLog.create(tmp_path / "log.db", 3) as log, kind(controller.url, stream, "w", log=log) as writer:
        writer.register()
        for moment in count():
            transaction = writer.begin()
            transaction.write(TWO)
            came_so_far = interrupted(lambda: transaction.commit(moment), moment, within="logs/sqlite")  # noqa: B023  # called at once
            if came_so_far:
                writer.resume()
                try:
                    transaction.commit(moment)
                except TransactionOver:  # the interrupted call was about to return
                    writer.note_time(moment)
            if kind is BackgroundWriter:
                assert writer.wait_until_answered()
            assert log.end_offsets() == {"0": moment + 1, "1": moment + 1, "2": 0}
            mark = controller.marks(stream)[-1]
            assert (mark.time, dict(mark.cut)) == (moment, {"0": moment + 1, "1": moment + 1})
            if not came_so_far:
                break


@pytest.mark.parametrize("kind", [Writer, BackgroundWriter])
def test_a_commit_that_is_over_holds_no_note_back(controller: Any, tmp_path: Path, kind: Any) -> None:
    stream = controller.stream(3)
    with SqliteLog.create(tmp_path / "log.db", 3) as log, kind(controller.url, stream, "w", log=log) as writer:
        transaction = writer.begin()
        transaction.write(TWO)
        transaction.commit(1)
        with pytest.raises(TransactionOver):  # a program that was interrupted tries again
            transaction.commit(1)
        writer.note_time(2)
        if kind is BackgroundWriter:
            assert writer.wait_until_answered()
        assert controller.marks(stream)[-1].time == 2
