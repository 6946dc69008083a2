"""Splits long work into steps, so that other work can run in between: pages of rows, and the size of a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from controller.limits import PAGE_CHARACTERS, PAGE_FIRST_ROWS, PAGE_GROWTH_TIMES, PAGE_ROWS, STEP_ITEMS
from controller.storage.queries import Query, StoreReader
from controller.storage.rows import AnyRow, Values


class Step:
    """Counts the items of work since the last pause."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items = 0

    def did(self, items: int) -> bool:
        """Adds `items`; returns whether the step is long enough."""
        self._items += items
        if self._items < STEP_ITEMS:
            return False
        self._items = 0
        return True


def first_page(values: Values, after: Any) -> Values:
    """The parameters of a query for its first page."""
    return {**values, "after": after, "rows": PAGE_FIRST_ROWS}


def pages(
    reader: StoreReader,
    query: Query,
    values: Values,
    page: Sequence[AnyRow],
    place: str,
    weight: Callable[[AnyRow], int],
) -> Iterator[Sequence[AnyRow]]:
    """The rows of a query with the parameters `after` and `rows`, a page at a time, in the order of the column `place`.
    The first page has been read.

    `weight` returns the characters of a row. A page has about PAGE_CHARACTERS, however long its rows are.
    """
    rows = PAGE_FIRST_ROWS
    while True:
        if page:
            yield page
        if len(page) < rows:
            return
        after = getattr(page[-1], place)
        fitting = PAGE_CHARACTERS * rows // max(1, sum(map(weight, page)))
        rows = max(1, min(PAGE_ROWS, PAGE_GROWTH_TIMES * rows, fitting))
        page = reader.rows(query, {**values, "after": after, "rows": rows})
