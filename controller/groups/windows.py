"""Windows of reader groups, put together from their places in their streams. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from controller.groups.loaded_group import LoadedGroup
from controller.groups.membership import Membership
from controller.groups.places import GroupPlace, GroupStanding, StreamRead
from strandline.core.coalesce import OnAllIdle, combine, holder
from strandline.core.note import DEFAULT_KEY
from strandline.core.order import lag
from strandline.wire.groups import Aside, GroupWindow, KeyWindow, StreamWindow


def reads_of(membership: Membership) -> dict[str, StreamRead]:
    """How far a group has read each of its streams, at one moment."""
    timeout = membership.settings.idle_timeout_ms
    return {
        stream: StreamRead(membership.identities[stream], membership.read(stream), timeout)
        for stream in membership.settings.streams
    }


class Combined(NamedTuple):
    """The watermarks over all streams of a group, and what they are made of."""

    places: Mapping[str, GroupPlace]
    bounds: Mapping[str, Mapping[str, int | None]]
    left_out: tuple[str, ...]
    watermarks: Mapping[str, int | None]
    held: dict[str, int]
    aside: dict[str, Aside]


def left_behind(combined: Combined) -> dict[str, dict[str, int]]:
    """The idle streams without which the group would go on, and do not know yet how far, by key."""
    further: dict[str, dict[str, int]] = {}
    for stream in combined.left_out:
        if combined.places[stream].standing is GroupStanding.IDLE:
            for key, time in combined.watermarks.items():
                known = combined.bounds[stream].get(key), combined.places[stream].passed.get(key)
                if time is not None and all(each is None or time > each for each in known):
                    further.setdefault(stream, {})[key] = time
    return further


def is_told_already(loaded: LoadedGroup, combined: Combined, now: int) -> bool:
    """Whether a window that was put together has nothing that is to be stored before it is told."""
    asleep = len(combined.left_out) == len(combined.places)
    lowest = combined.watermarks.get(DEFAULT_KEY)
    is_kept = combined.held == loaded.membership.held and combined.aside == loaded.membership.aside
    return is_kept and not loaded.backlog_changes(lowest, now, asleep=asleep)


def group_window(loaded: LoadedGroup, combined: Combined, now: int) -> GroupWindow:
    """The window of a group, in each of its streams and over all of them. Keeps the watermarks that it tells."""
    places, bounds, left_out, watermarks, loaded.membership.held, loaded.membership.aside = combined
    streams = {stream: _stream_window(place, combined.aside.get(stream), now) for stream, place in places.items()}
    absent = [stream for stream in left_out if streams[stream].set_aside is None]  # all that is known of them is read
    lowest = watermarks.get(DEFAULT_KEY)
    return GroupWindow(
        streams=streams,
        watermarks=watermarks,
        held_by={key: holder(bounds, left_out, key) for key in watermarks},
        complete=all(each.complete for stream, each in streams.items() if stream not in absent),
        lag_ms=None if lowest is None else now - lowest,
        backlog=loaded.in_backlog(lowest, now, asleep=len(left_out) == len(streams)),
        idle=left_out,
    )


def combined_of(membership: Membership, places: Mapping[str, GroupPlace]) -> Combined:
    """What these places are together. It changes nothing."""
    bounds = {stream: {key: each.lower for key, each in place.windows.items()} for stream, place in places.items()}
    left_out = tuple([stream for stream, each in places.items() if each.standing is not GroupStanding.COUNTED])
    # If all streams have ended, none is idle, and the last bounds are final: no jump.
    jump = membership.settings.on_all_idle is OnAllIdle.JUMP and any(
        each.standing is not GroupStanding.ENDED for each in places.values()
    )
    watermarks, held = combine(bounds, left_out, membership.held, jump=jump)
    aside = {
        stream: found
        for stream, place in places.items()
        if (found := _aside(place, bounds[stream], watermarks, membership.aside.get(stream))) is not None
    }
    return Combined(places, bounds, left_out, watermarks, held, aside)


def _aside(
    place: GroupPlace, bounds: Mapping[str, int | None], watermarks: Mapping[str, int | None], before: Aside | None
) -> Aside | None:
    """Without whom of a stream these watermarks are, and those before, until its own bounds have passed them."""
    until = dict(before.until) if before is not None else {}
    if place.set_aside:
        until |= {key: time for key, time in watermarks.items() if time is not None and time > until.get(key, time - 1)}
    left = {key: time for key, time in until.items() if (lower := bounds.get(key)) is None or lower < time}
    writers = {*place.set_aside, *(before.writers if before is not None else ())}
    return Aside(tuple(sorted(writers)), left) if left else None


def _stream_window(place: GroupPlace, aside: Aside | None, now: int) -> StreamWindow:
    default = place.windows[DEFAULT_KEY]
    behind = lag(default.lower, place.newest, now)
    counts = aside is None
    return StreamWindow(
        lower=default.lower,
        upper=default.upper,
        complete=default.complete and counts,
        end_of_stream=default.end_of_stream,
        lag_ms=behind.lag_ms,
        behind_ms=behind.behind_ms,
        position=place.position,
        keys={key: KeyWindow(each.lower, each.upper, each.complete and counts) for key, each in place.windows.items()},
        set_aside=aside,
    )
