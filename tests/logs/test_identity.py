"""A write-ahead file is played into the log that it belongs to, and into no other."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from strandline.logs import Event
from strandline.logs.errors import NotALog
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader

EVENTS = [Event(b"%d" % number, key=b"k") for number in range(30)]


def left_behind(path: Path) -> None:
    """A log that was removed while a reader had it open, so that its write-ahead file is left."""
    with SqliteLog.create(path, segments=1) as log:
        reader = SqliteLogReader(path)
        assert reader.end_offsets() == {"0": 0}
        log.append(EVENTS)
    path.unlink()
    reader._connection.close()  # as a reader that is killed: it removes nothing itself
    assert path.with_name("orders.log-wal").stat().st_size > 0


def test_a_log_made_anew_has_nothing_of_the_one_that_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    left_behind(path)

    with SqliteLog.create(path, segments=1) as log:
        assert log.end_offsets() == {"0": 0}
        log.append(EVENTS[:1])
    with SqliteLogReader(path) as reader:
        assert [each.value for each in reader.rows("0", 0, 1)] == [b"0"] and reader.end_offsets() == {"0": 1}


def test_a_reader_leaves_nothing_of_a_log_that_was_removed(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    log = SqliteLog.create(path, segments=1)
    reader = SqliteLogReader(path)
    log.append(EVENTS)
    log.close()
    path.unlink()

    reader.close()

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("opened", [SqliteLog, SqliteLogReader])
def test_a_log_with_anothers_write_ahead_file_is_refused_unchanged(
    tmp_path: Path, opened: type[SqliteLog] | type[SqliteLogReader]
) -> None:
    path, other = tmp_path / "orders.log", tmp_path / "kept.log"
    with SqliteLog.create(other, segments=1) as log:
        log.append(EVENTS[:3])
    before = other.read_bytes()
    left_behind(path)
    shutil.copy(other, path)

    with pytest.raises(NotALog, match=r"orders\.log-wal, is of another log: remove that file"):
        opened(path)

    assert path.read_bytes() == before
    path.with_name("orders.log-wal").unlink()
    path.with_name("orders.log-shm").unlink(missing_ok=True)
    with SqliteLogReader(path) as reader:
        assert reader.end_offsets() == {"0": 3}


def test_a_crashed_log_opens_with_its_write_ahead_file(tmp_path: Path) -> None:
    path = tmp_path / "orders.log"
    log = SqliteLog.create(path, segments=1)
    reader = SqliteLogReader(path)  # keeps the writer from folding its write-ahead file back
    log.append(EVENTS)
    log.close()
    assert path.with_name("orders.log-wal").stat().st_size > 0

    with SqliteLog(path) as again:
        assert again.end_offsets() == {"0": 30}
    reader.close()
