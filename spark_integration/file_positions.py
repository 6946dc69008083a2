"""Positions of Spark's file streams: how many numbered files of each segment a query has read."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from spark_integration.errors import InvalidOffset

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import SourceProgress

_NAME: Final = re.compile(r"(?P<segment>[A-Za-z0-9][A-Za-z0-9._-]*)-(?P<number>[0-9]{1,15})(?:\.[A-Za-z0-9.]+)?")

_log = logging.getLogger(__name__)


class FilePositions:
    """Reads positions from the list of files in a query's checkpoint; pass it to `attach` as `positions`.

    A file is named SEGMENT-NUMBER with any ending (`till-3-000017.json`). The files of a segment are numbered from 0
    without a gap, and a writer notes their number as its position. Files without rows count too. Spark may read files
    in any order: a position ends at the first missing one.

    `checkpoint` is the query's checkpointLocation, which this process must see as a folder. Each call reads only new
    entries; the first one after a restart reads from the last compaction on.
    """

    def __init__(self, checkpoint: str | Path) -> None:
        self._checkpoint = Path(checkpoint)
        self._batch = -1  # the last batch that was read, by Spark's numbers for this source
        self._read: dict[str, set[int]] = {}  # the files read beyond the positions
        self._positions: dict[str, int] = {}

    def __call__(self, source: SourceProgress, index: int) -> Mapping[str, int] | None:
        batch = _batch_of(source.endOffset)
        if batch is None:
            return None
        if batch < self._batch:  # another query, with another checkpoint in the same folder
            self._batch, self._read, self._positions = -1, {}, {}
        folder = self._checkpoint / "sources" / str(index)
        for name in _files(folder, self._batch + 1, batch):
            self._take(name)
        self._batch = batch
        return dict(self._positions)

    def _take(self, name: str) -> None:
        found = _NAME.fullmatch(name)
        if found is None:
            _log.warning("file %r is not named SEGMENT-NUMBER: positions ignore it", name)
            return
        segment = found["segment"]
        read = self._read.setdefault(segment, set())
        at = self._positions.get(segment, 0)
        if int(found["number"]) >= at:
            read.add(int(found["number"]))
        while at in read:
            read.remove(at)
            at += 1
        self._positions[segment] = at


def _batch_of(offset: str | None) -> int | None:
    try:
        found = json.loads(offset or "")
    except ValueError:
        return None
    batch = found.get("logOffset") if isinstance(found, dict) else None
    return batch if isinstance(batch, int) else None


def _files(folder: Path, first: int, last: int) -> Iterator[str]:
    """Yields the names of the files in the batches `first` to `last`. A compaction may have merged the first ones."""
    start = first
    for batch in range(last, first - 1, -1):
        if (folder / f"{batch}.compact").is_file():
            start = batch
            break
    for batch in range(start, last + 1):
        lines = _lines(folder, batch)
        for line in lines:
            yield json.loads(line)["path"].rpartition("/")[2]


def _lines(folder: Path, batch: int) -> list[str]:
    for name in (f"{batch}.compact", str(batch)):
        path = folder / name
        if path.is_file():
            version, *lines = path.read_text().splitlines()
            if version != "v1":
                raise InvalidOffset(offset=version, wanted=f"{path} has an unknown version: v1 is known")
            return lines
    raise InvalidOffset(offset=batch, wanted=f"the checkpoint's list of files should be in {folder}: check the path")
