"""The calls of reader groups, as generators like those in `calls.py`."""

from __future__ import annotations

from collections.abc import Mapping

from strandline.client.calls import Call, ask, ask_whether_new, marks_at, query, tell
from strandline.core.checks import check_whole
from strandline.core.note import check_position
from strandline.names import check_name
from strandline.wire import groups
from strandline.wire.groups import (
    GroupDescription,
    GroupLag,
    GroupNames,
    GroupSettings,
    GroupWindow,
    ReaderAnswer,
    Start,
)
from strandline.wire.journal import JournalPage
from strandline.wire.shapes import Positions, reader_of
from strandline.wire.streams import MarksAt


def create_group(group: str, settings: GroupSettings) -> Call[bool]:
    """Creates a reader group; returns whether it is new."""
    for stream in settings.streams:
        check_name("stream", stream)
    return (yield from ask_whether_new(group_path(group), groups.settings_of_group(settings)))


def list_groups(after: str = "", limit: int | None = None) -> Call[GroupNames]:
    """A page of the reader groups' names."""
    return (yield from ask("GET", f"/v1/reader-groups{query(after=after or None, limit=limit)}", reader_of(GroupNames)))


def change_group(group: str, changes: Mapping[str, object], start: Start | None = None) -> Call[GroupDescription]:
    """Changes settings of a reader group; `start` is where added streams begin. Returns its new description."""
    body = dict(changes) if start is None else {**changes, "start": groups.start_body(start)}
    return (yield from ask("PATCH", group_path(group), reader_of(GroupDescription), body))


def describe_group(group: str) -> Call[GroupDescription]:
    """The description of a group: its streams, settings and readers."""
    return (yield from ask("GET", group_path(group), reader_of(GroupDescription)))


def delete_group(group: str) -> Call[None]:
    yield from tell("DELETE", group_path(group))


def group_position_at(group: str, time: int, key: str) -> Call[dict[str, MarksAt]]:
    """The marks around a time in each stream of a group, and where reading from that time begins."""
    described = yield from describe_group(group)
    found = {}
    for stream in described.streams:
        found[stream] = yield from marks_at(stream, time, key=key)
    return found


def register_reader(group: str, reader: str, positions: Positions, registration: str) -> Call[ReaderAnswer]:
    """Registers a reader, with a new epoch; it takes over the segments that it names. A repeat with the same
    `registration`, a name made up for it, is the same registration, whichever arrives last."""
    path = reader_path(group, reader)
    body = {"positions": _checked(positions), "registration": check_name("registration", registration)}
    return (yield from ask("PUT", path, reader_of(ReaderAnswer), body))


def report(
    group: str, reader: str, epoch: int, positions: Positions, settled: Positions | None = None
) -> Call[ReaderAnswer]:
    """Reports how far a reader has read, and how far that is settled: all of it by default. Raises Fenced for an old
    epoch, or for a segment that another reader took over."""
    path, body = reader_path(group, reader), {"epoch": epoch, **_read_and_settled(positions, settled)}
    return (yield from ask("PUT", path, reader_of(ReaderAnswer), body))


def acquire(group: str, reader: str, epoch: int, most: int) -> Call[ReaderAnswer]:
    """Takes up to `most` free segments, those furthest behind first.

    Not repeatable: a second call takes more. If the outcome is unknown, a report without positions returns the segments
    that the reader owns.
    """
    path, body = f"{reader_path(group, reader)}/acquire", {"epoch": epoch, "max": check_whole("most", most, least=0)}
    return (yield from ask("POST", path, reader_of(ReaderAnswer), body, repeatable=False))


def release(
    group: str, reader: str, epoch: int, positions: Positions, settled: Positions | None = None
) -> Call[ReaderAnswer]:
    """Gives segments up, each at a position, or at its settled one."""
    path, body = f"{reader_path(group, reader)}/release", {"epoch": epoch, **_read_and_settled(positions, settled)}
    return (yield from ask("POST", path, reader_of(ReaderAnswer), body))


def offline(group: str, reader: str, positions: Positions) -> Call[GroupWindow]:
    """Puts a dead reader's segments back to the processed positions; returns the group's window after that."""
    body = {"positions": _checked(positions)}
    return (yield from ask("POST", f"{reader_path(group, reader)}/offline", groups.read_offline, body))


def group_window(group: str) -> Call[GroupWindow]:
    return (yield from ask("GET", f"{group_path(group)}/time-window", reader_of(GroupWindow)))


def group_lag(group: str) -> Call[GroupLag]:
    """How far the group is behind in time, segment by segment."""
    return (yield from ask("GET", f"{group_path(group)}/lag", reader_of(GroupLag)))


def group_journal(group: str, *, after: int = 0, limit: int | None = None) -> Call[JournalPage]:
    """What happened to a reader group, after a seq of its journal."""
    path = f"{group_path(group)}/journal{query(after=after or None, limit=limit)}"
    return (yield from ask("GET", path, reader_of(JournalPage)))


def group_path(group: str) -> str:
    return f"/v1/reader-groups/{check_name('group', group)}"


def reader_path(group: str, reader: str) -> str:
    return f"{group_path(group)}/readers/{check_name('reader', reader)}"


def _read_and_settled(positions: Positions, settled: Positions | None) -> dict[str, object]:
    read: dict[str, object] = {"positions": _checked(positions)}
    return read if settled is None else read | {"settled": _checked(settled)}


def _checked(positions: Positions) -> dict[str, dict[str, int]]:
    for stream, position in positions.items():
        check_name("stream", stream)
        check_position(position)
    return {stream: dict(position) for stream, position in positions.items()}
