"""A loaded reader group."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from copy import copy
from functools import partial
from typing import Any

from controller.commit.item import Item
from controller.commit.journal import JOURNAL_NAMES, AdminAction, Journal, Topic, WrittenEntry
from controller.groups.membership import Membership, Positions, Reader, StreamStart, Touched
from controller.storage import schema
from controller.storage.groups import Held, StoredGroup, group_values
from controller.storage.heads import NEVER, Head, new_head
from controller.storage.journal import JOURNAL_OF_GROUP
from controller.storage.news import Found
from controller.storage.save import Commit
from controller.storage.subjects import Kind, Subject
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


class LoadedGroup(Item):
    """A loaded reader group, which is a cache of the store. It may be ahead of it until it is written."""

    def __init__(
        self, membership: Membership, created_at: int, *, head: Head | None = None, heard_at: int | None = None
    ) -> None:
        """`head` is the stored one; None for a new group."""
        super().__init__(Subject(Kind.GROUP, membership.name), head or new_head(secrets.token_hex(8), created_at))
        self.membership = membership
        self.caught_up = False  # the group was found not to be in backlog, since it was last asleep
        self.last_window: GroupWindow | None = None  # the last window that was handed out of the present streams
        self.backlog: bool | None = None  # as last reported, None before the first report
        self._backlog = BacklogDetector(membership.settings.backlog_threshold_ms)
        self.created_at = created_at
        self.heard_at = created_at if heard_at is None else heard_at  # when any reader was last heard
        self.journal = Journal(JOURNAL_OF_GROUP, membership.name, self.head.journaled)
        self._owned: dict[str, set[SegmentRef]] = {}  # by reader, the segments that it owns according to the journal

    @classmethod
    def loaded(cls, stored: StoredGroup) -> LoadedGroup:
        loaded = cls(_membership_of(stored), stored.created_at, head=stored.head)
        loaded._resume(stored)
        return loaded

    def _resume(self, stored: StoredGroup) -> None:
        self.heard_at = max((each.heard_at for each in self.membership.readers.values()), default=self.heard_at)
        self._owned = {}
        for place, reader in stored.owners.items():
            self._owned.setdefault(reader, set()).add(place)
        if stored.caught_up and not self.caught_up:
            self.in_backlog(self.created_at, self.created_at, asleep=False)

    # -- from the store ------------------------------------------------------------------------------------------

    def follow(self, found: Found) -> bool:
        stored = found.groups.get(self.membership.name)
        if stored is None:
            return False
        before, self.membership = self.membership, _membership_of(stored)
        self.membership.follow(before)
        if self.membership.settings.backlog_threshold_ms != before.settings.backlog_threshold_ms:
            self._backlog = BacklogDetector(self.membership.settings.backlog_threshold_ms)
            self.caught_up = False
        self.head = stored.head
        self.journal.written = stored.head.journaled
        self._resume(stored)
        return True

    def begin_anew(self, restored_at: int) -> None:
        """Fences all readers after the store was restored to an earlier moment, as `LoadedStream.begin_anew` does."""
        self.membership.fence_all(restored_at)
        self.journal.act(AdminAction("restored", None, {"restored_at": restored_at}), restored_at)

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
        """Whether the group is in backlog; remembers whether it was found not to be. Only a step may call it."""
        if asleep:
            self.caught_up = False
            status = self._backlog.went_idle()
        else:
            status = self._backlog.woke(watermark, now)
            self.caught_up = self._backlog.threshold_ms is not None and not status
        if self.backlog is not None and status != self.backlog:
            lag = None if watermark is None else now - watermark
            self.journal.record(Topic.STATES, "backlog" if status else "caught_up", now, {"lag_ms": lag})
        self.backlog = status
        return status

    def backlog_changes(self, watermark: int | None, now: int, *, asleep: bool) -> bool:
        """Whether `in_backlog` would find something that is to be stored or journaled."""
        detector = copy(self._backlog)
        if asleep:
            return self.caught_up or (self.backlog is not None and detector.went_idle() != self.backlog)
        status = detector.woke(watermark, now)
        caught_up = detector.threshold_ms is not None and not status
        return caught_up != self.caught_up or (self.backlog is not None and status != self.backlog)

    def record_silent(self, now: int) -> bool:
        """Journals the readers that lost segments for silence; returns whether there are any."""
        silent, self.membership.silent = self.membership.silent, []
        for name, heard_at in silent:
            self.journal.record(Topic.STATES, "reader_silent", now, {"reader": name, "last_heard_at": heard_at})
            self._owned.pop(name, None)
        return bool(silent)

    def record_owned(self, reader: str, owned: Positions, now: int) -> None:
        """Journals which segments a reader has gained or lost, if any."""
        places = {(stream, segment) for stream, position in owned.items() for segment in position}
        before = self._owned.get(reader, set())
        if places != before:
            self._owned[reader] = places
            details = {"owned": len(places), "gained": _names(places - before), "lost": _names(before - places)}
            self.journal.record(Topic.STATES, "reader_segments", now, {"reader": reader, **details})

    def write(self, commit: Commit) -> Callable[[], None]:
        """Adds all changes since the last call to a commit; returns the function that publishes them."""
        members = self.membership
        touched, members.touched = members.touched, Touched()
        if self.ending is not None:
            commit.delete(Kind.GROUP, members.name, members.epochs)
            return self.discard
        is_new = not self.head.version
        if touched.group or is_new:
            row = group_values(
                members.name,
                settings_of_group(members.settings),
                members.identities,
                members.epochs,
                self.caught_up,
                Held(members.held, members.aside),
                self.created_at,
            )
            put = commit.add_row if is_new else commit.put_row
            put(schema.reader_group, row)
        written = self.journal.write(commit)
        for name in sorted(touched.readers):
            reader = members.readers.get(name)
            key = {"group": members.name, "name": name}
            if reader is None:
                commit.remove(schema.reader, key)
            else:
                heard = {"heard_at": reader.heard_at, "served_at": reader.served_at}
                registered = {"epoch": reader.epoch, "registration": reader.registration}
                commit.put_row(schema.reader, {**key, **registered, **heard})
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
        head = self.head.next(
            self.head.version + 1,
            commit.stamp,
            structural=False,
            clock=self.head.clock,
            wake_at=NEVER,
            journaled=self.journal.written,
        )
        commit.put_head(self.subject, head)
        return partial(self._publish, head, written)

    def _publish(self, head: Head, written: list[WrittenEntry]) -> None:
        self.head = head
        self.journal.log(written)  # windows are computed when they are requested


def _membership_of(stored: StoredGroup) -> Membership:
    membership = Membership(stored.name, settings_of(stored.settings))
    membership.identities, membership.epochs = stored.identities, stored.epochs
    membership.readers = {name: Reader(*of_reader) for name, of_reader in stored.readers.items()}
    membership.offsets, membership.owners = stored.offsets, stored.owners
    membership.unsettled = stored.unsettled
    membership.held, membership.aside = stored.held.watermarks, stored.held.aside
    return membership


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
