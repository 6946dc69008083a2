"""The commands that make one call of `strandline.client` and show its answer: a row each.

A row says what the command takes, which call it makes, what it asks first where it changes something, and how it words
the answer. With `--json` the answer is printed as it came.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import click

from controller.cli.client import ControllerClient, calls_controller
from controller.cli.create import check_known, settings_in
from controller.cli.limits import ENTRIES_SHOWN
from controller.cli.options import (
    Whole,
    confirm,
    group_option,
    json_option,
    key_option,
    moment,
    name_of,
    new_segments,
    one_of,
    option,
    position,
    stream_argument,
    times_option,
    yes_option,
)
from controller.cli.screen import table
from controller.format import (
    NOTHING,
    Times,
    compact,
    fields,
    holding,
    indented,
    mark_line,
    mark_row,
    offsets,
    span,
    yes,
)
from controller.terminal import say
from strandline.client import calls, group_calls
from strandline.client.calls import Call
from strandline.core.config import SETTINGS
from strandline.core.time_units import unit_of
from strandline.core.window import TimeWindow
from strandline.limits import OFFSET_BOUND, PAGE_ENTRIES
from strandline.wire.controllers import ControllersReply
from strandline.wire.groups import GROUP_SETTINGS
from strandline.wire.streams import Evaluated, HeadReply, MarksAt, MarksPage, TimeIndexPage

Given: TypeAlias = Mapping[str, Any]  # the arguments and options of a command, by name
DATES: Final = Times()


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleCall:
    """A command. Its call gets what the command takes, by name."""

    help: str
    takes: Sequence[Callable[[Any], Any]] = ()
    call: Callable[..., Call[Any]]
    words: Callable[[Any, Given, Times], str]  # what is said of the answer's value
    json: Callable[[Given], Any] | None = None  # for `--json`, where the answer has no content
    question: Callable[[Given], str] | None = None  # what is asked before something changes
    for_good: bool = False  # it cannot be undone
    shows_times: bool = False
    takes_any_word: bool = False  # an argument may begin with a dash

    def command(self, name: str) -> click.Command:
        """The command as click has it."""

        def run(client: ControllerClient, as_json: bool, times: Times = DATES, yes: bool = False, **given: Any) -> None:
            if self.question is not None:
                confirm(self.question(given), yes=yes, for_good=self.for_good)
            answered = client.ask(self.call(**given))
            if not as_json:
                say(self.words(answered.value, given, times))
            else:
                say(indented(answered.json) if self.json is None else compact(self.json(given)))

        decorators: list[Callable[[Any], Any]] = [
            *self.takes,
            *([yes_option] if self.question is not None else []),
            calls_controller,
            json_option,
            *([times_option] if self.shows_times else []),
        ]
        made: Any = run
        for decorator in reversed(decorators):
            made = decorator(made)
        settings = {"ignore_unknown_options": True} if self.takes_any_word else {}
        return click.command(name, help=self.help, context_settings=settings)(made)


def _done(sentence: str) -> Callable[[MarksPage, Given, Times], str]:
    """What was done, and the marks that it brought about."""

    def words(page: MarksPage, given: Given, times: Times) -> str:
        lines = [sentence.format_map(given)]
        for mark in page.marks:
            key = f" in {mark.key}" if mark.key else ""
            lines.append(f"new mark{key}: {mark_line(mark_row(mark, times))}")
        return "\n".join(lines)

    return words


# -- streams and their writers -------------------------------------------------------------------------------------

writer_argument = click.argument("writer", type=name_of("writer"), help="its writer")


def _configure(stream: str | None, group: str | None, settings: dict[str, Any]) -> Call[Any]:
    name, is_stream = one_of(stream, group)
    if is_stream:
        check_known(settings, (each for each, setting in SETTINGS.items() if not setting.says.stays))
        return calls.configure(name, settings)
    check_known(settings, GROUP_SETTINGS)
    return group_calls.change_group(name, settings)


def _settings_words(_: object, given: Given, __: Times) -> str:
    shown = {each: value if isinstance(value, str) else compact(value) for each, value in given["settings"].items()}
    name, _is_stream = one_of(given["stream"], given["group"])
    return f"{name} has {', '.join(f'{each}={value}' for each, value in shown.items())}"


def _delete(stream: str | None, group: str | None) -> Call[None]:
    name, is_stream = one_of(stream, group)
    return calls.delete_stream(name) if is_stream else group_calls.delete_group(name)


def _delete_question(given: Given) -> str:
    name, is_stream = one_of(given["stream"], given["group"])
    what = f"{name} with its writers, marks and journal" if is_stream else f"reader group {name} with its positions"
    return f"Delete {what}? This cannot be undone."


def _evaluated_words(value: Evaluated, _: Given, times: Times) -> str:
    if value.mark is not None:
        return f"new mark: {mark_line(mark_row(value.mark, times))}"
    return f"no new mark; time is held back by: {holding(value.held_by)}"


def _scaled(given: Given) -> tuple[str, str]:
    """The segments that end, and those that begin."""
    return ", ".join(given["seal"]), ", ".join(each.id for each in given["create"])


def _scale_question(given: Given) -> str:
    ends, begins = _scaled(given)
    return f"In {given['stream']}, end {ends} for good, and begin {begins}?"


def _scale_words(_: object, given: Given, __: Times) -> str:
    ends, begins = _scaled(given)
    return f"{given['stream']} has ended {ends}, and begun {begins}"


def _head_words(value: HeadReply, given: Given, _: Times) -> str:
    return f"{given['stream']} begins at {offsets(value.head)}"


# -- times and positions -------------------------------------------------------------------------------------------


def _window_words(found: tuple[TimeWindow, str], _: Given, times: Times) -> str:
    window, _identity = found
    return "\n".join(
        fields(
            [
                ("lower", times.show(window.lower)),
                ("upper", times.show(window.upper)),
                ("complete", yes(window.complete)),
                ("end of stream", yes(window.end_of_stream)),
                ("mark", NOTHING if window.mark_seq is None else str(window.mark_seq)),
            ]
        )
    )


def _position_words(found: MarksAt, _: Given, times: Times) -> str:
    return "\n".join(
        fields(
            [
                ("position", offsets(found.start) or NOTHING),
                ("exact", yes(found.exact)),
                ("mark before", times.show(None if found.floor is None else found.floor.time)),
                ("mark after", times.show(None if found.ceiling is None else found.ceiling.time)),
            ]
        )
    )


def _index_words(page: TimeIndexPage, _: Given, times: Times) -> str:
    entries = page.entries
    if not entries:
        return "no mark says anything about it yet"
    lines = table(["offset", "nothing older than"], [[str(each.offset), times.show(each.time)] for each in entries])
    unit = unit_of(entries[0].time, entries[-1].time)
    if unit is not None:
        lines.append(f"these times look like {unit.word}: writers have to note milliseconds")
    return "\n".join(lines)


def _controllers_words(seen: ControllersReply, _: Given, times: Times) -> str:
    header = ("controller", "state", "since", "shards", "last beat", "version", "address", "for clients")
    rows = [
        (
            each.name or "alone",
            each.state.replace("_", " "),
            times.show(each.since),
            NOTHING if each.shards is None else str(each.shards),
            NOTHING if each.beat_age_ms is None else f"{span(each.beat_age_ms)} ago",
            each.version,
            each.address or NOTHING,
            each.client_address or NOTHING,
        )
        for each in seen.controllers
    ]
    return "\n".join(table(header, rows))


# -- the table -----------------------------------------------------------------------------------------------------

ROWS: Final = {
    "window": SingleCall(
        help="Show the time window at a position: everything older than its lower bound has been read.",
        takes=(
            stream_argument,
            option(
                "--position",
                type=position,
                required=True,
                metavar="POSITION",
                help='how far it was read, as 0=5,1=7 or {"0": 5}; {} is its beginning',
            ),
            key_option,
        ),
        call=calls.window_of,
        words=_window_words,
        shows_times=True,
    ),
    "position": SingleCall(
        help="Show where a time lies in a stream: the position at which reading from that time begins.",
        takes=(
            stream_argument,
            click.argument(
                "time",
                type=moment,
                help="from when on: a whole number as notes have it, or a date such as 2026-01-31T12:00:00Z",
            ),
            key_option,
        ),
        call=calls.marks_at,
        words=_position_words,
        shows_times=True,
        takes_any_word=True,  # a time may be negative
    ),
    "index": SingleCall(
        help="Show the time index of a segment: from each offset on, no event is older than the time beside it.",
        takes=(
            stream_argument,
            click.argument("segment", type=name_of("segment"), help="which of its segments"),
            option(
                "--from-offset",
                type=Whole(0, OFFSET_BOUND - 1),
                default=0,
                help="begin with the entry at this offset, or below",
            ),
            option("--limit", type=Whole(1, PAGE_ENTRIES), default=ENTRIES_SHOWN, help="so many entries"),
            key_option,
        ),
        call=calls.time_index,
        words=_index_words,
        shows_times=True,
    ),
    "evaluate": SingleCall(
        help="Have a stream make a mark now, if its time can advance, whatever its mark_interval_ms; else say who "
        "holds it.",
        takes=(stream_argument, key_option),
        call=calls.evaluate,
        words=_evaluated_words,
        shows_times=True,
    ),
    "configure": SingleCall(
        help="Change settings of a stream or of a reader group; the others stay as they are.",
        takes=(
            click.argument("stream", required=False, type=name_of("stream"), help="the stream"),
            group_option,
            option(
                "--settings",
                type=settings_in,
                required=True,
                metavar="SETTINGS",
                help="those to change, as min_writers=2,writer_timeout_ms=null; docs/reference/options.md has them all",
            ),
        ),
        call=_configure,
        words=_settings_words,
    ),
    "scale": SingleCall(
        help="Split or merge segments: tell a stream what its log has done already. Scale the log first.",
        takes=(
            stream_argument,
            option(
                "--seal",
                type=position,
                required=True,
                metavar="POSITION",
                help="the segments that end, and where, as 0=300",
            ),
            option(
                "--create",
                type=new_segments,
                required=True,
                metavar="SEGMENTS",
                help="their successors and the shares of the keys that these have, as 2=0:0.25,3=0.25:0.5; or JSON, "
                "which may name predecessors",
            ),
        ),
        call=calls.scale,
        question=_scale_question,
        for_good=True,
        words=_scale_words,
    ),
    "truncate": SingleCall(
        help="Tell a stream that its log has removed the events below a position. Marks that lie wholly below it are "
        "pruned.",
        takes=(
            stream_argument,
            option(
                "--head",
                type=position,
                required=True,
                metavar="POSITION",
                help="where the log begins now, as 0=5,1=7",
            ),
        ),
        call=calls.truncate,
        question=lambda given: (
            f"Truncate {given['stream']} at {offsets(given['head'])}? Marks below are removed for good."
        ),
        for_good=True,
        words=_head_words,
    ),
    "seal": SingleCall(
        help="End a stream for good: its writers are closed, it takes no more notes, and readers come to its end.",
        takes=(
            stream_argument,
            option(
                "--final",
                type=position,
                default="",
                metavar="POSITION",
                show_default="where each segment was noted last",
                help="where segments end, as 0=5,1=7",
            ),
        ),
        call=calls.seal,
        question=lambda given: f"Seal {given['stream']}? It takes no more notes after that, for good.",
        for_good=True,
        words=_done("{stream} is sealed"),
        shows_times=True,
    ),
    "delete": SingleCall(
        help="Delete a stream with its writers, marks and journal, or a reader group with its positions. The log "
        "stays.",
        takes=(click.argument("stream", required=False, type=name_of("stream"), help="the stream"), group_option),
        call=_delete,
        question=_delete_question,
        for_good=True,
        words=lambda _, given, __: f"{one_of(given['stream'], given['group'])[0]} is deleted",
        json=lambda given: {"deleted": one_of(given["stream"], given["group"])[0]},
    ),
    "exclude": SingleCall(
        help="Exclude a writer: time goes on without it, and marks name it, until it is included or registers again.",
        takes=(stream_argument, writer_argument),
        call=calls.exclude,
        question=lambda given: (
            f"Exclude {given['writer']} from {given['stream']}? What it has not noted yet may then be late."
        ),
        words=_done("{writer} is excluded from {stream}"),
        shows_times=True,
    ),
    "include": SingleCall(
        help="Include a writer that was excluded: time waits for it again.",
        takes=(stream_argument, writer_argument),
        call=calls.include,
        question=lambda given: f"Include {given['writer']} in {given['stream']} again? Time then waits for it.",
        words=_done("{writer} counts in {stream} again"),
        shows_times=True,
    ),
    "controllers": SingleCall(
        help="List the controllers that serve the store: since when, how many shards, and how old their last beat is.",
        call=calls.controllers,
        words=_controllers_words,
        shows_times=True,
    ),
}
