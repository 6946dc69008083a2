"""Splits long work into steps, so that other work can run in between: pages of rows, and the size of a step."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from sqlalchemy import Connection, Select

from controller.storage.rows import AnyRow, Values

STEP_ITEMS: Final = 1_024  # of work before other tasks run; one writer in one key is an item
ITEM_CHARACTERS: Final = 256  # decoding so many characters of a row counts as one item
FIRST_STEPS: Final = 4  # a load with more steps gets a connection of its own

PAGE_FIRST_ROWS: Final = 256  # rows of the first page, which shows how large rows are
PAGE_GROWTH_TIMES: Final = 4  # the most by which a page may be longer than the one before
PAGE_ROWS: Final = 4_096  # the most rows of a page
PAGE_CHARACTERS: Final = 256 * 1024  # the approximate size of a page

Result = TypeVar("Result")

# Work that stops after each step and goes on when it is asked to; its result comes with the last one.
Steps: TypeAlias = Generator[None, None, Result]


@dataclass(frozen=True, slots=True)
class Done(Generic[Result]):
    """The result of steps that are all done."""

    result: Result


def next_step(steps: Steps[Result]) -> Done[Result] | None:
    """Takes one step; returns the result if it was the last."""
    try:
        next(steps)
    except StopIteration as done:
        return Done(done.value)
    return None


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


def pages(
    connection: Connection,
    query: Select[Any],
    values: Values,
    after: Any,
    place: str,
    weight: Callable[[AnyRow], int],
) -> Iterator[AnyRow]:
    """The rows of a query with the parameters `after` and `rows`, read a page at a time, in the order of a column.

    `weight` returns the characters of a row. A page has about PAGE_CHARACTERS, however long its rows are.
    """
    rows = PAGE_FIRST_ROWS
    while True:
        page = connection.execute(query, {**values, "after": after, "rows": rows}).all()
        yield from page
        if len(page) < rows:
            return
        after = getattr(page[-1], place)
        fitting = PAGE_CHARACTERS * rows // max(1, sum(map(weight, page)))
        rows = max(1, min(PAGE_ROWS, PAGE_GROWTH_TIMES * rows, fitting))
