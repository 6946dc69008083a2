"""Checks a store: by the database's own check, and by loading each stream and reader group as a controller does.

It changes nothing, and a controller may go on serving. A stream is looked at as it is at one moment, and is in memory
meanwhile. Marks that are too old to be loaded are read in pages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Final

from controller.groups.loaded_group import LoadedGroup
from controller.storage.diagnosis import Cause, diagnose
from controller.storage.groups import group_streams, load_group
from controller.storage.kinds import kind_of
from controller.storage.load import StoredStream, read_stream, stream_names
from controller.storage.marks import StoredMarks
from controller.storage.session import StoreConnection, StoreFailed
from controller.storage.unreadable import MISSING, made_of_rows
from controller.streams.loaded_stream import LoadedStream
from strandline.core.chain import check_follows
from strandline.core.served_time import Unserved
from strandline.errors import StoreCorrupt

AT_ONCE: Final = 256  # names, and older marks, that are read together


class StoreCheck:
    """One check: `run` finds the faults. `checked` counts streams and reader groups so far."""

    def __init__(self, connection: StoreConnection) -> None:
        self.faults: list[StoreCorrupt] = []
        self.checked = Counter[str](streams=0, reader_groups=0)
        self._connection = connection

    def run(self) -> None:
        """Finds what the database reports, and of each stream and group the first fault. Raises the database's errors
        that show no damage, such as a lost connection."""
        with self._collecting(), self._connection.begin():
            for table, reason in kind_of(self._connection).faults(self._connection):
                self.faults.append(StoreCorrupt(table=table, reason=reason))
        self._load_all("streams", stream_names, self._load_stream)
        self._load_all("reader_groups", group_streams, self._load_group)

    def _load_all(
        self,
        kind: str,
        names: Callable[[StoreConnection, str, int], Iterable[str]],
        load: Callable[[str], bool],
    ) -> None:
        """`load` returns whether it found what it is to load."""
        before, some = "", [""]
        while some:
            some = []
            with self._collecting():
                some = list(names(self._connection, before, AT_ONCE))
            for name in some:
                whose = {"stream" if kind == "streams" else "group": name}
                with self._collecting(**whose), made_of_rows(**whose):
                    if not load(name) and name in names(self._connection, before, 1):  # else it was deleted meanwhile
                        raise StoreCorrupt(table="head", reason=MISSING, **whose)
                before = name
                self.checked[kind] += 1

    def _load_stream(self, name: str) -> bool:
        stored = read_stream(self._connection, lambda: None, name, Unserved())
        if stored is None:
            return False
        LoadedStream.loaded(stored, watch=lambda _: None)
        for key in stored.chains:
            with self._connection.begin():
                self._read_older_marks(stored, key)
        return True

    def _read_older_marks(self, stored: StoredStream, key: str) -> None:
        marks = StoredMarks(self._connection, stored.stream.name, key)
        seq, last = stored.first_seqs[key], stored.chains[key].first_seq
        while seq < last:
            end = min(last, seq + AT_ONCE)  # which the next page begins with, so that no gap is between them
            found = marks.between(seq, end)
            for each, following in pairwise(found):
                check_follows(each, following)
            seq = max(seq + 1, found[-1].seq if found else end)  # retention may have removed all of them meanwhile

    def _load_group(self, name: str) -> bool:
        stored = load_group(self._connection, name)
        if stored is not None:
            LoadedGroup.loaded(stored)
        return stored is not None

    @contextmanager
    def _collecting(self, stream: str | None = None, group: str | None = None) -> Iterator[None]:
        """Takes faults for those of a stream or group, or of the database, and goes on."""
        try:
            yield
        except StoreCorrupt as error:
            self.faults.append(error)
        except StoreFailed as error:
            found = diagnose(error)
            if found.cause is not Cause.DAMAGED:
                raise
            self.faults.append(StoreCorrupt(stream=stream, group=group, reason=found.reason))


def fault_text(fault: StoreCorrupt) -> str:
    """A fault in a line, without what a caller of the controller needs to know."""
    place = {"stream": fault.stream, "reader group": fault.group, "table": fault.table, "row with": fault.row}
    known = [f"{word} {value}" for word, value in place.items() if value is not None]
    return f"{', '.join(known) or 'the database'}: {fault.reason}"
