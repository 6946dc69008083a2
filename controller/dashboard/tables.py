"""A table of which the browser gets one page at a time: the server sorts, filters and pages.

What a visitor chooses is kept in the page's address: it survives a reload, can be sent to somebody else, and is there
again after Back.
"""

from __future__ import annotations

import asyncio
import csv
import io
import json
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from nicegui import Client, events, ui

from controller.dashboard.limits import (
    EXPORT_ROWS,
    EXPORT_SLICE_ROWS,
    FILTER_CHARACTERS,
    FILTER_ROWS,
    LAST_PAGE,
    PAGE_ROWS,
    ROWS_A_PAGE,
)
from controller.dashboard.widgets import menu_of
from controller.dashboard.zones import shown_in_zone
from controller.format import NOTHING

T = TypeVar("T")

# A cell with a link, for rows that have a `link` and a `name`; and a cell whose colour is the row's `state_class`.
LINKED: Final = '<a :href="props.row.link">{{ props.row.name }}</a>'
# A head that the keyboard reaches too. The library marks the column that is sorted by in the classes of its head.
_HEAD: Final = """<q-th :props="props" :aria-sort="!props.col.sortable ? null :
/ sorted /.test(props.col.__thClass) ? (/sort-desc/.test(props.col.__thClass) ? 'descending' : 'ascending') : 'none'">
<button v-if="props.col.sortable" type="button" class="sl-sort">{{ props.col.label }}</button>
<template v-else>{{ props.col.label }}</template></q-th>"""
STATE: Final = (
    '<span :class="props.row.state_class" style="font-weight: 600; overflow-wrap: normal">{{ props.row.state }}</span>'
)


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    """`name` is the field of a row that is shown, `sort` what an item is sorted by: a number, a text, or None for an
    item that shows nothing there. Such items come last, in either direction.

    `html` is a Vue template for the cell, in which `props.row` is the row. Columns that are not `essential` are left
    out on a phone. A `moment` takes two lines there, its date and its time of day. In files a cell has the row's field
    `NAME_text`, where there is one, or else what is shown.
    """

    name: str
    label: str
    sort: Callable[[T], Any] | None = None
    html: str | None = None
    right: bool = False
    essential: bool = True
    moment: bool = False


class _Cell(ui.element, component="cell.js"):
    """A cell of each row, or the head of each column, by a Vue template."""

    def __init__(self, template: str) -> None:
        super().__init__()
        # It stands there many times, so it has no id of its own.
        self.props.update({"template": template, ":props": "props", ":id": "undefined"})


class PagedTable(Generic[T]):
    """Shows items; only those of one page become rows. `show` replaces the items and keeps the visitor's choices."""

    def __init__(
        self,
        columns: Sequence[Column[T]],
        *,
        noun: str,
        name: str | None = None,
        row: Callable[[T], Mapping[str, Any]],
        text: Callable[[T], str],
        rows_per_page: int = PAGE_ROWS,
        act: Callable[[str], Awaitable[None]] | None = None,
        filters: bool = True,
    ) -> None:
        """`row` has an `id`; a filter, unless the page has one of its own, looks for what was typed in `text`. `act` is
        called with what a cell's template emits as `act`. Of several tables of one page with the same noun each needs a
        `name`, for the address."""
        self._filters = filters
        self._choices = TableChoices(name or noun)
        request = ui.context.client.request

        def row_in_zone(item: T) -> Mapping[str, Any]:
            with shown_in_zone(request):  # a visitor sorts and turns pages between two updates as well
                return row(item)

        self._row, self._text = row_in_zone, text
        self._rows_per_page = rows_per_page
        self._items: Sequence[T] = ()
        self._sorts = {each.name: each.sort for each in columns if each.sort is not None}
        self._page: dict[str, Any] = self._choices.page(self._sorts, rows_per_page)
        self._filter = (
            ui.input(placeholder=f"Filter {noun}", value=self._choices.filter, on_change=self._filtered)
            .props(f'dense outlined clearable debounce=200 maxlength={FILTER_CHARACTERS} aria-label="Filter {noun}"')
            .style("max-width: 320px; width: 100%")
        )
        self._table = ui.table(
            columns=[_quasar(each) for each in columns], rows=[], row_key="id", pagination=dict(self._page)
        ).props(f'flat dense :rows-per-page-options="{list(ROWS_A_PAGE)}" binary-state-sort wrap-cells')
        self._table.on("request", self._requested)
        self._file = name or noun
        self._columns = [(each.name, each.label) for each in columns if each.name != "act"]
        with (
            ui.button(icon="download")
            .props(f'flat round dense size=sm color=secondary aria-label="Download {noun}"')
            .classes("sl-download") as self._download
        ):
            menu_of({"CSV": partial(self._export, as_csv), "JSON": partial(self._export, as_json)})
        with self._table.add_slot("header-cell"):
            _Cell(_HEAD)
        if act is not None:
            self._table.on("act", lambda event: act(str(event.args)))
        for each in columns:
            if each.html is not None:
                right = " text-right" if each.right else ""
                with self._table.add_slot(f"body-cell-{each.name}"):
                    _Cell(f'<q-td :props="props" class="{right}">{each.html}</q-td>')
        self._filter.set_visibility(False)

    def show(self, items: Sequence[T]) -> None:
        """Shows these items, in this order unless the visitor sorted."""
        self._items = items
        self._table.set_visibility(bool(items))
        self._download.set_visibility(bool(items))
        if self._filters and (len(items) > FILTER_ROWS or self._filter.value):
            self._filter.set_visibility(True)
        self._render()

    def _filtered(self, _event: events.ValueChangeEventArguments[Any]) -> None:
        self._page["page"] = 1
        self._render()
        self._choices.keep(self._page, self._filter.value or "", self._rows_per_page)

    def _requested(self, event: events.GenericEventArguments) -> None:
        wanted = event.args["pagination"]
        self._page = {name: wanted.get(name) for name in ("page", "rowsPerPage", "sortBy", "descending")}
        self._render()
        self._choices.keep(self._page, self._filter.value or "", self._rows_per_page)

    async def _export(self, form: Callable[[Sequence[tuple[str, str]], Sequence[Mapping[str, Any]]], str]) -> None:
        """Lets the browser save what is chosen, of all pages."""
        chosen, rows = self._chosen(), []
        for number, each in enumerate(chosen[:EXPORT_ROWS]):
            rows.append(self._row(each))
            if number % EXPORT_SLICE_ROWS == 0:
                await asyncio.sleep(0)  # others have their turn
        ending = form.__name__.removeprefix("as_")
        content = form(self._columns, rows)
        ui.download.content(content, f"{self._file}.{ending}", f"text/{ending}; charset=utf-8")
        if len(chosen) > EXPORT_ROWS:
            ui.notify(f"the first {EXPORT_ROWS:,} of {len(chosen):,} rows", type="warning")

    def _chosen(self) -> Sequence[T]:
        """The items of all pages, filtered and in order."""
        items, text = self._items, (self._filter.value or "").strip().casefold()
        if text:
            items = [each for each in items if text in self._text(each).casefold()]
        sort = self._sorts.get(self._page["sortBy"] or "")
        if sort is not None:
            items = in_order(items, sort, descending=bool(self._page["descending"]))
        return items

    def _render(self) -> None:
        items = self._chosen()
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


class TableChoices:
    """The choices for a table, in the address of its page: `writers.sort=-lag`, `.page`, `.rows` and `.filter`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._client = ui.context.client
        given = self._client.request.query_params
        self._given = {each: given.get(f"{name}.{each}", "") for each in ("sort", "page", "rows", "filter")}

    @property
    def filter(self) -> str:
        return self._given["filter"][:FILTER_CHARACTERS]

    def page(self, sorts: Collection[str], rows: int) -> dict[str, Any]:
        """What the address says, as far as it can be; `rows` are on a page where it says nothing."""
        sort, page, size = (self._given[each] for each in ("sort", "page", "rows"))
        column = sort.removeprefix("-")
        return {
            "page": min(int(page), LAST_PAGE) if _is_number(page) and int(page) else 1,
            "rowsPerPage": int(size) if _is_number(size) and int(size) in ROWS_A_PAGE else rows,
            "sortBy": column if column in sorts else None,
            "descending": column in sorts and sort.startswith("-"),
        }

    def keep(self, page: Mapping[str, Any], filter: str, rows: int) -> None:
        """Puts the choices into the address of the page that is open; what is as it was at first is left out."""
        sort = f"{'-' if page['descending'] else ''}{page['sortBy']}" if page["sortBy"] else None
        choices = {
            "sort": sort,
            "page": page["page"] if page["page"] != 1 else None,
            "rows": page["rowsPerPage"] if page["rowsPerPage"] != rows else None,
            "filter": filter[:FILTER_CHARACTERS] or None,
        }
        keep(self._client, {f"{self._name}.{each}": value for each, value in choices.items()})


def keep(client: Client, choices: Mapping[str, object]) -> None:
    """Puts choices into the address of a page, and removes those that are None."""
    _ = client.run_javascript(f"strandline.keep({json.dumps(dict(choices))})")


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


def in_order(items: Sequence[T], sort: Callable[[T], Any], *, descending: bool) -> list[T]:
    """Items by what `sort` gives: numbers before texts, or the other way round, and at the end what has None."""
    ranked = [(sort(each), each) for each in items]
    filled = [pair for pair in ranked if pair[0] is not None]
    filled.sort(key=lambda pair: _rank(pair[0]), reverse=descending)
    return [each for _, each in filled] + [each for value, each in ranked if value is None]


def as_csv(columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV with a head. What a table program would take for a formula begins with an apostrophe."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow([label for _, label in columns])
    for row in rows:
        writer.writerow([_plain(_cell(row, name)) for name, _ in columns])
    return written.getvalue()


def as_json(columns: Sequence[tuple[str, str]], rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as a list of objects, with null for what shows nothing."""
    found = [{name: None if (cell := _cell(row, name)) == NOTHING else cell for name, _ in columns} for row in rows]
    return json.dumps(found, ensure_ascii=False, indent=1)


def _cell(row: Mapping[str, Any], name: str) -> Any:
    return row.get(f"{name}_text", row[name])


def _plain(value: Any) -> Any:
    if value is None or value == NOTHING:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")) else value


def _rank(value: Any) -> tuple[int, Any]:
    """Numbers before texts, so that any two values can be compared."""
    return (0, value) if isinstance(value, (int, float)) else (1, str(value))


def _quasar(column: Column[Any]) -> dict[str, Any]:
    small = "" if column.essential else "sl-hide-small"
    unbroken = "sl-moment" if column.moment else ""
    return {
        "name": column.name,
        "label": column.label,
        "field": column.name,
        "sortable": column.sort is not None,
        "align": "right" if column.right else "left",
        "classes": f"{small} {unbroken}".strip(),
        "headerClasses": small,
    }


def key_label(key: str) -> str:
    """A time key for people."""
    return key or "(default)"
