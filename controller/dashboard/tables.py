"""A table of which the browser gets one page at a time: sorting, filtering and paging are done here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nicegui import events, ui

from controller.dashboard.limits import PAGE_ROWS


@dataclass(frozen=True, slots=True)
class Column:
    """`name` is the field of a row that is shown; it is sorted by the field `sort`, where that is another one.

    `html` is a Vue template for the cell, in which `props.row` is the row. Columns that are not `essential` are left
    out on a phone.
    """

    name: str
    label: str
    sort: str | None = None
    html: str | None = None
    right: bool = False
    essential: bool = True


class PagedTable:
    """Shows rows, each with an `id`. `show` gives it others; what the visitor chose stays as it is."""

    def __init__(self, columns: Sequence[Column], *, noun: str, rows_per_page: int = PAGE_ROWS) -> None:
        self._rows_per_page = rows_per_page
        self._rows: list[dict[str, Any]] = []
        self._sorts = {each.name: each.sort or each.name for each in columns}
        self._hidden = {"id", *(each.sort for each in columns if each.sort is not None)}
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
        for each in columns:
            if each.html is not None:
                right = " text-right" if each.right else ""
                self._table.add_slot(
                    f"body-cell-{each.name}", f'<q-td :props="props" class="{right}">{each.html}</q-td>'
                )
        self._filter.set_visibility(False)

    def show(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Shows these rows, in this order unless the visitor sorted."""
        self._rows = [dict(row) for row in rows]
        if len(self._rows) > PAGE_ROWS:
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
        rows, text = self._rows, (self._filter.value or "").strip().casefold()
        if text:
            rows = [
                row for row in rows if any(text in str(v).casefold() for k, v in row.items() if k not in self._hidden)
            ]
        if self._page["sortBy"] is not None:
            field = self._sorts[self._page["sortBy"]]
            rows = sorted(rows, key=lambda row: _rank(row.get(field)), reverse=bool(self._page["descending"]))
        size = self._page["rowsPerPage"] or len(rows) or 1
        last = max(1, -(-len(rows) // size))
        page = self._page["page"] = min(self._page["page"], last)
        shown = rows[(page - 1) * size : page * size]
        pagination = {**self._page, "rowsNumber": len(rows)}
        self._table.props["hide-bottom"] = len(self._rows) <= min(10, self._rows_per_page)
        if self._table.rows != shown:
            self._table.rows = shown
        if self._table.pagination != pagination:
            self._table.pagination = pagination


def _rank(value: object) -> tuple[int, Any]:
    """Numbers before texts before nothing, so that any two values can be compared."""
    if value is None:
        return (2, 0)
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))


def _quasar(column: Column) -> dict[str, Any]:
    small = "" if column.essential else "sl-hide-small"
    return {
        "name": column.name,
        "label": column.label,
        "field": column.name,
        "sortable": True,
        "align": "right" if column.right else "left",
        "classes": small,
        "headerClasses": small,
    }


def key_label(key: str) -> str:
    """A time key for people."""
    return key or "(default)"
