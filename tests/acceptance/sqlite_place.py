"""The embedded log as a place for the story."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strandline.core.segment import NewSegment
from strandline.logs.sqlite import SqliteLog
from strandline.logs.sqlite_reader import SqliteLogReader
from tests.acceptance.story import Scaling


def open_log(path: str, **whose: str) -> SqliteLog:
    return SqliteLog.create(path, 2)


@dataclass
class SqlitePlace:
    path: Path
    opener: str = "tests.acceptance.sqlite_place:open_log"
    segments: int = 2

    @property
    def options(self) -> dict[str, Any]:
        return {"path": str(self.path)}

    def reader(self) -> SqliteLogReader:
        return SqliteLogReader(self.path)

    def split(self) -> Scaling:
        return self._scale(["0"], [NewSegment("2", 0.0, 0.25), NewSegment("3", 0.25, 0.5)])

    def merge(self) -> Scaling:
        return self._scale(["3", "1"], [NewSegment("4", 0.25, 1.0)])

    def _scale(self, seal: list[str], create: list[NewSegment]) -> Scaling:
        with open_log(str(self.path)) as log:
            return Scaling(log.scale(seal, create), create)
