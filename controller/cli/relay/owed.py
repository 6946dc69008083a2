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
from typing import NamedTuple

from controller.cli.relay.records import Leaving, Said


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


class Book:
    """What is owed to all writers, by whose it is."""

    def __init__(self) -> None:
        self._owed: dict[Whose, Owed] = {}
        self._parked: set[Whose] = set()  # that wait for a stream or a topic which may never come

    def __len__(self) -> int:
        return len(self._owed)

    def take(self, partition: int, offset: int, said: Said) -> dict[str, int]:
        """Takes a record. Returns the times, by key, that are below those of records before it, and count for
        nothing."""
        owed = self._owed.setdefault(Whose(said.stream, said.writer), Owed())
        owed.firsts.setdefault(partition, offset)
        back = {key: time for key, time in said.times.items() if time < owed.times.get(key, time)}
        owed.times.update({key: time for key, time in said.times.items() if key not in back})
        owed.leaving = said.leaving
        return back

    def due(self, is_read: Callable[[int], bool]) -> dict[str, dict[str, Owed]]:
        """What can be noted now, by stream and writer: all of whose partitions were read to their ends."""
        found: dict[str, dict[str, Owed]] = {}
        for (stream, writer), owed in self._owed.items():
            if all(map(is_read, owed.firsts)):
                found.setdefault(stream, {})[writer] = owed
        return found

    def settle(self, whose: Whose) -> None:
        """All of it was noted, or is refused for good."""
        self._owed.pop(whose, None)
        self._parked.discard(whose)

    def park(self, stream: str) -> None:
        """What is owed in a stream is kept here, and no longer in the topic: later records need not wait for it."""
        self._parked.update(whose for whose in self._owed if whose.stream == stream)

    def drop(self, partitions: Iterable[int]) -> None:
        """Forgets what partitions said that another relay reads now."""
        gone = set(partitions)
        for whose, owed in list(self._owed.items()):
            owed.firsts = {each: offset for each, offset in owed.firsts.items() if each not in gone}
            if not owed.firsts:
                self.settle(whose)

    def committable(self, positions: Mapping[int, int]) -> dict[int, int]:
        """Up to where each partition need not be read again; `positions` are where it was read to."""
        found = dict(positions)
        for partition, first in self._waiting():
            if partition in found:
                found[partition] = min(found[partition], first)
        return found

    def _waiting(self) -> Iterator[tuple[int, int]]:
        for whose, owed in self._owed.items():
            if whose not in self._parked:
                yield from owed.firsts.items()
