"""What an administrator can do from a page. An act is a question, what follows, the fields of its form, and one call of
the API. The page asks with it, the server reads the form and puts in words what the call would do, and the page sends
the call with the visitor's token. So the API alone decides who may act, and refuses what is wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from controller.dashboard.fields import (
    FORM,
    Field,
    changes,
    read_count,
    read_names,
    read_positions,
    read_segments,
    read_some_offsets,
    read_start,
    read_streams,
    setting_field,
    with_opened,
)
from controller.dashboard.scaling import successors
from controller.dashboard.visitors import Visitor
from controller.operators.leaps import leap
from controller.operators.wording import Times, offsets, read_duration, read_offsets
from strandline.access import EVERYTHING, Grant, Role, check_pattern, check_role
from strandline.client import calls, group_calls
from strandline.client.calls import Call, stream_path, tell, writer_path
from strandline.core.config import SETTINGS, StreamConfig
from strandline.core.segment import NewSegment
from strandline.errors import StrandlineError
from strandline.limits import SEGMENTS_PER_STREAM, TIME_BOUND_MS
from strandline.names import check_name
from strandline.wire.groups import GROUP_SETTINGS, FromHead, GroupOptions, GroupSettings

Value = TypeVar("Value")
FormValues: TypeAlias = Mapping[str, Any]

_OFFSETS: Final = "final offsets"
_COUNT: Final = "successors"
_NAMES: Final = "their names"


class VisitorCalls(Protocol):
    """Makes a call of the API as the visitor."""

    def __call__(self, call: Call[Value], /) -> Awaitable[Value]: ...


def _nothing_more(_values: FormValues) -> str:
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """Something that a visitor may do.

    `says` puts the values of the fields into words before they are used, and raises ValueError for what they cannot be
    together. With `typed`, the visitor has to type this name first. `then` is the page to go to when it is done.

    What was done is said with `done`, in which `{name}` stands for a value of the answer; with `already` where the
    answer has that it was there before, and with `nothing` where its `mark` is null. With `keep`, the answer's `token`
    is shown below this sentence until the visitor closes the dialog.
    """

    question: str
    consequence: str
    button: str
    call: Callable[[FormValues], Call[Any]]
    done: str
    already: str = ""
    nothing: str = ""
    fields: Sequence[Field] = ()
    says: Callable[[FormValues], str] = _nothing_more
    typed: str | None = None
    then: str | None = None
    keep: str | None = None

    def plan(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """The call that a filled-in form makes, with what it would do in words; or what is wrong with which field."""
        wrong, values = {}, {}
        for field in self.fields:
            text = texts.get(field.name, "").strip()
            try:
                values[field.name] = field.read(text)
            except (ValueError, StrandlineError) as error:
                wrong[field.name] = str(error)
        if wrong:
            return {"wrong": wrong}
        try:
            says, request = self.says(values), next(self.call(values))
        except (ValueError, StrandlineError) as error:
            return {"refused": str(error)}
        words = {"done": self.done, "already": self.already, "nothing": self.nothing, "keep": self.keep}
        return {"says": says, "method": request.method, "path": request.path, "body": request.body, **words}


# -- writers -----------------------------------------------------------------------------------------------------------


async def exclude(ask: VisitorCalls, stream: str, writer: str) -> Act:
    found = await ask(calls.times_without(stream, writer))
    leaps = leap(found, found.excluded)
    return Act(
        question=f"Exclude {writer}?",
        consequence="Time goes on without it at once. What it writes below the marks' time will be late, and every "
        "mark names it until it is included or registers again.",
        button="Exclude",
        says=lambda _: leaps.text,
        typed=writer if leaps.is_ahead else None,
        call=lambda _: tell("POST", f"{writer_path(stream, writer)}/exclude"),
        done=f"{writer} is excluded: marks go on without it, and name it",
    )


async def include(ask: VisitorCalls, stream: str, writer: str) -> Act:
    found = await ask(calls.times_without(stream, writer))
    leaps = leap(found, found.included)
    return Act(
        question=f"Include {writer} again?",
        consequence="It counts again from its last note on. Time may stand still until it has caught up.",
        button="Include",
        says=lambda _: leaps.text,
        typed=writer if leaps.is_ahead else None,
        call=lambda _: tell("DELETE", f"{writer_path(stream, writer)}/exclude"),
        done=f"{writer} is included again",
    )


async def close(ask: VisitorCalls, stream: str, writer: str) -> Act:
    found = await ask(calls.times_without(stream, writer))
    leaps = leap(found, found.closed)
    return Act(
        question=f"Close {writer}?",
        consequence="This notes in its place that it has written all: time does not wait for it any more, and marks "
        "stay complete. If it writes older events all the same, they are late.",
        button="Close",
        says=lambda _: leaps.text,
        typed=writer if leaps.is_ahead else None,
        call=lambda _: calls.close(stream, writer),
        done=f"{writer} is closed: time need not wait for it",
    )


# -- streams -----------------------------------------------------------------------------------------------------------


def create_stream() -> Act:
    default = StreamConfig()
    return Act(
        question="Create a stream?",
        consequence="Its segments are those of its log. Settings can be changed later, the time domain cannot.",
        button="Create",
        fields=(
            Field("name", "letters, digits, and . _ -", partial(check_name, "stream")),
            Field("segments", "how many it begins with, or open: each begins when it is first named", read_segments),
            *(setting_field(each, getattr(default, each.name)) for each in SETTINGS.values()),
        ),
        says=lambda values: f"{values['name']}, with segments: {values['segments']}",
        call=lambda values: calls.create_stream(
            values["name"], values["segments"], StreamConfig(**{each: values[each] for each in SETTINGS})
        ),
        done="The stream is created",
        already="There is a stream of this name already, and it is as it was",
    )


async def configure(ask: VisitorCalls, stream: str) -> Act:
    config = (await ask(calls.describe(stream))).config

    def changed(values: FormValues) -> dict[str, Any]:
        return changes(values, (each.name for each in FORM), config)

    return Act(
        question=f"Change the configuration of {stream}?",
        consequence="It is in effect at once.",
        button="Change",
        fields=with_opened([setting_field(each, getattr(config, each.name)) for each in FORM]),
        says=lambda values: _listed(changed(values)),
        call=lambda values: tell("PATCH", stream_path(stream), changed(values)),
        done="The configuration is changed",
    )


def evaluate(stream: str, key: str = "") -> Act:
    return Act(
        question=f"Evaluate {stream} now?",
        consequence="Makes a mark at once if one is possible, whatever the interval.",
        button="Evaluate",
        call=lambda _: calls.evaluate(stream, key=key),
        done="Mark {mark.seq} was made, at {mark.time}",
        nothing="No mark is possible at this moment",
    )


async def scale(ask: VisitorCalls, stream: str) -> Act:
    segments = [each.segment for each in (await ask(calls.describe(stream))).segments]

    def planned(values: FormValues) -> list[NewSegment]:
        return successors(segments, values[_OFFSETS].keys(), values[_COUNT], values[_NAMES])

    def says(values: FormValues) -> str:
        ends = ", ".join(f"{segment} at {offset}" for segment, offset in values[_OFFSETS].items())
        return f"Ends {ends}.\nBegins {', '.join(map(_ranged, planned(values)))}."

    return Act(
        question=f"Split or merge segments of {stream}?",
        consequence="This records what the log has done already: scale the log first. A segment that has "
        "ended takes no more notes past its final offset, for good.",
        button="Scale",
        fields=(
            Field(_OFFSETS, "of the segments that end, as 0=300 or 0=300,1=400", read_some_offsets),
            Field(
                _COUNT, "how many, with equal shares of the keys", partial(read_count, most=SEGMENTS_PER_STREAM), "2"
            ),
            Field(_NAMES, "as 4,5; empty: the next free numbers", partial(read_names, "segment")),
        ),
        says=says,
        call=lambda values: calls.scale(stream, values[_OFFSETS], planned(values)),
        done=f"{stream} is scaled",
    )


def drop_segment(stream: str) -> Act:
    return Act(
        question=f"Drop a segment of {stream}?",
        consequence="For a segment that the log does not have, such as one that was named by mistake. Writers and "
        "later marks forget it. A reader group keeps its position there, until a reader is taken offline at 0.",
        button="Drop",
        fields=[Field("segment", "its name", partial(check_name, "segment"))],
        says=lambda values: f"Drops the segment {values['segment']}.",
        call=lambda values: tell("DELETE", f"{stream_path(stream)}/segments/{values['segment']}"),
        done="The segment is dropped",
    )


def truncate(stream: str) -> Act:
    return Act(
        question=f"Truncate {stream}?",
        consequence="This records that the log has removed what is older. Marks that lie wholly below are "
        "removed for good, except the newest of them.",
        button="Truncate",
        fields=[Field("head", "where the log begins now, as 0=300,1=400", read_some_offsets)],
        says=lambda values: f"The log of {stream} begins at {offsets(values['head'])}.",
        call=lambda values: calls.truncate(stream, values["head"]),
        done=f"{stream} is truncated",
    )


def seal(stream: str) -> Act:
    def says(values: FormValues) -> str:
        final = values[_OFFSETS]
        return f"{stream} ends " + (f"at {offsets(final)}." if final else "where each segment was noted last.")

    return Act(
        question=f"Seal {stream}?",
        consequence="It takes no more notes after that, for good: its writers are closed, and readers come to its end.",
        button="Seal",
        fields=[Field(_OFFSETS, "as 0=300,1=400; empty: where each segment was noted last", read_offsets)],
        says=says,
        typed=stream,
        call=lambda values: calls.seal(stream, values[_OFFSETS]),
        done=f"{stream} is sealed",
    )


def delete_stream(stream: str) -> Act:
    return Act(
        question=f"Delete {stream}?",
        consequence="Its writers, marks and journal are deleted with it. This cannot be undone. The log stays.",
        button="Delete",
        typed=stream,
        then="/",
        call=lambda _: calls.delete_stream(stream),
        done=f"{stream} is deleted",
    )


# -- reader groups -----------------------------------------------------------------------------------------------------


def create_group() -> Act:
    default = GroupOptions(streams=())
    start = "where it begins: head, a time as 2026-01-31T12:00:00Z, or as orders: 0=300,1=400; payments: 0=5"

    def call(values: FormValues) -> Call[Any]:
        begins = values["start"] or FromHead()
        settings = GroupSettings(streams=values["streams"], start=begins, **_group_settings(values))
        return group_calls.create_group(values["name"], settings)

    return Act(
        question="Create a reader group?",
        consequence="It begins to count once a reader registers.",
        button="Create",
        fields=(
            Field("name", "letters, digits, and . _ -", partial(check_name, "group")),
            Field("streams", "that it reads, as orders,payments", read_streams),
            Field("start", start, read_start, "head"),
            *(setting_field(each, getattr(default, each.name)) for each in GROUP_SETTINGS.values()),
        ),
        says=lambda values: f"{values['name']}, which reads {', '.join(values['streams'])}",
        call=call,
        done="The reader group is created",
        already="There is a reader group of this name already, and it is as it was",
    )


async def configure_group(ask: VisitorCalls, group: str) -> Act:
    present = await ask(group_calls.describe_group(group))

    def changed(values: FormValues) -> dict[str, Any]:
        return changes(values, ("streams", *GROUP_SETTINGS), present)

    return Act(
        question=f"Change {group}?",
        consequence="A stream that is left out is forgotten with its positions.",
        button="Change",
        fields=with_opened(
            [
                Field("streams", "that it reads", read_streams, ",".join(present.streams)),
                Field("start", "where added streams begin: head, a time, or positions", read_start),
                *(setting_field(each, getattr(present, each.name)) for each in GROUP_SETTINGS.values()),
            ]
        ),
        says=lambda values: _listed(changed(values)),
        call=lambda values: group_calls.change_group(group, changed(values), values["start"]),
        done=f"{group} is changed",
    )


def delete_group(group: str) -> Act:
    return Act(
        question=f"Delete the reader group {group}?",
        consequence="Its positions and its journal are deleted with it: its readers would begin anew. This cannot be "
        "undone.",
        button="Delete",
        typed=group,
        then="/",
        call=lambda _: group_calls.delete_group(group),
        done=f"{group} is deleted",
    )


def take_offline(group: str, reader: str) -> Act:
    def says(values: FormValues) -> str:
        back = "; ".join(f"{stream} to {offsets(position)}" for stream, position in values["positions"].items())
        return f"{reader} loses its segments. They go back {back or 'to what was settled'}."

    return Act(
        question=f"Take {reader} offline?",
        consequence="For a reader that is dead: other readers take its segments over from there. If it lives, its next "
        "report is refused, and it has to register again.",
        button="Take offline",
        fields=[Field("positions", "as orders: 0=300,1=400; empty: what was settled", read_positions)],
        says=says,
        call=lambda values: group_calls.offline(group, reader, values["positions"]),
        done=f"{reader} is offline, and its segments are free",
    )


# -- tokens, which the pages make, since no call of the API does -------------------------------------------------------


def create_token(who: Visitor, now: int) -> Act:
    own = who.check_tokens("create a token")

    def grant(values: FormValues) -> Grant:
        most = own.expires_at
        expires = most if values["lasts"] is None else now + values["lasts"]
        if most is not None and expires is not None and expires > most:
            raise ValueError(f"it cannot last longer than your own token, until {Times().show(most)}")
        return Grant(
            name=values["name"],
            role=check_role(values["role"]),
            pattern=values["streams"],
            writers=values["writers"],
            expires_at=expires,
        )

    def says(values: FormValues) -> str:
        made = grant(values)
        bound = "" if made.writers == EVERYTHING else f", bound to the writers {made.writers}"
        until = "for good" if made.expires_at is None else f"until {Times().show(made.expires_at)}"
        return f"{made.name}: {made.role} of {made.pattern}{bound}, {until}"

    def call(values: FormValues) -> Call[None]:
        made = grant(values)
        body = {"name": made.name, "role": made.role, "pattern": made.pattern, "writers": made.writers}
        return tell("POST", "/tokens", {**body, "expires_at": made.expires_at})

    return Act(
        question="Create a token?",
        consequence="Whoever has it may do this. Its name is never used again, since journals keep it.",
        button="Create",
        fields=(
            Field("name", "whose it is: journals name it", partial(check_name, "token")),
            Field("role", "what it may do", str, Role.READER, tuple(Role)),
            Field("streams", "those that it is for; * stands for any characters", check_pattern, EVERYTHING),
            Field("writers", "of a writer's token: those that it speaks for", _read_writers, EVERYTHING),
            Field("lasts", "how long it lasts, as 90 d; empty: as long as yours", _read_lasting),
        ),
        says=says,
        keep="Copy the token now: nobody can show it again.",
        call=call,
        done="The token is created",
    )


def revoke_token(who: Visitor, name: str) -> Act:
    own = " It is your own: you are signed out." if name == who.name else ""
    return Act(
        question=f"Revoke the token {name}?",
        consequence="Within a second no controller lets anybody in with it, and its name stays taken. This cannot be "
        f"undone.{own}",
        button="Revoke",
        call=lambda _: tell("POST", f"/tokens/{check_name('token', name)}/revoke"),
        done=f"{name} is revoked",
    )


def _read_writers(text: str) -> str:
    return check_pattern(text, "writers")


def _read_lasting(text: str) -> int | None:
    if not text:
        return None
    lasting = read_duration(text)
    if not 0 < lasting < TIME_BOUND_MS // 2:
        raise ValueError("shorter than that" if lasting else "longer than that")
    return lasting


def _group_settings(values: FormValues) -> dict[str, Any]:
    return {name: values[name] for name in GROUP_SETTINGS}


def _listed(values: FormValues) -> str:
    return ", ".join(f"{name}: {_shown(value)}" for name, value in values.items())


def _shown(value: Any) -> str:
    return "none" if value is None else ",".join(value) if isinstance(value, tuple) else str(value)


def _ranged(new: NewSegment) -> str:
    return new.id if new.low is None or new.high is None else f"{new.id} (keys {new.low:.4g} to {new.high:.4g})"


# By the name in the address of a dialog, and the names of what it is about.
ACTS: Final[Mapping[str, Callable[..., Act]]] = {
    "create-stream": create_stream,
    "evaluate": evaluate,
    "drop-segment": drop_segment,
    "truncate": truncate,
    "seal": seal,
    "delete-stream": delete_stream,
    "create-group": create_group,
    "delete-group": delete_group,
    "take-offline": take_offline,
}
ACTS_WITH_CALLS: Final[Mapping[str, Callable[..., Awaitable[Act]]]] = {  # these ask the API first
    "exclude": exclude,
    "include": include,
    "close": close,
    "configure": configure,
    "scale": scale,
    "configure-group": configure_group,
}
