"""All streams and groups of a store, or some of them, as they were found: their status, and why some have none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from strandline.wire.status import GroupStatus, State, StreamStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsFound:
    """Streams, and for streams without a status the code of a problem, by name."""

    streams: tuple[StreamStatus, ...]
    unread: Mapping[str, str]


class UnreadGroup(NamedTuple):
    """The code of the problem for which a group has no status, and the streams that it reads."""

    code: str
    streams: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsFound:
    """Groups, and those without a status, by name."""

    groups: tuple[GroupStatus, ...] = ()
    unread: Mapping[str, UnreadGroup] = field(default_factory=dict)

    def allowed(self, may_see: Callable[[str], bool]) -> GroupsFound:
        """The groups all of whose streams somebody may see."""
        groups = tuple([each for each in self.groups if all(map(may_see, each.streams))])
        unread = {name: each for name, each in self.unread.items() if all(map(may_see, each.streams))}
        return GroupsFound(groups=groups, unread=unread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview(StreamsFound):
    """All streams and groups at one moment, or those in memory; streams in trouble first, and groups in
    backlog."""

    at: int
    groups: GroupsFound


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The number of streams by state, and of everything else."""

    states: Mapping[State, int]
    streams: int
    in_memory: int
    sealed: int
    writers: int
    notes: int
    late_notes: int
    refusals: int
    groups: int
    in_backlog: int


def reading(
    groups: Mapping[str, Sequence[str]], streams: Collection[str], names: Collection[str] = ()
) -> dict[str, Sequence[str]]:
    """Of groups, each with its streams, those that read any of these streams, and those of these names."""
    wanted = set(streams)
    return {name: read for name, read in groups.items() if name in names or not wanted.isdisjoint(read)}


def in_order_of_backlog(found: GroupsFound) -> GroupsFound:
    """Groups in backlog first, and among equals those that are furthest behind."""
    ranked = sorted(found.groups, key=lambda each: (not each.backlog, -(each.lag_ms or 0), each.group))
    return GroupsFound(groups=tuple(ranked), unread=found.unread)


def summarize(found: StreamsFound, groups: GroupsFound) -> Summary:
    """Streams and groups in numbers."""
    states: Counter[State] = Counter()
    sealed = writers = notes = late_notes = refusals = 0
    for each in found.streams:
        states[each.state] += 1
        sealed += each.sealed
        writers += each.writer_count
        notes += each.notes
        late_notes += each.late_notes
        refusals += sum(each.refusals.values())
    return Summary(
        states=states,
        streams=len(found.streams) + len(found.unread),
        in_memory=len(found.streams),
        sealed=sealed,
        writers=writers,
        notes=notes,
        late_notes=late_notes,
        refusals=refusals,
        groups=len(groups.groups) + len(groups.unread),
        in_backlog=sum(each.backlog for each in groups.groups),
    )
