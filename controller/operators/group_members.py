"""A reader group closely: its status, its readers, and its positions, as its page shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controller.groups.membership import Membership
from strandline.core.order import SegmentRef
from strandline.errors import Refused
from strandline.wire.groups import GroupSettings, GroupWindow
from strandline.wire.status import GroupStatus


class ReaderStatus(NamedTuple):
    """A registered reader, with the segments that it owns."""

    name: str
    epoch: int
    silent_ms: int
    segments: tuple[SegmentRef, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembers:
    """Readers by name, and by segment the offset up to which the group has read it and the reader that owns it."""

    readers: tuple[ReaderStatus, ...]
    offsets: Mapping[SegmentRef, int]
    owners: Mapping[SegmentRef, str]


class GroupRead(NamedTuple):
    """A reader group that could be read."""

    status: GroupStatus
    window: GroupWindow


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDetails:
    """A reader group with its settings and its members. `read` is why it has no status where one of its streams refuses
    it, for instance because the stream was deleted. `last_entry` is the newest entry of its journal, by when
    the group was created, and its seq. It may not be durable yet."""

    settings: GroupSettings
    read: GroupRead | Refused
    members: GroupMembers
    last_entry: tuple[int, int]


def group_members(membership: Membership, now: int) -> GroupMembers:
    """The readers and positions of a group at this moment."""
    owned: dict[str, list[SegmentRef]] = {}
    for segment, owner in sorted(membership.owners.items()):
        owned.setdefault(owner, []).append(segment)
    readers = [
        ReaderStatus(name, reader.epoch, max(0, now - reader.heard_at), tuple(owned.get(name, ())))
        for name, reader in sorted(membership.readers.items())
    ]
    return GroupMembers(readers=tuple(readers), offsets=dict(membership.offsets), owners=dict(membership.owners))
