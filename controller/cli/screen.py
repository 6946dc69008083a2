"""What commands print for people: tables, fields, and marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from controller.cli.options import json_option, times_option
from controller.operators.wording import NOTHING, Times, compact, indented, offsets, yes
from controller.terminal import say

if TYPE_CHECKING:
    from strandline.wire.streams import WireMark

GAP: Final = "  "  # between the columns of a table
MARK_HEADER: Final = ("seq", "time", "upper", "newest", "complete", "without", "cut")
WHERE_ALL_ARE: Final = "--json has all"


class Output:
    """What a command prints: JSON, as the HTTP API has it, or lines for people, in which all times are shown alike."""

    def __init__(self, as_json: bool, times: Times) -> None:
        self.as_json = as_json
        self.times = times

    def show(self, value: Any, lines: Callable[[], Iterable[str]]) -> None:
        say(*([indented(value)] if self.as_json else lines()))

    def show_line(self, value: Any, text: Callable[[], str]) -> None:
        """The same as one line of many."""
        say(compact(value) if self.as_json else text())


def prints(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Adds `--json` and `--plain-times`: the command gets its Output as `output`."""

    @json_option
    @times_option
    @wraps(command)
    def run(*given: object, as_json: bool, times: Times, **options: object) -> int | None:
        return command(*given, output=Output(as_json, times), **options)

    return run


def listing(
    header: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    none: str,
    most: int | None = None,
    count: int = 0,
    more: str = WHERE_ALL_ARE,
) -> list[str]:
    """A table of the first `most` rows, and a line about the others, of which there may be more than are given: `count`
    in all. Only the line `none` where there is no row."""
    rows = list(rows)
    shown = rows[:most]
    lines = table(header, shown) if shown else [none]
    others = max(count, len(rows)) - len(shown)
    return [*lines, f"and {others:,} more: {more}"] if others else lines


def table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines with aligned columns, and the header in capitals."""
    lines = [[each.upper() for each in header], *([cell(each) for each in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [GAP.join(map(str.ljust, line, widths)).rstrip() for line in lines]


def cell(value: object) -> str:
    """A value in a table or a field."""
    match value:
        case None | () | []:
            return NOTHING
        case bool():
            return yes(value)
        case list() | tuple():
            return ", ".join(map(str, value))
        case _:
            return str(value)


def fields(pairs: Iterable[tuple[str, object]]) -> list[str]:
    """Lines with a name and a value each."""
    pairs = list(pairs)
    width = max(len(name) for name, _ in pairs)
    return [f"{name.ljust(width)}{GAP}{cell(value)}".rstrip() for name, value in pairs]


def settings(values: Mapping[str, object]) -> list[tuple[str, object]]:
    """Settings as fields, with null as in JSON."""
    return [(name, "null" if value is None else value) for name, value in values.items()]


def mark_row(mark: WireMark, times: Times) -> tuple[object, ...]:
    bounds = (times.show(mark.time), times.show(mark.upper), times.show(mark.newest))
    return (mark.seq, *bounds, mark.complete, mark.excluded, offsets(mark.cut))


def mark_line(mark: WireMark, times: Times) -> str:
    """A mark as one line with names, for output that comes line by line."""
    named = zip(MARK_HEADER, map(cell, mark_row(mark, times)), strict=True)
    return GAP.join(f"{name} {text}" for name, text in named if text != NOTHING)
