"""A table of which the browser gets one page at a time: the server sorts, filters and pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from nicegui import events, ui

from controller.dashboard.limits import FILTER_ROWS, PAGE_ROWS

T = TypeVar("T")

# A cell with a link, for rows that have a `link` and a `name`; and a cell whose colour is the row's `state_class`.
LINKED: Final = '<a :href="props.row.link">{{ props.row.name }}</a>'
STATE: Final = '<span :class="props.row.state_class" style="font-weight: 600">{{ props.row.state }}</span>'


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """`name` is the field of a row that is shown, `sort` what an item is sorted by (a number, a text, or nothing).

    `html` is a Vue template for the cell, in which `props.row` is the row. Columns that are not `essential` are left
    out on a phone.
    """

    name: str
    label: str
    sort: Callable[[T], Any] | None = None
    html: str | None = None
    right: bool = False
    essential: bool = True


class PagedTable(Generic[T]):
    """Shows items; only those of one page become rows. `show` replaces the items and keeps the visitor's choices."""

    def __init__(
        self,
        columns: Sequence[Column[T]],
        *,
        noun: str,
        row: Callable[[T], Mapping[str, Any]],
        text: Callable[[T], str],
        rows_per_page: int = PAGE_ROWS,
        act: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        """`row` has an `id`; a filter looks for what was typed in `text`. `act` is called with what a cell's template
        emits as `act`."""
        self._row, self._text = row, text
        self._rows_per_page = rows_per_page
        self._items: Sequence[T] = ()
        self._sorts = {each.name: each.sort for each in columns if each.sort is not None}
        self._page: dict[str, Any] = {"page": 1, "rowsPerPage": rows_per_page, "sortBy": None, "descending": False}
        self._filter = (
            ui.input(placeholder=f"Filter {noun}", on_change=self._filtered)
            .props(f'dense outlined clearable debounce=200 aria-label="Filter {noun}"')
            .style("max-width: 320px; width: 100%")
        )
        self._table = ui.table(
            columns=[_quasar(each) for each in columns], rows=[], row_key="id", pagination=dict(self._page)
        ).props('flat dense :rows-per-page-options="[10, 25, 50, 100]" binary-state-sort wrap-cells')
        self._table.on("request", self._requested)
        if act is not None:
            self._table.on("act", lambda event: act(str(event.args)))
        for each in columns:
            if each.html is not None:
                right = " text-right" if each.right else ""
                self._table.add_slot(
                    f"body-cell-{each.name}", f'<q-td :props="props" class="{right}">{each.html}</q-td>'
                )
        self._filter.set_visibility(False)

    def show(self, items: Sequence[T]) -> None:
        """Shows these items, in this order unless the visitor sorted."""
        self._items = items
        self._table.set_visibility(bool(items))
        if len(items) > FILTER_ROWS:
            self._filter.set_visibility(True)
        self._render()

    def _filtered(self, _event: events.ValueChangeEventArguments[Any]) -> None:
        self._page["page"] = 1
        self._render()

    def _requested(self, event: events.GenericEventArguments) -> None:
        wanted = event.args["pagination"]
        self._page = {name: wanted.get(name) for name in ("page", "rowsPerPage", "sortBy", "descending")}
        self._render()

    def _render(self) -> None:
        items, text = self._items, (self._filter.value or "").strip().casefold()
        if text:
            items = [each for each in items if text in self._text(each).casefold()]
        sort = self._sorts.get(self._page["sortBy"] or "")
        if sort is not None:
            items = sorted(items, key=lambda each: _rank(sort(each)), reverse=bool(self._page["descending"]))
        size = self._page["rowsPerPage"] or len(items) or 1
        last = max(1, -(-len(items) // size))
        page = self._page["page"] = min(self._page["page"], last)
        shown = [dict(self._row(each)) for each in items[(page - 1) * size : page * size]]
        pagination = {**self._page, "rowsNumber": len(items)}
        hide = len(self._items) <= min(10, self._rows_per_page)
        if self._table.props.get("hide-bottom") != hide:
            self._table.props["hide-bottom"] = hide
        if self._table.rows != shown:
            self._table.rows = shown
        if self._table.pagination != pagination:
            self._table.pagination = pagination


def _rank(value: Any) -> tuple[int, Any]:
    """Numbers before texts before nothing, so that any two values can be compared."""
    if value is None:
        return (2, 0)
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))


def _quasar(column: Column[Any]) -> dict[str, Any]:
    small = "" if column.essential else "sl-hide-small"
    return {
        "name": column.name,
        "label": column.label,
        "field": column.name,
        "sortable": column.sort is not None,
        "align": "right" if column.right else "left",
        "classes": small,
        "headerClasses": small,
    }


def key_label(key: str) -> str:
    """A time key for people."""
    return key or "(default)"
