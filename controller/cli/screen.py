"""What commands print for people: tables as wide as the terminal, fields, and marks. What is not a terminal gets every
character."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from controller.cli.options import json_option, times_option
from controller.operators.wording import NOTHING, Times, compact, indented, offsets, yes
from controller.terminal import say, screen_columns

if TYPE_CHECKING:
    from strandline.wire.streams import WireMark

GAP: Final = "  "  # between the columns of a table
CELL_LEAST: Final = 8  # characters of a cell that are shown in the narrowest terminal
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
    lines = table(header, shown, screen_columns()) if shown else [none]
    others = max(count, len(rows)) - len(shown)
    return [*lines, f"and {others:,} more: {more}"] if others else lines


def table(
    header: Sequence[str], rows: Iterable[Sequence[object]], columns: int | None = None, *, spared: int | None = None
) -> list[str]:
    """Lines with aligned columns, and the header in capitals. If they are wider than `columns`, cells of the widest
    ones are cut, and end with "…", those of the column `spared` last."""
    lines = [[each.upper() for each in header], *([cell(each) for each in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(header))]
    if columns is not None:
        widths = fitting(widths, columns, spared)
    return [
        GAP.join(shortened(text, width).ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    ]


def fitting(widths: Sequence[int], columns: int, spared: int | None = None) -> list[int]:
    """The widths of a table's columns, the widest ones lessened until a line has room, but none below CELL_LEAST; that
    of the column `spared` is lessened last."""
    if spared is not None:
        others = [width for place, width in enumerate(widths) if place != spared]
        others = fitting(others, columns - len(GAP) - widths[spared])
        widths = [*others[:spared], widths[spared], *others[spared:]]
    room = columns - len(GAP) * (len(widths) - 1)
    most = max(widths, default=0)
    while most > CELL_LEAST and sum(min(width, most) for width in widths) > room:
        most -= 1
    return [min(width, most) for width in widths]


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


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
