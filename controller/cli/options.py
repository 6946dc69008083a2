"""The options that commands share, and how values are read. Every option is an environment variable as well."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from controller.operators.wording import Times, duration_text, read_duration, read_offsets, read_time
from controller.terminal import Failure
from strandline.errors import StrandlineError, not_installed
from strandline.limits import PAGE_ENTRIES, TIME_BOUND_MS
from strandline.names import check_name

if TYPE_CHECKING:
    from strandline.core.segment import NewSegment

ENTRIES_SHOWN: Final = 20  # of marks, the journal or a time index, unless --limit has another number
LONGEST_SETTING_MS: Final = 100 * 365 * 86_400_000
_SEGMENTS: Final = 'give 2=0:0.25,3=0.25:0.5, or JSON such as [{"id": "2", "low": 0, "high": 0.25}]'
Command = TypeVar("Command", bound=Callable[..., Any])
Value = TypeVar("Value")


def option(*names: str, show_default: bool | str = True, **settings: Any) -> Callable[[Command], Command]:
    """An option that is STRANDLINE_NAME as well, whatever the command; its help names the variable and the default.
    (A variable by click's `auto_envvar_prefix` would have the command's name in it, and the parameter's.)"""
    if isinstance(settings.get("type"), click.IntRange):
        settings.setdefault("metavar", "N")
    variable = "STRANDLINE_" + names[0].removeprefix("--").upper().replace("-", "_")
    return click.option(*names, envvar=variable, show_envvar=True, show_default=show_default, **settings)


# -- values --------------------------------------------------------------------------------------------------------


def reading(read: Callable[[str], Value]) -> Callable[[str], Value]:
    """Reads a value of the command line with what raises ValueError, or an error of ours, whose text is for people."""

    def checked(text: str) -> Value:
        try:
            return read(text)
        except (ValueError, StrandlineError) as error:
            raise click.BadParameter(str(error)) from None

    return checked


def name_of(what: str) -> Callable[[str], str]:
    """Reads the name of a stream, a writer, and so on."""
    return reading(partial(check_name, what))


def time_key(text: str) -> str:
    """A time key; an empty text is the default one."""
    return text and name_of("time key")(text)


moment = reading(read_time)
position = reading(read_offsets)


def duration(bound_ms: int, *, least_ms: int = 0) -> Callable[[str], int]:
    """Reads a duration, in milliseconds: a number of seconds, or with units."""

    def read(text: str) -> int:
        milliseconds = read_duration(text, unit="s")
        if milliseconds > bound_ms:
            raise ValueError(f"{text[:80]!r} is too long: the most is {duration_text(bound_ms)}")
        if milliseconds < least_ms:
            raise ValueError(f"{text[:80]!r} is too short: the least is {duration_text(least_ms)}")
        return milliseconds

    return reading(read)


def pairs(text: str, example: str) -> dict[str, str]:
    """Reads `name=value,name=value`."""
    found = {}
    for each in text.split(","):
        name, equals, value = each.strip().partition("=")
        if not name or not equals or name in found:
            trouble = "is given twice" if name in found else "is no name=value"
            raise click.BadParameter(f"{each.strip()!r} {trouble}: give them as {example}")
        found[name] = value
    return found


def json_or_text(text: str) -> Any:
    """A value: what is not JSON is text, so that words need no quotes."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def settings_in(text: str) -> dict[str, Any]:
    """Settings with their values; those in milliseconds may be spans of time, as 10s."""
    found = {name: json_or_text(value) for name, value in pairs(text, "min_writers=2,late_writers=skip").items()}
    read = duration(LONGEST_SETTING_MS)
    return {
        name: read(value) if name.endswith("_ms") and isinstance(value, str) else value for name, value in found.items()
    }


def check_known(asked: Iterable[str], known: Iterable[str]) -> None:
    """Raises Failure for the name of a setting that is not known."""
    names = sorted(known)
    for name in asked:
        if name not in names:
            raise Failure(f"there is no setting {name!r} to give: there are {', '.join(names)}")


def new_segments(text: str) -> list[NewSegment]:
    """New segments: `2=0:0.25,3=0.25:0.5`, or a JSON list of objects, which may name predecessors."""
    try:
        is_json = text.lstrip().startswith("[")
        given = json.loads(text) if is_json else [_ranged_segment(each) for each in text.split(",")]
        return [_new_segment(each) for each in given]
    except (ValueError, TypeError, AttributeError, RecursionError, StrandlineError) as error:
        raise click.BadParameter(f"{text[:200]!r} are no segments ({error}): {_SEGMENTS}") from None


def _ranged_segment(text: str) -> dict[str, Any]:
    name, equals, bounds = text.strip().partition("=")
    low, colon, high = bounds.partition(":")
    if not equals or not colon:
        raise ValueError(f"{text.strip()!r} is no segment=low:high")
    return {"id": name, "low": float(low), "high": float(high)}


def _new_segment(given: Any) -> NewSegment:
    from strandline.core.segment import NewSegment

    fields = {"id", "low", "high", "predecessors"}
    if not isinstance(given, dict) or given.keys() - fields or not isinstance(given.get("id"), str):
        raise ValueError("each has an id, and a low and a high, or predecessors")
    predecessors = given.get("predecessors")
    return NewSegment(
        id=given["id"],
        low=given.get("low"),
        high=given.get("high"),
        predecessors=None if predecessors is None else tuple(predecessors),
    )


def settings_file(file: Path | None) -> dict[str, str]:
    """The settings in a file like Kafka's own: a name=value a line, # begins a comment."""
    if file is None:
        return {}
    try:
        lines = [line.strip() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise Failure(f"the settings cannot be read: {error}") from None
    found = {}
    for number, line in enumerate(lines, start=1):
        name, equals, value = line.partition("=")
        if line and not line.startswith("#"):
            if not equals:  # the line itself is not shown: it may well be a password
                raise Failure(f"line {number} of {file} is no name=value")
            found[name.strip()] = value.strip()
    return found


@contextmanager
def needs(extra: str, status: int = 1) -> Iterator[None]:
    """Raises Failure with this exit status for an import of what the extra has, if that is not installed."""
    try:
        yield
    except ImportError as missing:
        raise Failure(f"{missing.name} is {not_installed(extra)}", status) from None


# -- options of several commands -----------------------------------------------------------------------------------

stream_argument = click.argument("stream", type=name_of("stream"), help="the stream")
key_option = option("--key", type=time_key, default="", metavar="KEY", help="the time key")
group_option = option("--group", type=name_of("group"), metavar="GROUP", help="the reader group, in place of a stream")
kafka_settings_option = option(
    "--settings",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="a file with more of librdkafka's settings, such as for security: name=value",
)
json_option = option("--json", "as_json", is_flag=True, help="print JSON, as the HTTP API has it")
times_option = option(
    "--plain-times",
    "times",
    is_flag=True,
    callback=lambda _ctx, _option, plain: Times(plain),
    help="show every time as a number, and none as a date",
)
yes_option = option("--yes", is_flag=True, help="do not ask for confirmation")


def after_option(what: str) -> Callable[[Command], Command]:
    """Where a list of numbered things begins."""
    says = f"from the {what} after this seq, not the newest"
    return option("--after", type=click.IntRange(0, TIME_BOUND_MS - 1), metavar="SEQ", help=says)


def limit_option(says: str) -> Callable[[Command], Command]:
    """How many of a list are shown."""
    return option("--limit", type=click.IntRange(1, PAGE_ENTRIES), default=ENTRIES_SHOWN, help=says)


def confirm(question: str, *, yes: bool, grave: str = "") -> None:
    """Asks, unless `yes` was said. Raises Failure for any other answer than yes, and, where it says what makes it
    `grave`, if nobody is there to answer.

    The question goes to standard error, beside the data.
    """
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        if grave:
            raise Failure(f"nothing was changed: {grave}, and nobody is there to be asked; give --yes")
        return
    if not click.confirm(question, err=True):
        raise Failure("nothing was changed")


def one_of(stream: str | None, group: str | None) -> tuple[str, bool]:
    """The name of the stream or the reader group, whichever was given, and whether it is a stream."""
    if stream is not None and group is None:
        return stream, True
    if group is not None and stream is None:
        return group, False
    raise click.UsageError("Name either a stream or a reader group, which is --group or STRANDLINE_GROUP.")
