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

    If the query reads several folders, `folder` is the end of the path of the stream's own, such as "orders".
    """

    def __init__(self, checkpoint: str | Path, *, folder: str | Path | None = None) -> None:
        self._checkpoint = Path(checkpoint)
        self._ending = "" if folder is None else f"/{str(folder).strip('/')}]"  # of Spark's FileStreamSource[…]
        self._sources: dict[int, _FilesRead] = {}

    def __call__(self, source: SourceProgress, index: int) -> Mapping[str, int] | None:
        batch = _batch_of(source.endOffset)
        if not source.description.endswith(self._ending):
            return None
        if batch is None:  # a stream of files has no offset before its first file
            return {} if source.description.startswith("FileStreamSource[") else None
        folder = self._checkpoint / "sources" / str(index)
        known = self._sources.get(index)
        if known is None or batch < known.batch or _identity(_list_of(folder, known.batch)) != known.list:
            known = self._sources[index] = _FilesRead()  # at first, and for another checkpoint in the same folder
        for name in _files(folder, known.batch + 1, batch):
            known.take(name)
        known.batch, known.list = batch, _identity(_list_of(folder, batch))
        return dict(known.positions)


class _FilesRead:
    """What one source of a query has read."""

    def __init__(self) -> None:
        self.batch = -1  # the last batch that was read, by Spark's numbers for this source
        self.list: tuple[int, int] | None = None  # the identity of that batch's list of files
        self.positions: dict[str, int] = {}
        self._beyond: dict[str, set[int]] = {}  # the files read beyond the positions

    def take(self, name: str) -> None:
        found = _NAME.fullmatch(name)
        if found is None:
            _log.warning("file %r is not named SEGMENT-NUMBER: positions ignore it", name)
            return
        segment = found["segment"]
        beyond = self._beyond.setdefault(segment, set())
        at = self.positions.get(segment, 0)
        if int(found["number"]) >= at:
            beyond.add(int(found["number"]))
        while at in beyond:
            beyond.remove(at)
            at += 1
        self.positions[segment] = at


def _batch_of(offset: str | None) -> int | None:
    try:
        found = json.loads(offset or "")
    except ValueError:
        return None
    batch = found.get("logOffset") if isinstance(found, dict) else None
    return batch if isinstance(batch, int) else None


def _list_of(folder: Path, batch: int) -> Path | None:
    """The list of a batch's files, or of those of all batches up to it; None if there is none."""
    return next((path for name in (f"{batch}.compact", str(batch)) if (path := folder / name).is_file()), None)


def _identity(path: Path | None) -> tuple[int, int] | None:
    """What tells a file from a later one of the same name."""
    found = None if path is None else path.stat()
    return None if found is None else (found.st_ino, found.st_mtime_ns)


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
    path = _list_of(folder, batch)
    if path is None:
        raise InvalidOffset(
            offset=batch, wanted=f"the checkpoint's list of files should be in {folder}: check the path"
        )
    version, *lines = path.read_text().splitlines()
    if version != "v1":
        raise InvalidOffset(offset=version, wanted=f"{path} has an unknown version: v1 is known")
    return lines
