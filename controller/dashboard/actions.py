"""What an administrator can do from a page. Each act is a call of the API, made with the visitor's token; `dialogs.py`
asks first, and shows what came of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from starlette.types import ASGIApp

from controller.dashboard.dialogs import Act, Values
from controller.dashboard.durations import read_duration
from controller.dashboard.fields import (
    FORM,
    Field,
    changes,
    read_count,
    read_names,
    read_positions,
    read_segments,
    read_some_names,
    read_some_offsets,
    read_start,
    setting_field,
)
from controller.dashboard.own_calls import OwnCalls
from controller.dashboard.scaling import successors
from controller.dashboard.visitors import Visitor
from controller.format import Times, offsets, read_offsets
from controller.tokens import Tokens
from strandline.access import EVERYTHING, Grant, Role, check_pattern, check_role
from strandline.client import calls, group_calls
from strandline.client.calls import stream_path, tell, writer_path
from strandline.core.config import SETTINGS, StreamConfig
from strandline.core.segment import NewSegment
from strandline.limits import SEGMENTS_PER_STREAM
from strandline.names import check_name
from strandline.wire.groups import GROUP_SETTINGS, FromHead, GroupOptions, GroupSettings, Start

_SEGMENTS: Final = "segments"
_NAME: Final = "name"
_STREAMS: Final = "streams"
_START: Final = "start"
_POSITIONS: Final = "positions"
_OFFSETS: Final = "final offsets"
_COUNT: Final = "successors"
_NAMES: Final = "their names"
_HEAD: Final = "head"
_SEGMENT: Final = "segment"
_ROLE: Final = "role"
_WRITERS: Final = "writers"
_LASTS: Final = "lasts"


class Acts:
    """What a visitor may do. Whether the visitor may, the API decides at each call."""

    def __init__(self, app: ASGIApp, who: Visitor) -> None:
        self._make = OwnCalls(app, who).make
        self._who = who

    def _doing(self, call: Callable[[], calls.Call[Any]], done: str) -> Callable[[Values], Awaitable[str]]:
        """What an act does that is one call; `done` says so afterwards."""

        async def do(_: Values) -> str:
            await self._make(call())
            return done

        return do

    # -- writers -----------------------------------------------------------------------------------------------------

    def exclude(self, stream: str, writer: str) -> Act:
        return Act(
            question=f"Exclude {writer}?",
            consequence="Time goes on without it at once. What it writes below the marks' time will be late, and every "
            "mark names it until it is included or registers again.",
            button="Exclude",
            do=self._doing(
                lambda: tell("POST", f"{writer_path(stream, writer)}/exclude"),
                f"{writer} is excluded: marks go on without it, and name it",
            ),
        )

    def include(self, stream: str, writer: str) -> Act:
        return Act(
            question=f"Include {writer} again?",
            consequence="It counts again from its last note on. Time may stand still until it has caught up.",
            button="Include",
            do=self._doing(
                lambda: tell("DELETE", f"{writer_path(stream, writer)}/exclude"), f"{writer} is included again"
            ),
        )

    def close(self, stream: str, writer: str) -> Act:
        return Act(
            question=f"Close {writer}?",
            consequence="This says in its place that it has written all: time does not wait for it any more, and marks "
            "stay complete. If it writes older events all the same, they are late.",
            button="Close",
            do=self._doing(lambda: calls.close(stream, writer), f"{writer} is closed: time need not wait for it"),
        )

    # -- streams -----------------------------------------------------------------------------------------------------

    def create_stream(self) -> Act:
        async def do(values: Values) -> str:
            name = values[_NAME]
            config = StreamConfig(**{each: values[each] for each in SETTINGS})
            is_new = await self._make(calls.create_stream(name, values[_SEGMENTS], config))
            return f"{name} is created" if is_new else f"{name} exists already, and is as it was"

        def says(values: Values) -> str:
            return f"{values[_NAME]}, with {_SEGMENTS}: {values[_SEGMENTS]}"

        default = StreamConfig()
        return Act(
            question="Create a stream?",
            consequence="Its segments are those of its log. Settings can be changed later, the time domain cannot.",
            button="Create",
            fields=(
                Field(_NAME, "letters, digits, and . _ -", partial(check_name, "stream")),
                Field(_SEGMENTS, "how many it begins with, or open: each begins when it is first named", read_segments),
                *(setting_field(each, getattr(default, each.name)) for each in SETTINGS.values()),
            ),
            says=says,
            do=do,
        )

    async def configure(self, stream: str) -> Act:
        config = (await self._make(calls.describe(stream))).config

        async def do(values: Values) -> str:
            changed = changes(values, config)
            await self._make(tell("PATCH", stream_path(stream), changed))
            return "the configuration is changed: " + _listed(changed, " = ")

        return Act(
            question=f"Change the configuration of {stream}?",
            consequence="It is in effect at once.",
            button="Change",
            fields=[setting_field(each, getattr(config, each.name)) for each in FORM],
            says=lambda values: _listed(changes(values, config), ": "),
            do=do,
        )

    def evaluate(self, stream: str, key: str) -> Act:
        async def do(_: Values) -> str:
            evaluated = await self._make(calls.evaluate(stream, key=key))
            mark, holder = evaluated.mark, evaluated.held_by
            if mark is not None:
                return f"mark {mark.seq} was made, at {Times().show(mark.time)}"
            return "no mark is possible" + (f": {holder.writer} holds time back" if holder and holder.writer else "")

        return Act(
            question=f"Evaluate {stream} now?",
            consequence="Makes a mark at once if one is possible, whatever the interval.",
            button="Evaluate",
            do=do,
        )

    async def scale(self, stream: str) -> Act:
        segments = [each.segment for each in (await self._make(calls.describe(stream))).segments]

        def planned(values: Values) -> list[NewSegment]:
            return successors(segments, values[_OFFSETS].keys(), values[_COUNT], values[_NAMES])

        async def do(values: Values) -> str:
            ending, new = values[_OFFSETS], planned(values)
            await self._make(calls.scale(stream, ending, new))
            return f"{', '.join(ending)} has ended, and {', '.join(each.id for each in new)} has begun"

        def says(values: Values) -> str:
            ends = ", ".join(f"{segment} at {offset}" for segment, offset in values[_OFFSETS].items())
            return f"Ends {ends}.\nBegins {', '.join(map(_ranged, planned(values)))}."

        return Act(
            question=f"Split or merge segments of {stream}?",
            consequence="This tells the stream what its log has done already: scale the log first. A segment that has "
            "ended takes no more notes past its final offset, for good.",
            button="Scale",
            fields=(
                Field(_OFFSETS, "of the segments that end, as 0=300 or 0=300,1=400", read_some_offsets),
                Field(
                    _COUNT,
                    "how many, with equal shares of the keys",
                    partial(read_count, most=SEGMENTS_PER_STREAM),
                    "2",
                ),
                Field(_NAMES, "as 4,5; empty: the next free numbers", partial(read_names, "segment")),
            ),
            says=says,
            do=do,
        )

    def drop_segment(self, stream: str) -> Act:
        async def do(values: Values) -> str:
            await self._make(tell("DELETE", f"{stream_path(stream)}/segments/{values[_SEGMENT]}"))
            return f"segment {values[_SEGMENT]} is dropped"

        return Act(
            question=f"Drop a segment of {stream}?",
            consequence="For a segment that the log does not have, such as one that was named by mistake. Writers and "
            "later marks forget it.",
            button="Drop",
            fields=[Field(_SEGMENT, "its name", partial(check_name, "segment"))],
            says=lambda values: f"Drops the segment {values[_SEGMENT]}.",
            do=do,
        )

    def truncate(self, stream: str) -> Act:
        async def do(values: Values) -> str:
            await self._make(calls.truncate(stream, values[_HEAD]))
            return f"{stream} is truncated at {offsets(values[_HEAD])}"

        return Act(
            question=f"Truncate {stream}?",
            consequence="This tells the stream that its log has removed what is older. Marks that lie wholly below are "
            "removed for good, except the newest of them.",
            button="Truncate",
            fields=[Field(_HEAD, "where the log begins now, as 0=300,1=400", read_some_offsets)],
            says=lambda values: f"The log of {stream} begins at {offsets(values[_HEAD])}.",
            do=do,
        )

    def seal(self, stream: str) -> Act:
        async def do(values: Values) -> str:
            await self._make(calls.seal(stream, values[_OFFSETS]))
            return f"{stream} is sealed"

        def says(values: Values) -> str:
            final = values[_OFFSETS]
            return f"{stream} ends " + (f"at {offsets(final)}." if final else "where each segment was noted last.")

        return Act(
            question=f"Seal {stream}?",
            consequence="It takes no more notes after that, for good: its writers are closed, and readers come to its "
            "end.",
            button="Seal",
            fields=[Field(_OFFSETS, "as 0=300,1=400; empty: where each segment was noted last", read_offsets)],
            says=says,
            typed=stream,
            do=do,
        )

    def delete_stream(self, stream: str) -> Act:
        return Act(
            question=f"Delete {stream}?",
            consequence="Its writers, marks and journal are deleted with it. This cannot be undone. The log stays.",
            button="Delete",
            typed=stream,
            then="/",
            do=self._doing(lambda: calls.delete_stream(stream), f"{stream} is deleted"),
        )

    # -- reader groups -------------------------------------------------------------------------------------------------

    def create_group(self) -> Act:
        async def do(values: Values) -> str:
            name, start = values[_NAME], values[_START] or FromHead()
            settings = GroupSettings(streams=values[_STREAMS], start=start, **_group_settings(values))
            is_new = await self._make(group_calls.create_group(name, settings))
            return f"{name} is created" if is_new else f"{name} exists already, and is as it was"

        default = GroupOptions(streams=())
        return Act(
            question="Create a reader group?",
            consequence="It begins to count once a reader registers.",
            button="Create",
            fields=(
                Field(_NAME, "letters, digits, and . _ -", partial(check_name, "group")),
                Field(_STREAMS, "that it reads, as orders,payments", partial(read_some_names, "stream")),
                Field(
                    _START,
                    "where it begins: head, a time as 2026-01-31T12:00:00Z, or as orders: 0=300,1=400; payments: 0=5",
                    read_start,
                    "head",
                ),
                *(setting_field(each, getattr(default, each.name)) for each in GROUP_SETTINGS.values()),
            ),
            says=lambda values: f"{values[_NAME]}, which reads {', '.join(values[_STREAMS])}",
            do=do,
        )

    async def configure_group(self, group: str) -> Act:
        before = await self._make(group_calls.describe_group(group))

        def changed(values: Values) -> dict[str, Any]:
            return changes({_STREAMS: values[_STREAMS], **_group_settings(values)}, before)

        async def do(values: Values) -> str:
            start: Start | None = values[_START]
            await self._make(group_calls.change_group(group, changed(values), start))
            return f"{group} is changed: " + _listed(changed(values), " = ")

        return Act(
            question=f"Change {group}?",
            consequence="A stream that is left out is forgotten with its positions.",
            button="Change",
            fields=(
                Field(_STREAMS, "that it reads", partial(read_some_names, "stream"), ",".join(before.streams)),
                Field(_START, "where added streams begin: head, a time, or positions", read_start),
                *(setting_field(each, getattr(before, each.name)) for each in GROUP_SETTINGS.values()),
            ),
            says=lambda values: _listed(changed(values), ": "),
            do=do,
        )

    def delete_group(self, group: str) -> Act:
        return Act(
            question=f"Delete the reader group {group}?",
            consequence="Its positions and its journal are deleted with it: its readers would begin anew. This cannot "
            "be undone.",
            button="Delete",
            typed=group,
            then="/",
            do=self._doing(lambda: group_calls.delete_group(group), f"{group} is deleted"),
        )

    def take_offline(self, group: str, reader: str) -> Act:
        async def do(values: Values) -> str:
            await self._make(group_calls.offline(group, reader, values[_POSITIONS]))
            return f"{reader} is offline, and its segments are free"

        def says(values: Values) -> str:
            back = "; ".join(f"{stream} to {offsets(position)}" for stream, position in values[_POSITIONS].items())
            return f"{reader} loses its segments. They go back {back or 'to what was settled'}."

        return Act(
            question=f"Take {reader} offline?",
            consequence="For a reader that is dead: other readers take its segments over from there. If it lives, its "
            "next report is refused, and it has to register again.",
            button="Take offline",
            fields=[Field(_POSITIONS, "as orders: 0=300,1=400; empty: what was settled", read_positions)],
            says=says,
            do=do,
        )

    # -- controllers ---------------------------------------------------------------------------------------------------

    def drain(self, controller: str) -> Act:
        return Act(
            question=f"Drain {controller}?",
            consequence="It hands everything that it serves over to the other controllers, and its process ends.",
            button="Drain",
            do=self._doing(
                lambda: calls.drain_controller(controller), f"{controller} hands everything over, and then ends"
            ),
        )

    # -- tokens, which only the store has ------------------------------------------------------------------------------

    def create_token(self, tokens: Tokens, now: int) -> Act:
        who = self._who

        def grant(values: Values) -> Grant:
            most = None if who.grant is None else who.grant.expires_at
            expires = most if values[_LASTS] is None else now + values[_LASTS]
            if most is not None and expires is not None and expires > most:
                raise ValueError(f"it cannot last longer than your own token, until {Times().show(most)}")
            return Grant(
                name=values[_NAME],
                role=check_role(values[_ROLE]),
                pattern=values[_STREAMS],
                writers=values[_WRITERS],
                expires_at=expires,
            )

        async def do(values: Values) -> str:
            who.check_tokens("create a token")
            return await tokens.create(grant(values), who.name)

        def says(values: Values) -> str:
            made = grant(values)
            bound = "" if made.writers == EVERYTHING else f", bound to the writers {made.writers}"
            until = "for good" if made.expires_at is None else f"until {Times().show(made.expires_at)}"
            return f"{made.name}: {made.role} of {made.pattern}{bound}, {until}"

        return Act(
            question="Create a token?",
            consequence="Whoever has it may do this. Its name is never used again, since journals keep it.",
            button="Create",
            fields=(
                Field(_NAME, "whose it is: journals name it", partial(check_name, "token")),
                Field(_ROLE, "what it may do", str, Role.READER, tuple(Role)),
                Field(_STREAMS, "those that it is for; * stands for any characters", check_pattern, EVERYTHING),
                Field(_WRITERS, "of a writer's token: those that it speaks for", _read_writers, EVERYTHING),
                Field(_LASTS, "how long it lasts, as 90 d; empty: as long as yours", _read_lasting),
            ),
            says=says,
            keep="Copy the token now: nobody can show it again.",
            do=do,
        )

    def revoke_token(self, tokens: Tokens, name: str) -> Act:
        async def do(_: Values) -> str:
            self._who.check_tokens("revoke a token")
            await tokens.revoke(name, self._who.name)
            return f"{name} is revoked"

        own = " It is your own: you are signed out." if name == self._who.name else ""
        return Act(
            question=f"Revoke the token {name}?",
            consequence="Within a second no controller lets anybody in with it, and its name stays taken. This cannot "
            f"be undone.{own}",
            button="Revoke",
            do=do,
        )


def _read_writers(text: str) -> str:
    return check_pattern(text, "writers")


def _read_lasting(text: str) -> int | None:
    if not text:
        return None
    lasting = read_duration(text)
    if not lasting:
        raise ValueError("longer than that")
    return lasting


_read_successors = partial(read_count, most=SEGMENTS_PER_STREAM)


def _group_settings(values: Values) -> dict[str, Any]:
    return {name: values[name] for name in GROUP_SETTINGS}


def _listed(values: Mapping[str, Any], between: str) -> str:
    return ", ".join(f"{name}{between}{_shown(value)}" for name, value in values.items())


def _shown(value: Any) -> str:
    return "none" if value is None else ",".join(value) if isinstance(value, tuple) else str(value)


def _ranged(new: NewSegment) -> str:
    return new.id if new.low is None or new.high is None else f"{new.id} (keys {new.low:.4g} to {new.high:.4g})"
