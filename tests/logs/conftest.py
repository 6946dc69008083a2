from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from logs import Log
from logs.sqlite import SqliteLog
from logs.sqlite_reader import SqliteLogReader


@dataclass
class SqliteUnderTest:
    """The embedded log as the contract in test_contract.py wants it."""

    path: Path
    opened: list[SqliteLog]

    def writer(self) -> Log:
        log = SqliteLog.create(self.path, 3)
        self.opened.append(log)
        return log

    def values(self, segment: str) -> list[bytes | None]:
        with SqliteLogReader(self.path) as reader:
            end = reader.end_offsets()[segment]
            return [event.value for event in reader.rows(segment, 0, end)]


@pytest.fixture(params=["sqlite"])
def log_under_test(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteUnderTest]:
    """The logs that must keep the contract. Another kind of log is added here, and nowhere else."""
    match request.param:
        case "sqlite":
            sqlite = SqliteUnderTest(tmp_path / "stream.db", [])
            yield sqlite
            for log in sqlite.opened:
                log.close()
        case other:
            raise ValueError(f"there is no log {other!r}")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "stream.db"


@pytest.fixture
def ticking() -> Callable[[], int]:
    """A clock that gives 1000, 1001, … ms."""
    return itertools.count(1000).__next__
