"""How far a query has read a source, from Spark's report: Kafka's connector, files, or another source."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from spark_integration.errors import InvalidOffset
from strandline.core.cut import Cut

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import SourceProgress

_NAME: Final = re.compile(r"(?P<segment>[A-Za-z0-9][A-Za-z0-9._-]*)-(?P<number>[0-9]{1,15})(?:\.[A-Za-z0-9.]+)?")

_log = logging.getLogger(__name__)


class PositionReader(Protocol):
    """Reads the position of a source from its progress."""

    def __call__(self, source: SourceProgress, index: int) -> Mapping[str, int] | None:
        """Returns the position at the end of a finished batch: an empty one before the first event, None for another
        source. `index` counts from 0.

        If it has several sources of a query, they must have the same description: it is one source, read twice.
        """
        ...


@dataclass(frozen=True, slots=True)
class SourceRead:
    """How far a query has read one stream."""

    position: Mapping[str, int]
    partitions: Set[str] | None = None  # of a topic: those that it reads
    remaining: int | None = None  # offsets, when the batch was planned


def read_of(sources: list[SourceProgress], positions: PositionReader, name: str, stream: str) -> SourceRead | str:
    """Returns how far a query has read the source `name`, or why that cannot be said."""
    found = [(source, positions(source, index)) for index, source in enumerate(sources)]
    known = [(source, each) for source, each in found if each is not None]
    descriptions = sorted({source.description for source, _ in known})
    if len(descriptions) != 1:
        they = f"{' and '.join(descriptions)} give" if descriptions else "none of its sources gives"
        return f"{they} positions of {name!r}, but exactly one source must: its watermark does not move"
    # A query may read one source several times, and each time it is somewhere else.
    position = reduce(Cut.meet, (Cut(each) for _, each in known)).offsets
    if not isinstance(positions, KafkaPositions):
        return SourceRead(position)
    others = {topic for source, _ in known for topic in positions.others(source)}
    if others:
        return (
            f"{descriptions[0]} reads {', '.join(sorted(others))} as well, which stream {stream!r} does not cover: its "
            "watermark does not move; load and attach each topic by itself, with its own stream, and unite the results"
        )
    remaining = [count for source, _ in known if (count := positions.remaining(source)) is not None]
    partitions = set.intersection(*(set(each) for _, each in known))  # a position leaves out what is at 0
    return SourceRead(position, partitions, max(remaining, default=None))


class KafkaPositions:
    """The positions of Spark's own Kafka connector: a partition is a segment."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def __call__(self, source: SourceProgress, index: int) -> Mapping[str, int] | None:
        return _by_topic(source.endOffset).get(self._topic)

    def remaining(self, source: SourceProgress) -> int | None:
        """Returns how many offsets remained when the batch was planned; None if Spark does not report it."""
        read, ends = (_by_topic(text).get(self._topic) for text in (source.endOffset, source.latestOffset))
        if read is None or ends is None:
            return None
        return sum(max(0, end - read.get(segment, 0)) for segment, end in ends.items())

    def others(self, source: SourceProgress) -> set[str]:
        """Returns the other topics that the source reads."""
        return _by_topic(source.endOffset).keys() - {self._topic}


def _by_topic(text: str | None) -> dict[str, Mapping[str, int]]:
    """The offsets of Spark's own Kafka connector; none of another source."""
    return {topic: each for topic, each in _object(text).items() if isinstance(each, dict)}


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
        if not source.description.endswith(self._ending):
            return None
        batch = _object(source.endOffset).get("logOffset")
        if not isinstance(batch, int):  # a stream of files has no offset before its first file
            return {} if source.description.startswith("FileStreamSource[") else None
        folder = self._checkpoint / "sources" / str(index)
        known = self._sources.get(index)
        if known is None or batch < known.batch or _identity(folder, known.batch) != known.list:
            known = self._sources[index] = _FilesRead()  # at first, and for another checkpoint in the same folder
        for name in _files(folder, known.batch + 1, batch):
            known.take(name)
        known.batch, known.list = batch, _identity(folder, batch)
        return dict(known.positions)


@dataclass(slots=True)
class _FilesRead:
    """What one source of a query has read."""

    batch: int = -1  # the last batch that was read, by Spark's numbers for this source
    list: tuple[int, int] | None = None  # the identity of that batch's list of files
    positions: dict[str, int] = field(default_factory=dict)
    beyond: dict[str, set[int]] = field(default_factory=dict)  # the files read beyond the positions

    def take(self, name: str) -> None:
        found = _NAME.fullmatch(name)
        if found is None:
            _log.warning("file %r is not named SEGMENT-NUMBER: positions ignore it", name)
            return
        segment = found["segment"]
        beyond = self.beyond.setdefault(segment, set())
        at = self.positions.get(segment, 0)
        if int(found["number"]) >= at:
            beyond.add(int(found["number"]))
        while at in beyond:
            beyond.remove(at)
            at += 1
        self.positions[segment] = at


def _list_of(folder: Path, batch: int) -> Path | None:
    """The list of a batch's files, or of those of all batches up to it; None if there is none."""
    return next((path for name in (f"{batch}.compact", str(batch)) if (path := folder / name).is_file()), None)


def _identity(folder: Path, batch: int) -> tuple[int, int] | None:
    """What tells the list of a batch from a later one of the same name."""
    path = _list_of(folder, batch)
    found = None if path is None else path.stat()
    return None if found is None else (found.st_ino, found.st_mtime_ns)


def _files(folder: Path, first: int, last: int) -> Iterator[str]:
    """Yields the names of the files in the batches `first` to `last`. A compaction may have merged the first ones."""
    compacted = (batch for batch in range(last, first - 1, -1) if (folder / f"{batch}.compact").is_file())
    for batch in range(next(compacted, first), last + 1):
        path = _list_of(folder, batch)
        if path is None:
            wanted = f"the checkpoint's list of files should be in {folder}: check the path"
            raise InvalidOffset(offset=batch, wanted=wanted)
        version, *lines = path.read_text().splitlines()
        if version != "v1":
            raise InvalidOffset(offset=version, wanted=f"{path} has an unknown version: v1 is known")
        for line in lines:
            yield json.loads(line)["path"].rpartition("/")[2]


def _object(text: str | None) -> Mapping[str, object]:
    """The offset of a source as JSON; empty if it is none."""
    try:
        found = json.loads(text or "")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
