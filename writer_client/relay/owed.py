"""What is owed to writers: what their records said, and what of it no stream knows yet. Pure.

    records of w     time 5 │ time 7 │ idle │ time 9
    owed             ───────┴────────┴──────┴─────► time 9: only the last state is noted

A record may be read again: by another relay, or after a crash. So nothing of a partition is noted before it was read
to its end once. All that was noted before is older, and an idle of old, which a later note has ended, is not said
again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Final, NamedTuple, TypeAlias

from writer_client.relay.records import Leaving, Said

OWED_WRITERS: Final = 250_000  # as many as a stream can have; a record of one more is not kept


class Whose(NamedTuple):
    """A writer of a stream."""

    stream: str
    writer: str


@dataclass(slots=True)
class Owed:
    """What the records of a writer said since something was noted for it last."""

    times: dict[str, int] = field(default_factory=dict)
    leaving: Leaving | None = None
    firsts: dict[int, int] = field(default_factory=dict)  # by partition, the offset of the first of these records


Due: TypeAlias = Mapping[str, Mapping[str, Owed]]  # by stream and writer


class Book:
    """What is owed to all writers."""

    def __init__(self, bound: int = OWED_WRITERS) -> None:
        self._owed: dict[str, dict[str, Owed]] = {}
        self._count = 0
        self._bound = bound

    def __len__(self) -> int:
        return self._count

    def has_room(self, whose: Whose) -> bool:
        """Whether a record of this writer can be taken."""
        return self._count < self._bound or whose.writer in self._owed.get(whose.stream, ())

    def take(self, partition: int, offset: int, said: Said) -> dict[str, int]:
        """Takes a record. Returns the times, by key, that are below those of records before it, and count for
        nothing."""
        writers = self._owed.setdefault(said.stream, {})
        if said.writer not in writers:
            writers[said.writer] = Owed()
            self._count += 1
        owed = writers[said.writer]
        owed.firsts.setdefault(partition, offset)
        back = {key: time for key, time in said.times.items() if time < owed.times.get(key, time)}
        owed.times.update({key: time for key, time in said.times.items() if key not in back})
        owed.leaving = said.leaving
        return back

    def due(self, is_read: Callable[[int], bool]) -> dict[str, dict[str, Owed]]:
        """What can be noted now, by stream and writer: all of whose partitions were read to their ends."""
        found: dict[str, dict[str, Owed]] = {}
        for stream, writer, owed in self._all():
            if all(map(is_read, owed.firsts)):
                found.setdefault(stream, {})[writer] = owed
        return found

    def settle(self, whose: Whose) -> None:
        """All of it was noted, or is refused for good."""
        writers = self._owed.get(whose.stream, {})
        if writers.pop(whose.writer, None) is not None:
            self._count -= 1
        if not writers:
            self._owed.pop(whose.stream, None)

    def drop_stream(self, stream: str) -> int:
        """Forgets what is owed in a stream; returns to how many writers."""
        count = len(self._owed.pop(stream, ()))
        self._count -= count
        return count

    def drop(self, partitions: Iterable[int]) -> None:
        """Forgets what partitions said that another relay reads now."""
        gone = set(partitions)
        for stream, writer, owed in list(self._all()) if gone else ():
            if gone.isdisjoint(owed.firsts):
                continue
            owed.leaving = None  # which of its partitions said so is not known
            owed.firsts = {each: offset for each, offset in owed.firsts.items() if each not in gone}
            if not owed.firsts:
                self.settle(Whose(stream, writer))

    def committable(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Up to where each partition need not be read again; `positions` are where it was read to."""
        found = dict(positions)
        for _, _, owed in self._all():
            for partition, first in owed.firsts.items():
                if partition in found:
                    found[partition] = min(found[partition], first)
        return found

    def _all(self) -> Iterator[tuple[str, str, Owed]]:
        for stream, writers in self._owed.items():
            for writer, owed in writers.items():
                yield stream, writer, owed


def in_turn(writers: Mapping[str, Iterable[str]]) -> Iterator[Whose]:
    """One writer of each stream, then a second of each, and so on: a stream with many writers holds up no other."""
    for row in zip_longest(*([Whose(stream, each) for each in some] for stream, some in writers.items())):
        yield from (whose for whose in row if whose is not None)
