"""The overview: the streams and reader groups, those in trouble first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from controller.dashboard.pages.page import Page, Tile, View, backlog_cell, unknown_table, word_cell
from controller.dashboard.pages.trouble import Troubles
from controller.dashboard.tables import Cell, Column, Table
from controller.dashboard.words import (
    far_ahead,
    first_ahead,
    group_link,
    holder_name,
    in_trouble,
    is_held_back,
    key_label,
    rate,
    silent_for,
    state_of,
    stream_link,
    writer_link,
    writers_word,
)
from controller.operators.overview import GroupsFound
from controller.operators.wording import NOTHING, Times, behind, holding, how_many_serve, refused, span
from strandline.core.time_units import is_epoch
from strandline.errors import StreamLoading
from strandline.wire.status import GroupStatus, State, StreamStatus


async def overview_page(view: View) -> Page:
    found, may_see = await view.status.overview(), view.who.may_see
    streams = [each for each in found.streams if may_see(each.stream)]
    unread = {name: code for name, code in found.unread.items() if may_see(name)}
    groups = found.groups.allowed(may_see)
    loading = sum(code == StreamLoading.code for code in unread.values())
    readers = Counter(name for group in groups.groups for name in group.streams)
    troubles = Troubles(view.address, streams, readers)
    unknown = unknown_table(view, unread, groups)
    states = [each.state for each in streams]
    return Page(
        "overview.html",
        "Overview",
        {
            "tiles": [*_overview_tiles(view, states, groups, len(unread)), *await _controllers_tile(view)],
            "attention": troubles.cards(),
            "hushed": troubles.hushed_line(),
            "streams": _streams_table(view, troubles.in_order(streams), readers),
            "groups": _groups_table(view, groups.groups),
            "unknown": unknown,
            "loading": loading,
            "no_streams": not streams and not unread,
            "no_groups": not groups.groups and not groups.unread,
            "stream_command": view.curl("PUT", "/v1/streams/orders", {"segments": 3}),
            "group_command": view.curl(
                "PUT", "/v1/reader-groups/billing", {"streams": ["orders"], "backlog_threshold_ms": 60_000}
            ),
        },
        in_trouble(troubles.states, len(unread) - loading),
    )


def _overview_tiles(view: View, states: Sequence[State], groups: GroupsFound, unread: int) -> list[Tile]:
    """The numbers of what is known, and how much is not. A click on a state shows the streams that are in it."""
    still, incomplete = sum(each.stands_still for each in states), states.count(State.INCOMPLETE)
    backlog = sum(each.backlog for each in groups.groups)
    more, unread_groups = _not_known(unread), len(groups.unread)
    counts = Counter(states)
    ahead = counts[State.AHEAD]
    stills = [
        (f"{counts[state]:,} {state.text}", view.address.but(streams_filter=state.text, streams_page=None))
        for state in reversed(State)
        if state.stands_still and counts[state]
    ]
    return [
        Tile("Streams", f"{len(states) + unread:,}", "", more),
        Tile("Standing still", f"{still:,}", _colour(still, "bad", unread), more, stills),
        *([Tile("Ahead of the clock", f"{ahead:,}", "bad", more)] if ahead else []),
        Tile("Incomplete", f"{incomplete:,}", _colour(incomplete, "warn", unread), more),
        Tile("Groups in backlog", f"{backlog:,}", _colour(backlog, "bad", unread_groups), _not_known(unread_groups)),
    ]


async def _controllers_tile(view: View) -> list[Tile]:
    """How many controllers serve, where there is more than one."""
    states = (await view.controller.controllers()).states
    serving, away = how_many_serve(states), states["away"]
    links = [(f"{away:,} away", "/controllers")] if away and view.who.may_see_every_stream else []
    return [Tile("Controllers", serving, "bad" if away else "good", links=links)] if serving else []


def _colour(count: int, bad: str, unread: int) -> str:
    return bad if count else "" if unread else "good"


def _not_known(count: int) -> str:
    return f"{count:,} not known" if count else ""


def _streams_table(view: View, streams: Sequence[StreamStatus], readers: Mapping[str, int]) -> Table[StreamStatus]:
    def read_by(each: StreamStatus) -> int:
        return readers.get(each.stream, 0)

    def gravity(each: StreamStatus) -> int:
        return 1 if each.sealed else -each.state.gravity

    columns: list[Column[StreamStatus]] = [
        Column("state", "State", gravity, cell=lambda each: word_cell(state_of(each))),
        Column("name", "Stream", lambda each: each.stream, link=lambda each: stream_link(each.stream)),
        Column("lag", "Lag", lambda each: each.lag_ms, behind, right=True),
        Column("held", "Held by", _silence, cell=_held_cell),
        Column("time", "Time", lambda each: each.time, Times().show, essential=False, moment=True),
        Column("rate", "Marks/s", _rate, rate, right=True, essential=False),
        Column("writers", "Writers", lambda each: -sum(each.writers.values()), cell=_writers_cell, essential=False),
        Column("refused", "Refused", _refused, cell=lambda each: refused(each) or NOTHING, right=True, essential=False),
        Column("readers", "Groups", read_by, lambda count: count or NOTHING, right=True, essential=False),
    ]
    text = lambda each: f"{each.stream} {state_of(each).text} {holder_name(each.worst) or ''}"  # noqa: E731  # of a row
    return Table(view.address, "streams", columns, streams, id=lambda each: each.stream, text=text)


def _writers_cell(status: StreamStatus) -> str:
    return writers_word(status).text.partition(";")[0]


def _refused(status: StreamStatus) -> int | None:
    return -sum(status.refusals.values()) or None


def _rate(status: StreamStatus) -> float:
    return sum(key.marks_per_second for key in status.keys.values())


def _silence(status: StreamStatus) -> int | None:
    holder = status.worst.held_by if status.state.stands_still else None
    return None if holder is None else holder.last_heard_ms_ago


def _held_cell(status: StreamStatus) -> Cell:
    """Which writer holds a stream back that stands still, and for how long it has been silent; or who is ahead."""
    if status.state is State.AHEAD and (ahead := first_ahead(status.worst)) is not None:
        return Cell(ahead, writer_link(status.stream, ahead), more=far_ahead(status.worst, ahead))
    if not status.state.stands_still:
        return Cell("")
    worst, keyed = status.worst, f" ({key_label(status.worst.key)})" if len(status.keys) > 1 else ""
    if worst.held_by is None or not is_held_back(worst):
        story = (silent_for(worst, status.seen_at) or holding(worst.held_by)) + keyed
    else:
        story = f"{span(worst.held_by.last_heard_ms_ago or 0)} silent{keyed}"
    writer = holder_name(worst)
    if writer is None:
        return Cell("", more=story)
    return Cell(writer, writer_link(status.stream, writer), more=story)


def _groups_table(view: View, groups: Sequence[GroupStatus]) -> Table[GroupStatus]:
    columns: list[Column[GroupStatus]] = [
        Column("backlog", "Backlog", lambda each: not each.backlog, cell=backlog_cell),
        Column("name", "Reader group", lambda each: each.group, link=lambda each: group_link(each.group)),
        Column("lag", "Lag", _group_behind, behind, right=True),
        Column("readers", "Readers", lambda each: each.readers, right=True, essential=False),
        Column("streams", "Streams", lambda each: ", ".join(each.streams), essential=False),
    ]
    text = lambda each: " ".join((each.group, *each.streams))  # noqa: E731  # of a row
    return Table(view.address, "groups", columns, groups, id=lambda each: each.group, text=text)


def _group_behind(status: GroupStatus) -> int | None:
    time = status.watermarks.get("")
    return status.seen_at - time if time is not None and is_epoch(time) else None
