"""What an administrator can do from a page. An act is a question, what follows, the fields of its form, and one call of
the API. The page asks with it, the server reads the form and puts in words what the call would do, and the page sends
the call with the visitor's token. So the API alone decides who may act, and refuses what is wrong."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias, TypeVar

from controller.dashboard.fields import (
    FORM,
    Field,
    changes,
    read_positions,
    read_streams,
    setting_field,
    with_opened,
)
from controller.operators.leaps import leap
from controller.operators.wording import offsets, read_offsets
from strandline.client import calls, group_calls
from strandline.client.calls import Call, stream_path, tell, writer_path
from strandline.errors import StrandlineError
from strandline.wire.groups import GROUP_SETTINGS

Value = TypeVar("Value")
FormValues: TypeAlias = Mapping[str, Any]

_OFFSETS: Final = "final offsets"


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

    What was done is said with `done`, in which `{name}` stands for a value of the answer, and with `nothing` where its
    `mark` is null.
    """

    question: str
    consequence: str
    button: str
    call: Callable[[FormValues], Call[Any]]
    done: str
    nothing: str = ""
    fields: Sequence[Field] = ()
    says: Callable[[FormValues], str] = _nothing_more
    typed: str | None = None
    then: str | None = None

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
        words = {"says": says, "done": self.done, "nothing": self.nothing}
        return {"method": request.method, "path": request.path, "body": request.body, **words}


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


async def configure_group(ask: VisitorCalls, group: str) -> Act:
    present = await ask(group_calls.describe_group(group))

    def changed(values: FormValues) -> dict[str, Any]:
        return changes(values, ("streams", *GROUP_SETTINGS), present)

    return Act(
        question=f"Change {group}?",
        consequence="A stream that is left out is forgotten with its positions; an added one is read from its head.",
        button="Change",
        fields=with_opened(
            [
                Field("streams", "that it reads", read_streams, ",".join(present.streams)),
                *(setting_field(each, getattr(present, each.name)) for each in GROUP_SETTINGS.values()),
            ]
        ),
        says=lambda values: _listed(changed(values)),
        call=lambda values: group_calls.change_group(group, changed(values)),
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


def _listed(values: FormValues) -> str:
    return ", ".join(f"{name}: {_shown(value)}" for name, value in values.items())


def _shown(value: Any) -> str:
    return "none" if value is None else ",".join(value) if isinstance(value, tuple) else str(value)


# By the name in the address of a dialog, and the names of what it is about.
ACTS: Final[Mapping[str, Callable[..., Act]]] = {
    "evaluate": evaluate,
    "seal": seal,
    "delete-stream": delete_stream,
    "delete-group": delete_group,
    "take-offline": take_offline,
}
ACTS_WITH_CALLS: Final[Mapping[str, Callable[..., Awaitable[Act]]]] = {  # these ask the API first
    "exclude": exclude,
    "include": include,
    "close": close,
    "configure": configure,
    "configure-group": configure_group,
}
