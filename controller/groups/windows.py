"""Windows of reader groups, put together from views of their streams. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs

from controller.groups.loaded_group import LoadedGroup
from controller.groups.membership import Membership
from controller.groups.stream_views import GroupPlace, GroupStanding, StreamQuestion, StreamView
from strandline.core.coalesce import OnAllIdle, combine, holder
from strandline.core.note import DEFAULT_KEY
from strandline.core.order import lag
from strandline.wire.groups import GroupWindow, KeyWindow, StreamWindow


def questions_of(membership: Membership) -> dict[str, StreamQuestion]:
    """What a group asks about its streams for its window."""
    timeout = membership.settings.idle_timeout_ms
    return {
        stream: StreamQuestion(
            identity=membership.identities[stream], read=membership.read(stream), idle_timeout_ms=timeout
        )
        for stream in membership.settings.streams
    }


def group_window(loaded: LoadedGroup, views: Mapping[str, StreamView], now: int) -> GroupWindow:
    """The window of a group, in each of its streams and over all of them. Keeps the watermarks that it tells."""
    membership = loaded.membership
    places = {stream: view.place for stream, view in views.items() if view.place is not None}
    streams = {stream: _stream_window(place, views[stream].newest, now) for stream, place in places.items()}
    left_out = tuple([stream for stream, each in places.items() if each.standing is not GroupStanding.COUNTED])
    bounds = {stream: {key: each.lower for key, each in window.keys.items()} for stream, window in streams.items()}
    # If all streams have ended, none is idle, and the last bounds are final: no jump.
    jump = membership.settings.on_all_idle is OnAllIdle.JUMP and any(
        each.standing is not GroupStanding.ENDED for each in places.values()
    )
    watermarks, membership.held = combine(bounds, left_out, membership.held, jump=jump)
    lowest = watermarks.get(DEFAULT_KEY)
    return GroupWindow(
        streams=streams,
        watermarks=watermarks,
        held_by={key: holder(bounds, left_out, key) for key in watermarks},
        complete=all(
            window.complete and places[stream].standing is not GroupStanding.SET_ASIDE
            for stream, window in streams.items()
        ),
        lag_ms=None if lowest is None else now - lowest,
        backlog=loaded.in_backlog(lowest, now, asleep=len(left_out) == len(streams)),
        idle=left_out,
    )


def as_of(window: GroupWindow, now: int) -> GroupWindow:
    """A window that was told before, with the lag behind the present clock."""
    lowest = window.lower
    streams = {
        stream: structs.replace(each, lag_ms=None if each.lower is None else now - each.lower)
        for stream, each in window.streams.items()
    }
    return structs.replace(window, streams=streams, lag_ms=None if lowest is None else now - lowest)


def _stream_window(place: GroupPlace, newest: int | None, now: int) -> StreamWindow:
    default = place.windows[DEFAULT_KEY]
    behind = lag(default.lower, newest, now)
    return StreamWindow(
        lower=default.lower,
        upper=default.upper,
        complete=default.complete,
        end_of_stream=default.end_of_stream,
        lag_ms=behind.lag_ms,
        behind_ms=behind.behind_ms,
        position=place.position,
        keys={key: KeyWindow(each.lower, each.upper, each.complete) for key, each in place.windows.items()},
    )
