"""The embedded log keeps the contract of logs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from strandline.logs import Log
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader

pytest.register_assert_rewrite("strandline.logs.contract")

from strandline.logs.contract import LogContract, TruncationContract  # noqa: E402  # only what is imported after that line is rewritten


@dataclass
class SqliteUnderTest:
    path: Path
    opened: list[SqliteLog] = field(default_factory=list)

    def writer(self) -> Log:
        log = SqliteLog.create(self.path, 3)
        self.opened.append(log)
        return log

    def reader(self) -> SqliteLogReader:
        return SqliteLogReader(self.path)


class TestSqliteLog(LogContract, TruncationContract):
    @pytest.fixture
    def log_under_test(self, tmp_path: Path) -> Iterator[SqliteUnderTest]:
        sqlite = SqliteUnderTest(tmp_path / "stream.db")
        sqlite.writer()
        yield sqlite
        for log in sqlite.opened:
            log.close()
