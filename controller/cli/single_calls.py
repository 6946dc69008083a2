"""The commands that make one call of `strandline.client` and show its answer: a row each.

A row has what the command takes, which call it makes, what it asks first where it changes something, and how it words
the answer. With `--json` the answer is printed as it came. `strandline --help` lists the rows, so what makes the calls
is imported only when a command is made of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click
from click import IntRange

from controller.cli.options import (
    check_known,
    confirm,
    group_option,
    json_option,
    key_option,
    limit_option,
    moment,
    name_of,
    new_segments,
    one_of,
    option,
    position,
    settings_in,
    stream_argument,
    times_option,
    yes_option,
)
from controller.cli.screen import fields, listing, mark_line
from controller.operators.wording import Times, compact, controller_state, holding, indented, offsets
from controller.terminal import say
from strandline.core.time_units import unit_of
from strandline.limits import OFFSET_BOUND

if TYPE_CHECKING:
    from controller.cli.client import ControllerClient
    from strandline.client.calls import Call
    from strandline.core.window import TimeWindow
    from strandline.wire.controllers import ControllersReply
    from strandline.wire.streams import EvaluatedReply, MarksAt, MarksPage, TimeIndexPage

Given: TypeAlias = Mapping[str, Any]  # the arguments and options of a command, by name
Words: TypeAlias = Callable[[Any, Given, Times], Sequence[str]]  # the lines that are said of an answer
DATES: Final = Times()


@dataclass(frozen=True, slots=True)
class SingleCall:
    """A command. Its call, a function here or the name of one of `strandline.client.calls`, gets what the command
    takes, by name."""

    summary: str
    help: str
    call: str | Callable[..., Call[Any]]
    takes: Sequence[Callable[[Any], Any]]
    words: Words
    question: str | Callable[[Given], str] | None = None  # what is asked before something changes
    for_good: bool = False  # it cannot be undone
    leaves: str | None = None  # a writer "excluded", "closed" or "included": whoever is asked is told where time goes
    shows_times: bool = False
    json: Callable[[Given], Any] | None = None  # for `--json`, where the answer has no content
    takes_any_word: bool = False  # an argument may begin with a dash

    def command(self, name: str) -> click.Command:
        """The command as click has it."""
        from controller.cli.client import calls_controller
        from controller.operators.leaps import leap
        from strandline.client import calls

        call = getattr(calls, self.call) if isinstance(self.call, str) else self.call

        def run(client: ControllerClient, as_json: bool, times: Times = DATES, yes: bool = False, **given: Any) -> None:
            asks = self.question
            if asks is not None:
                question = asks.format_map(given) if isinstance(asks, str) else asks(given)
                grave = "this cannot be undone" if self.for_good else ""
                if self.leaves is not None and not yes:
                    found = client.ask(calls.times_without(**given)).value
                    leaps = leap(found, getattr(found, self.leaves), times)
                    question = f"{question} {leaps.text}".rstrip()
                    grave = f"{leaps.text.rstrip('.')}; it never goes back" if leaps.is_long else ""
                confirm(question, yes=yes, grave=grave)
            answered = client.ask(call(**given))
            if not as_json:
                say(*self.words(answered.value, given, times))
            else:
                say(indented(answered.json) if self.json is None else compact(self.json(given)))

        asking = [yes_option] if self.question is not None else []
        showing = [times_option] if self.shows_times else []
        decorators: list[Any] = [*self.takes, *asking, calls_controller, json_option, *showing]
        made: Any = run
        for decorator in reversed(decorators):
            made = decorator(made)
        settings = {"ignore_unknown_options": True} if self.takes_any_word else {}
        return click.command(name, help=self.help, context_settings=settings)(made)


# -- what they take, which call it is, and what is said ------------------------------------------------------------

FROM_WHEN: Final = "from when on: a whole number as notes have it, or a date such as 2026-01-31T12:00:00Z"
create_option = option(
    "--create",
    type=new_segments,
    required=True,
    metavar="SEGMENTS",
    help="their successors and the shares of the keys that these have, as 2=0:0.25,3=0.25:0.5; or JSON, which may "
    "name predecessors",
)
stream_or_group = (click.argument("stream", required=False, type=name_of("stream"), help="the stream"), group_option)
stream_and_writer = (stream_argument, click.argument("writer", type=name_of("writer"), help="its writer"))


def position_option(name: str, help: str, **more: Any) -> Callable[[Any], Any]:
    return option(name, type=position, metavar="POSITION", help=help, **(more or {"required": True}))


def _named(given: Given) -> tuple[str, bool]:
    """The stream or the reader group, and whether it is a stream."""
    return one_of(given["stream"], given["group"])


def _settings_and_stream(context: click.Context, _: click.Parameter, words: Sequence[str]) -> dict[str, Any]:
    """The settings among the words of `configure`; the other word is the stream."""
    settings, names = [each for each in words if "=" in each], [each for each in words if "=" not in each]
    if not settings or len(names) > 1:
        raise click.UsageError("Name one stream, or --group, and settings with their values, as min_writers=2.")
    context.params["stream"] = name_of("stream")(names[0]) if names else None
    return settings_in(",".join(settings))


def _configure(stream: str | None, group: str | None, settings: dict[str, Any]) -> Call[Any]:
    from strandline.client import calls, group_calls
    from strandline.core.config import SETTINGS
    from strandline.wire.groups import GROUP_SETTINGS

    name, is_stream = one_of(stream, group)
    known = (each for each, setting in SETTINGS.items() if not setting.says.stays) if is_stream else GROUP_SETTINGS
    check_known(settings, known)
    return calls.configure(name, settings) if is_stream else group_calls.change_group(name, settings)


def _delete(stream: str | None, group: str | None) -> Call[None]:
    from strandline.client import calls, group_calls

    name, is_stream = one_of(stream, group)
    return calls.delete_stream(name) if is_stream else group_calls.delete_group(name)


def _delete_question(given: Given) -> str:
    name, is_stream = _named(given)
    what = f"{name} with its writers, marks and journal" if is_stream else f"reader group {name} with its positions"
    return f"Delete {what}? This cannot be undone."


def _scaled(given: Given) -> dict[str, str]:
    created = ", ".join(each.id for each in given["create"])
    return {"stream": given["stream"], "ends": ", ".join(given["seal"]), "begins": created}


def _done(sentence: str) -> Words:
    """What was done, and the marks that it brought about."""

    def words(page: MarksPage, given: Given, times: Times) -> list[str]:
        lines = [sentence.format_map(given)]
        for mark in page.marks:
            key = f" in {mark.key}" if mark.key else ""
            lines.append(f"new mark{key}: {mark_line(mark, times)}")
        return lines

    return words


def _settings_words(_: object, given: Given, __: Times) -> list[str]:
    shown = {each: value if isinstance(value, str) else compact(value) for each, value in given["settings"].items()}
    return [f"{_named(given)[0]} has {', '.join(f'{each}={value}' for each, value in shown.items())}"]


def _evaluated_words(value: EvaluatedReply, _: Given, times: Times) -> list[str]:
    if value.mark is not None:
        return [f"new mark: {mark_line(value.mark, times)}"]
    return [f"no new mark; time is held back by: {holding(value.held_by)}"]


def _window_words(found: tuple[TimeWindow, str], _: Given, times: Times) -> list[str]:
    window, _identity = found
    bounds = [("lower", times.show(window.lower)), ("upper", times.show(window.upper))]
    ends = [("complete", window.complete), ("end of stream", window.end_of_stream), ("mark", window.mark_seq)]
    return fields([*bounds, *ends])


def _position_words(found: MarksAt, _: Given, times: Times) -> list[str]:
    around = {"mark before": found.floor, "mark after": found.ceiling}
    shown = [(name, times.show(None if mark is None else mark.time)) for name, mark in around.items()]
    return fields([("position", offsets(found.start)), ("exact", found.exact), *shown])


def _index_words(page: TimeIndexPage, _: Given, times: Times) -> list[str]:
    rows = [(each.offset, times.show(each.time)) for each in page.entries]
    lines = listing(("offset", "nothing older than"), rows, none="no mark covers it yet")
    unit = unit_of(page.entries[0].time, page.entries[-1].time) if page.entries else None
    if unit is not None:
        lines.append(f"these times look like {unit.word}: writers have to note milliseconds")
    return lines


def _controllers_words(seen: ControllersReply, _: Given, times: Times) -> list[str]:
    header = ("controller", "state", "since", "last seen", "version")
    rows = [
        (each.name, controller_state(each, seen.at), times.show(each.since), times.show(each.seen_at), each.version)
        for each in seen.controllers
    ]
    return listing(header, rows, none="no controller serves it")


# -- the table -----------------------------------------------------------------------------------------------------

ROWS: Final = {
    "window": SingleCall(
        "Show the time window at a position.",
        "Show the time window at a position: everything older than its lower bound has been read.",
        "window_of",
        [
            stream_argument,
            position_option("--position", 'how far it was read, as 0=5,1=7 or {"0": 5}; {} is its beginning'),
            key_option,
        ],
        _window_words,
        shows_times=True,
    ),
    "position": SingleCall(
        "Show where a time lies in a stream.",
        "Show where a time lies in a stream: the position at which reading from that time begins.",
        "marks_at",
        [stream_argument, click.argument("time", type=moment, help=FROM_WHEN), key_option],
        _position_words,
        shows_times=True,
        takes_any_word=True,  # a time may be negative
    ),
    "index": SingleCall(
        "Show offset and time within a segment.",
        "Show the time index of a segment: from each offset on, no event is older than the time beside it.",
        "time_index",
        [
            stream_argument,
            click.argument("segment", type=name_of("segment"), help="which of its segments"),
            option(
                "--from-offset",
                type=IntRange(0, OFFSET_BOUND - 1),
                default=0,
                help="begin with the entry at this offset, or below",
            ),
            limit_option("so many entries"),
            key_option,
        ],
        _index_words,
        shows_times=True,
    ),
    "evaluate": SingleCall(
        "Have a stream make a mark now.",
        "Have a stream make a mark now, if its time can advance, whatever its mark_interval_ms; else name the holder.",
        "evaluate",
        [stream_argument, key_option],
        _evaluated_words,
        shows_times=True,
    ),
    "configure": SingleCall(
        "Change settings of a stream or reader group.",
        "Change settings of a stream or of a reader group; the others stay as they are.",
        _configure,
        [
            click.argument(
                "settings",
                nargs=-1,
                required=True,
                metavar="[STREAM] SETTING=VALUE...",
                callback=_settings_and_stream,
                help="a stream, and what to change, as min_writers=2 writer_timeout_ms=null; "
                "docs/reference/options.md has them all",
            ),
            group_option,
        ],
        _settings_words,
    ),
    "scale": SingleCall(
        "Split or merge segments, as the log has done.",
        "Split or merge segments of a stream as its log has done already. Scale the log first.",
        "scale",
        [stream_argument, position_option("--seal", "the segments that end, and where, as 0=300"), create_option],
        lambda _, given, __: ["{stream} has ended {ends}, and begun {begins}".format_map(_scaled(given))],
        question=lambda given: "In {stream}, end {ends} for good, and begin {begins}?".format_map(_scaled(given)),
        for_good=True,
    ),
    "truncate": SingleCall(
        "Tell a stream where its log begins now.",
        "Tell a stream that its log has removed the events below a position. Marks that lie wholly below it are "
        "pruned.",
        "truncate",
        [stream_argument, position_option("--head", "where the log begins now, as 0=5,1=7")],
        lambda moved, given, _: [f"{given['stream']} begins at {offsets(moved.head)}"],
        question=lambda given: (
            f"Truncate {given['stream']} at {offsets(given['head'])}? Marks below are removed for good."
        ),
        for_good=True,
    ),
    "seal": SingleCall(
        "End a stream for good.",
        "End a stream for good: its writers are closed, it takes no more notes, and readers come to its end.",
        "seal",
        [
            stream_argument,
            position_option(
                "--final",
                "where segments end, as 0=5,1=7",
                default="",
                show_default="where each segment was noted last",
            ),
        ],
        _done("{stream} is sealed"),
        question="Seal {stream}? It takes no more notes after that, for good.",
        for_good=True,
        shows_times=True,
    ),
    "delete": SingleCall(
        "Delete a stream or a reader group.",
        "Delete a stream with its writers, marks and journal, or a reader group with its positions. The log stays.",
        _delete,
        stream_or_group,
        lambda _, given, __: [f"{_named(given)[0]} is deleted"],
        question=_delete_question,
        for_good=True,
        json=lambda given: {"deleted": _named(given)[0]},
    ),
    "exclude": SingleCall(
        "Exclude a writer, so that time goes on without it.",
        "Exclude a writer: time goes on without it, and marks name it, until it is included or registers again.",
        "exclude",
        stream_and_writer,
        _done("{writer} is excluded from {stream}"),
        question="Exclude {writer} from {stream}? What it has not noted yet may then be late.",
        leaves="excluded",
        shows_times=True,
    ),
    "close": SingleCall(
        "Close a writer that has written all.",
        "Close a writer that has written all: time need not wait for it, and marks stay complete.",
        "close",
        stream_and_writer,
        lambda _, given, __: ["{writer} of {stream} is closed".format_map(given)],
        question="Close {writer} of {stream}? If it has more to write, that may then be late.",
        leaves="closed",
        shows_times=True,
        json=lambda given: {"closed": given["writer"]},
    ),
    "include": SingleCall(
        "Include an excluded writer again.",
        "Include a writer that was excluded: time waits for it again.",
        "include",
        stream_and_writer,
        _done("{writer} counts in {stream} again"),
        question="Include {writer} in {stream} again? Time then waits for it.",
        leaves="included",
        shows_times=True,
    ),
    "controllers": SingleCall(
        "List the controllers that serve a store.",
        "List the controllers that serve the store, are away or have ended: since when, and their version.",
        "controllers",
        [],
        _controllers_words,
        shows_times=True,
    ),
}
