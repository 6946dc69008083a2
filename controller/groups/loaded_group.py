"""A loaded reader group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from controller.cluster.records import Kind
from controller.groups.membership import Membership, Positions, Reader, StreamStart, Touched
from controller.records.journal import JOURNAL_NAMES, STATES, AdminAction, Journal, log_entries
from controller.storage import schema
from controller.storage.groups import StoredGroup, group_values
from controller.storage.journal import JOURNAL_OF_GROUP
from controller.storage.save import Commit
from controller.storage.tenure import Tenure
from strandline.core.backlog import BacklogDetector
from strandline.core.order import SegmentRef
from strandline.core.served_time import Moment
from strandline.wire.groups import (
    GROUP_SETTINGS,
    FromHead,
    FromPositions,
    FromTime,
    GroupSettings,
    GroupWindow,
    settings_of_group,
)


class LoadedGroup:
    """A loaded reader group. It may be ahead of the store until it is written."""

    def __init__(
        self,
        membership: Membership,
        created_at: int,
        tenure: Tenure,
        *,
        stored_fence: int | None,
        heard_at: int | None = None,
    ) -> None:
        self.membership = membership
        self.tenure = tenure
        self.caught_up = False  # the group was found not to be in backlog, since it was last asleep
        self.last_window: GroupWindow | None = None  # the last window that was told of the present streams
        self.lost_stream = False  # since then, a stream was found to be deleted, or created again
        self.backlog: bool | None = None  # as last reported, None before the first report
        self._backlog = BacklogDetector(membership.settings.backlog_threshold_ms)
        self.created_at = created_at
        self.heard_at = created_at if heard_at is None else heard_at  # when any reader was last heard
        self.journal = Journal(JOURNAL_OF_GROUP)
        self._discarded = False
        self.ending: asyncio.Future[None] | None = None
        self._stored_fence = stored_fence
        self._owned: dict[str, set[SegmentRef]] = {}  # by reader, the segments that it owns according to the journal

    @classmethod
    def loaded(cls, stored: StoredGroup, settings: GroupSettings, tenure: Tenure, now: int) -> LoadedGroup:
        membership = Membership(stored.name, settings)
        membership.identities, membership.epochs = stored.identities, stored.epochs
        membership.readers = {name: Reader(*of_reader) for name, of_reader in stored.readers.items()}
        membership.offsets, membership.owners = stored.offsets, stored.owners
        membership.unsettled = stored.unsettled
        membership.held = stored.held
        heard_at = max((reader.heard_at for reader in membership.readers.values()), default=now)
        loaded = cls(membership, stored.created_at, tenure, stored_fence=stored.fence, heard_at=heard_at)
        loaded.journal = Journal(JOURNAL_OF_GROUP, stored.journal)
        for place, reader in stored.owners.items():
            loaded._owned.setdefault(reader, set()).add(place)
        if stored.caught_up:
            loaded.in_backlog(now, now, asleep=False)
        return loaded

    @property
    def discarded(self) -> bool:
        """Whether it must not be served or written: it is not equal to the store, or its tenure is over."""
        return self._discarded or self.tenure.over

    def start_over(self, restored_at: int, now: int) -> None:
        """Fences all readers after the store was restored to an earlier moment, as `LoadedStream.start_over` does."""
        self.membership.fence_all(restored_at)
        self.journal.act(AdminAction("restored", None, {"restored_at": restored_at}), now)

    def configure(
        self,
        settings: GroupSettings,
        starts: Mapping[str, StreamStart],
        watermarks: Mapping[str, int | None],
        moment: Moment,
    ) -> None:
        """Changes the settings, see `Membership.configure`. A new backlog threshold is evaluated again."""
        if settings.backlog_threshold_ms != self.membership.settings.backlog_threshold_ms:
            self._backlog = BacklogDetector(settings.backlog_threshold_ms)
            self.caught_up = False
        self.last_window = None
        self.membership.configure(settings, starts, watermarks, moment)

    def in_backlog(self, watermark: int | None, now: int, *, asleep: bool) -> bool:
        """Whether the group is in backlog; remembers whether it was found not to be."""
        if asleep:
            self.caught_up = False
            status = self._backlog.went_idle()
        else:
            status = self._backlog.woke(watermark, now)
            self.caught_up = self._backlog.threshold_ms is not None and not status
        if self.backlog is not None and status != self.backlog:
            lag = None if watermark is None else now - watermark
            self.journal.tell(STATES, "backlog" if status else "caught_up", now, {"lag_ms": lag})
        self.backlog = status
        return status

    def record_silent(self, now: int) -> bool:
        """Journals the readers that lost segments for silence; returns whether there are any."""
        silent, self.membership.silent = self.membership.silent, []
        for name, heard_at in silent:
            self.journal.tell(STATES, "reader_silent", now, {"reader": name, "last_heard_at": heard_at})
            self._owned.pop(name, None)
        return bool(silent)

    def record_owned(self, reader: str, owned: Positions, now: int) -> None:
        """Journals which segments a reader has gained or lost, if any."""
        places = {(stream, segment) for stream, position in owned.items() for segment in position}
        before = self._owned.get(reader, set())
        if places != before:
            self._owned[reader] = places
            details = {"owned": len(places), "gained": _names(places - before), "lost": _names(before - places)}
            self.journal.tell(STATES, "reader_segments", now, {"reader": reader, **details})

    def write(self, commit: Commit) -> Callable[[], None]:
        """Adds all changes since the last call to a commit; returns the function that logs them."""
        members, fence = self.membership, self.tenure.fence
        touched, members.touched = members.touched, Touched()
        commit.under(self.tenure, Kind.GROUP, members.name, self._stored_fence)
        if self.ending is not None:
            commit.delete(Kind.GROUP, members.name, members.epochs)
            return self.discard
        if touched.group or self._stored_fence != fence:
            settings = settings_of_group(members.settings)
            row = group_values(
                members.name,
                settings,
                members.identities,
                members.epochs,
                self.caught_up,
                members.held,
                self.created_at,
                self.tenure.owner,
                fence,
                self.tenure.place,
            )
            put = commit.add_row if self._stored_fence is None else commit.put_row
            put(schema.reader_group, row)
        self._stored_fence = fence
        written = self.journal.write(members.name, commit)
        for name in sorted(touched.readers):
            reader = members.readers.get(name)
            key = {"group": members.name, "name": name}
            if reader is None:
                commit.remove(schema.reader, key)
            else:
                heard = {"heard_at": reader.heard_at, "served_at": reader.served_at}
                commit.put_row(schema.reader, {**key, "epoch": reader.epoch, **heard})
        for stream, segment in sorted(touched.places):
            place = (stream, segment)
            values = {
                "offset": members.offsets.get(place, 0),
                "settled": members.unsettled.get(place),
                "reader": members.owners.get(place),
            }
            key = {"group": members.name, "stream": stream, "segment": segment}
            if stream in members.settings.streams:
                commit.put_row(schema.reader_position, key | values)
            else:
                commit.remove(schema.reader_position, key)
        return partial(log_entries, "group", members.name, written)  # windows are computed when they are requested

    def discard(self) -> None:
        self._discarded = True


def _names(places: set[SegmentRef]) -> list[str]:
    return [f"{stream}/{segment}" for stream, segment in sorted(places)[:JOURNAL_NAMES]]


def settings_of(wire: dict[str, Any]) -> GroupSettings:
    """The settings from their stored form."""
    start = wire["start"]
    begins: FromHead | FromTime | FromPositions
    if start == "head":
        begins = FromHead()
    elif "time" in start:
        begins = FromTime(start["time"])
    else:
        begins = FromPositions(start["positions"])
    stored = {name: wire[name] for name in GROUP_SETTINGS}
    return GroupSettings(streams=tuple(wire["streams"]), start=begins, **stored)
