"""Tables of which a page has one part: the server sorts, filters and pages. What a visitor chooses is the page's
address: it survives a reload, can be sent to somebody else, and is there again after Back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from fastapi import Request

from controller.dashboard.limits import FILTER_CHARACTERS, FILTER_ROWS, PAGE_ROWS, ROWS_A_PAGE
from controller.operators.wording import NOTHING

T = TypeVar("T")
_DIGITS: Final = 9  # of a page's number


class Address:
    """What the address of a page asks for."""

    def __init__(self, request: Request) -> None:
        self._query = [(name, text[:FILTER_CHARACTERS]) for name, text in request.query_params.multi_items()]

    def get(self, name: str, otherwise: str = "") -> str:
        return next((text for known, text in self._query if known == name), otherwise)

    def all(self, name: str) -> list[str]:
        return [text for known, text in self._query if known == name]

    def but(self, **changes: str | Sequence[str] | None) -> str:
        """A link to the same page with other choices; `_` in a name is a point. None leaves a choice out."""
        named = {name.replace("_", "."): value for name, value in changes.items()}
        query = [(name, text) for name, text in self._query if name not in named]
        for name, value in named.items():
            query += [(name, each) for each in ([value] if isinstance(value, str) else value or ())]
        return f"?{urlencode(query)}"

    def others(self, *names: str) -> list[tuple[str, str]]:
        """The choices that a form with these fields has to keep."""
        return [(name, text) for name, text in self._query if name not in names]


@dataclass(frozen=True, slots=True)
class Button:
    """Opens the dialog of an act; `caption` is its label where several have the same text."""

    text: str
    act: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """What stands in a cell."""

    text: object
    link: str | None = None
    colour: str = ""
    more: str = ""
    more_colour: str = "soft"
    button: Button | None = None
    icon: str = ""


def _unchanged(value: Any) -> object:
    return value


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """`value` gives what a cell has, and what the column is sorted by: numbers or texts, or None for an item that shows
    nothing there, which comes last in either direction. `show` makes a text of a value, and `link` a link of that. A
    `cell` is shown in its place. Nothing is sorted by a column without a value.

    Columns that are not `essential` are left out on a phone. A `moment` takes two lines there, its date and its time of
    day."""

    name: str
    label: str
    value: Callable[[T], Any] | None
    show: Callable[[Any], object] = _unchanged
    _: KW_ONLY
    link: Callable[[T], str] | None = None
    cell: Callable[[T], object] | None = None
    right: bool = False
    essential: bool = True
    moment: bool = False

    @property
    def kind(self) -> str:
        words = ("right" if self.right else "", "" if self.essential else "hide-small", "moment" if self.moment else "")
        return " ".join(filter(None, words))

    def cell_of(self, item: T) -> Cell:
        found = self.value(item) if self.cell is None and self.value is not None else None
        shown = self.cell(item) if self.cell is not None else NOTHING if found is None else self.show(found)
        return shown if isinstance(shown, Cell) else Cell(shown, None if self.link is None else self.link(item))


class ColumnHead(NamedTuple):
    column: Column[Any]
    link: str
    sorted: str | None  # in ARIA's words; None where nothing can be sorted by it


class Row(NamedTuple):
    id: str
    cells: Sequence[tuple[Column[Any], Cell]]


class Table(Generic[T]):
    """Items, of which those of one page become rows."""

    def __init__(
        self,
        address: Address,
        name: str,
        columns: Sequence[Column[T]],
        items: Sequence[T],
        *,
        id: Callable[[T], object],
        text: Callable[[T], str] | None = None,
        noun: str | None = None,
        rows: int = PAGE_ROWS,
    ) -> None:
        """`id` tells rows apart; a filter looks for what was typed in `text`, or else in `id`. The choices are named by
        the table's `name` in the address."""
        self.name, self.noun, self.columns, self.all = name, noun or name, columns, items
        self.address, self._id = address, id
        self._text = text or (lambda item: str(id(item)))
        given = {each: address.get(f"{name}.{each}") for each in ("sort", "page", "rows", "filter")}
        self.filter = given["filter"]
        by_name = {each.name: each for each in columns if each.value is not None}
        self.sort_column = by_name.get(given["sort"].removeprefix("-"))
        self.descending = given["sort"].startswith("-")
        self.rows_a_page = int(given["rows"]) if given["rows"] in map(str, ROWS_A_PAGE) else rows
        self._page = int(given["page"]) if given["page"].isdecimal() and len(given["page"]) <= _DIGITS else 1

    @cached_property
    def chosen(self) -> Sequence[T]:
        """The items of all pages, filtered and in order."""
        items, wanted = self.all, self.filter.strip().casefold()
        if wanted:
            items = [each for each in items if wanted in self._text(each).casefold()]
        column = self.sort_column
        return items if column is None or column.value is None else in_order(items, column.value, self.descending)

    @property
    def pages(self) -> int:
        return max(1, -(-len(self.chosen) // self.rows_a_page))

    @property
    def page(self) -> int:
        return min(max(1, self._page), self.pages)

    @property
    def first(self) -> int:
        """How many items lie on the pages before."""
        return (self.page - 1) * self.rows_a_page

    @property
    def items(self) -> Sequence[T]:
        """Those of this page."""
        return self.chosen[self.first : self.first + self.rows_a_page]

    @property
    def rows(self) -> list[Row]:
        return [
            Row(f"{self.name}-row-{self._id(each)}", [(column, column.cell_of(each)) for column in self.columns])
            for each in self.items
        ]

    @property
    def heads(self) -> list[ColumnHead]:
        found = []
        for each in self.columns:
            is_by, descending = each is self.sort_column, self.descending
            direction = (
                None if each.value is None else "none" if not is_by else "descending" if descending else "ascending"
            )
            order = f"-{each.name}" if is_by and not descending else each.name
            found.append(ColumnHead(each, self._but(sort=order, page=None), direction))
        return found

    @property
    def shows_filter(self) -> bool:
        return len(self.all) > FILTER_ROWS or bool(self.filter)

    @property
    def shows_pages(self) -> bool:
        return len(self.all) > min(ROWS_A_PAGE[0], self.rows_a_page)

    @property
    def sizes(self) -> Sequence[int]:
        return ROWS_A_PAGE

    def to_page(self, number: int) -> str:
        return self._but(page=None if number == 1 else str(number))

    def fields(self) -> list[tuple[str, str]]:
        """What its filter keeps of the address."""
        return self.address.others(f"{self.name}.filter", f"{self.name}.page")

    def _but(self, **changes: str | None) -> str:
        return self.address.but(**{f"{self.name}_{name}": value for name, value in changes.items()})


def in_order(items: Iterable[T], sort: Callable[[T], Any], descending: bool) -> list[T]:
    """Items by what `sort` gives, and at the end those for which that is None."""
    ranked = [(sort(each), each) for each in items]
    filled = sorted((pair for pair in ranked if pair[0] is not None), key=itemgetter(0), reverse=descending)
    return [each for _, each in filled] + [each for value, each in ranked if value is None]
