"""The page of a reader group: its windows, readers and segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from controller.dashboard.fields import as_text
from controller.dashboard.journal import journal_table
from controller.dashboard.limits import GROUP_JOURNAL_READ, NAMED_WRITERS
from controller.dashboard.pages.page import Page, Tile, View
from controller.dashboard.tables import Button, Cell, Column, Table
from controller.dashboard.words import (
    COLOURS,
    ago,
    group_lag,
    group_state,
    holder_name,
    key_label,
    still_story,
    stream_link,
    writer_link,
)
from controller.operators.group_members import ReaderStatus
from controller.operators.wording import NOTHING, Times, moment, named, span, yes
from controller.storage.journal import JOURNAL_OF_GROUP
from strandline.core.order import SegmentRef
from strandline.core.time_units import is_epoch
from strandline.errors import Refused
from strandline.wire.groups import GROUP_SETTINGS, GroupSettings, GroupWindow, KeyWindow, StreamWindow
from strandline.wire.status import GroupStatus, StreamStatus

_BACKLOG: Final = ("backlog", "caught_up")


class _WindowOf(NamedTuple):
    stream: str
    key: str
    bounds: KeyWindow
    whole: StreamWindow
    newest: int | None  # the time of the newest mark
    idle: bool

    @property
    def behind(self) -> int | None:
        lower = self.bounds.lower
        return None if lower is None or self.newest is None else max(0, self.newest - lower)

    @property
    def behind_text(self) -> str:
        if self.behind is None:
            return NOTHING
        return span(self.behind) if is_epoch(self.newest or 0) else str(self.behind)


async def group_page(view: View, name: str) -> Page:
    view.who.check(*(await view.controller.groups.get(name)).membership.settings.streams)
    details = await view.controller.status.of_group(name)
    entries = await view.history.journal(JOURNAL_OF_GROUP, name, GROUP_JOURNAL_READ, details.last_entry)
    changes = [each for each in entries if each.kind in _BACKLOG]
    members = details.members
    places = sorted(members.offsets.keys() | members.owners.keys())
    of_now: dict[str, Any]
    if isinstance(details.read, Refused):
        of_now = {"refusal": str(details.read), "tiles": _settings_tiles(details.settings)}
    else:
        found, window = details.read
        read = (await view.status.of_streams(found.streams)).streams
        windows = _windows_of(window, read)
        made = next((each for each in entries if each.kind == "created"), None)
        began = changes[-1] if changes else made if found.backlog else None  # a new group is in backlog
        since = "" if began is None else f"since {moment(began.at, view.now)}{'' if changes else ', when it was made'}"
        of_now = {
            "refusal": "",
            "tiles": _group_tiles(found, since),
            "held": _held_group(found, read, windows),
            "streams": _windows_table(view, windows),
        }
    shows = {
        "name": name,
        "no_readers": not members.readers,
        "no_places": not places,
        "reader_command": (
            f"from reader_client import ReaderGroup\n\nwith ReaderGroup({view.base!r}, {name!r}) as group:\n"
            f'    reader = group.register("reader-1")'
        ),
        "readers": _readers_table(view, name, members.readers),
        "segments": _places_table(view, places, members.offsets, members.owners),
        "backlog": journal_table(view.address, "backlog", changes, view.now),
        "journal": journal_table(view.address, "journal", entries, view.now),
        **of_now,
    }
    return Page("group.html", name, shows)


def _settings_tiles(settings: GroupSettings) -> list[Tile]:
    """What is known of a group without a status."""
    found = [Tile(each.name, as_text(each, getattr(settings, each.name)) or "none") for each in GROUP_SETTINGS.values()]
    return [Tile("Streams", ", ".join(settings.streams)), *found]


def _group_tiles(found: GroupStatus, since: str) -> list[Tile]:
    word = group_state(found)
    if word.text == "behind its threshold":
        since = f"caught up {since or 'before'}, and stays so until it is idle"
    return [
        Tile("Lag", group_lag(found)),
        Tile("Backlog", yes(found.backlog) if word.colour in ("bad", "soft") else word.text, word.colour, since),
        Tile("Threshold", "none" if found.backlog_threshold_ms is None else span(found.backlog_threshold_ms)),
        Tile("Readers", f"{found.readers:,}"),
    ]


def _held_group(
    found: GroupStatus, read: Sequence[StreamStatus], windows: Sequence[_WindowOf]
) -> dict[str, Any] | None:
    """Which stream has the group's watermark, how far the readers are behind its marks, and what it waits for."""
    held_by = found.held_by
    key = "" if held_by.get("") is not None else next((each for each, name in held_by.items() if name), "")
    name = held_by.get(key)
    status = next((each for each in read if each.stream == name), None)
    if name is None or status is None:
        return None
    window = next((each for each in windows if (each.stream, each.key) == (name, key)), None)
    of_key = status.keys.get(key, status.worst)
    behind = "" if window is None or window.behind is None else f"{window.behind_text} behind its marks"
    stands = of_key.state.stands_still
    why = still_story(status) if of_key is status.worst else of_key.reason
    return {
        "stream": name,
        "link": stream_link(name),
        "colour": COLOURS[of_key.state] if stands else "bad" if found.backlog else "good" if found.readers else "soft",
        "behind": behind,
        "why": why if stands else "",
        "holder": holder_name(of_key) if stands else None,
        "holder_link": writer_link(name, holder_name(of_key) or "") if stands and holder_name(of_key) else "",
        "state": of_key.state.text,
    }


def _windows_of(found: GroupWindow, read: Sequence[StreamStatus]) -> list[_WindowOf]:
    newest = {(each.stream, key.key): key.mark_time for each in read for key in each.keys.values()}
    windows = []
    for stream, window in found.streams.items():
        for key, bounds in sorted(window.keys.items()):
            if key == "" and len(window.keys) > 1 and bounds.lower is None and bounds.upper is None:
                continue  # nobody uses it
            idle = stream in found.idle
            windows.append(_WindowOf(stream, key, bounds, window, newest.get((stream, key)), idle))
    return windows


def _windows_table(view: View, windows: Sequence[_WindowOf]) -> Table[_WindowOf]:
    def name(each: _WindowOf) -> Cell:
        state = "at its end" if each.whole.end_of_stream else "idle" if each.idle else ""
        return Cell(each.stream, stream_link(each.stream), more=state)

    def complete(each: _WindowOf) -> str:
        return NOTHING if each.bounds.lower is None else yes(each.bounds.complete)

    columns: list[Column[_WindowOf]] = [
        Column("name", "Stream", lambda each: each.stream, cell=name),
        Column("key", "Key", lambda each: each.key, key_label, essential=False),
        Column("lower", "Read up to", lambda each: each.bounds.lower, Times().show, moment=True),
        Column("upper", "Upper", lambda each: each.bounds.upper, Times().show, essential=False, moment=True),
        Column("newest", "Newest mark", lambda each: each.newest, Times().show, essential=False, moment=True),
        Column("behind", "Behind the marks", lambda each: each.behind, cell=lambda each: each.behind_text, right=True),
        Column("complete", "Complete", complete, essential=False),
    ]
    return Table(view.address, "streams", columns, windows, id=lambda each: f"{each.stream}-{each.key}", rows=10)


def _readers_table(view: View, group: str, readers: Sequence[ReaderStatus]) -> Table[ReaderStatus]:
    def segments(each: ReaderStatus) -> str:
        return named([_place_name(place) for place in each.segments], NAMED_WRITERS) or NOTHING

    columns: list[Column[ReaderStatus]] = [
        Column("name", "Reader", lambda each: each.name),
        Column("heard", "Last heard", lambda each: each.silent_ms, ago, right=True),
        Column("segments", "Segments", lambda each: -len(each.segments) or None, cell=segments),
        Column("epoch", "Epoch", lambda each: each.epoch, right=True, essential=False),
    ]
    if view.who.may_act:
        columns.append(Column("act", "", None, cell=partial(_offline_cell, group)))
    return Table(view.address, "readers", columns, readers, id=lambda r: r.name, rows=10)


def _offline_cell(group: str, each: ReaderStatus) -> Cell:
    act = f"/acts/take-offline?group={group}&reader={each.name}"
    return Cell("", button=Button("Take offline", act, f"Take {each.name} offline"))


def _places_table(
    view: View, places: Sequence[SegmentRef], offset: Mapping[SegmentRef, int], owner: Mapping[SegmentRef, str]
) -> Table[SegmentRef]:
    columns: list[Column[SegmentRef]] = [
        Column("name", "Segment", _place_name),
        Column("offset", "Read up to", lambda each: offset.get(each, 0), right=True),
        Column("owner", "Owned by", lambda each: owner.get(each, "nobody")),
    ]
    return Table(view.address, "segments", columns, places, id=_place_name, rows=10)


def _place_name(place: SegmentRef) -> str:
    return "/".join(place)
