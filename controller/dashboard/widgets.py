"""The parts of pages: cards, tiles, and what an empty page shows."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from nicegui import ui

from controller.dashboard.visitors import Visitor
from controller.format import NOTHING
from strandline.errors import StrandlineError

SMALL: Final = "outline no-caps dense padding='4px 12px'"  # a button at the top of a page
BADGE_COLOURS: Final = {"sl-bad": "negative", "sl-warn": "warning", "sl-good": "positive"}


def heading(text: str, level: int = 2) -> ui.label:
    return ui.label(text).classes("sl-title" if level == 1 else "sl-h").props(f"role=heading aria-level={level}")


@contextmanager
def card(title: str) -> Iterator[ui.column]:
    """A section of a page with a heading."""
    with ui.column().classes("sl-card") as column:
        heading(title)
        yield column


class Tile:
    """A number or a few words, with a name below."""

    def __init__(self, name: str, *, large: bool = False) -> None:
        with ui.column().classes("sl-card sl-tile"):
            self._text = ui.label(NOTHING).classes("sl-number" if large else "sl-fact")
            ui.label(name).classes("sl-soft")
            self._more = ui.label().classes("sl-soft")
            self._more.set_visibility(False)
        self._colour = ""

    def show(self, text: str, colour: str = "", more: str = "") -> None:
        """`colour` is a class; `more` is shown in small print."""
        self._text.set_text(text)
        self._more.set_text(more)
        self._more.set_visibility(bool(more))
        if colour != self._colour:
            self._text.classes(remove=self._colour, add=colour)
            self._colour = colour


def tiles(*names: str, large: bool = False) -> dict[str, Tile]:
    """A row of tiles, by name."""
    with ui.element("div").classes("sl-tiles"):
        return {name: Tile(name, large=large) for name in names}


def menu(name: str, acts: Mapping[str, Callable[[], Awaitable[object]]]) -> None:
    """A button with a menu of what is seldom done."""
    with ui.button(name, icon="more_vert").props(SMALL):
        menu_of(acts)


def menu_of(acts: Mapping[str, Callable[[], object]]) -> None:
    """The menu of the button around it. Screen readers are told of a list unless the items say what they are."""
    with ui.menu():
        for text, act in acts.items():
            ui.menu_item(text, act).props("role=menuitem")


def served_by() -> ui.label:
    """Which controller serves what the page is about; hidden where there is one."""
    label = ui.label().classes("sl-soft")
    label.set_visibility(False)
    return label


def show_server(label: ui.label, controller: str | None) -> None:
    label.set_text(f"served by {controller}")
    label.set_visibility(controller is not None)


def gone(error: StrandlineError) -> None:
    """Shows that a stream, a writer or a group does not exist, or is not for this visitor; the answer has the error's
    status."""
    ui.context.client.status_code = error.status
    with ui.column().classes("sl-card"):
        heading("Not here", level=1)
        ui.label(str(error))
        ui.link("To the overview", "/").classes("sl-link")


def not_allowed(error: StrandlineError) -> None:
    """Shows that a page is not for this visitor's token."""
    ui.context.client.status_code = error.status
    with ui.column().classes("sl-card"):
        heading("Not for this token", level=1)
        ui.label(str(error))


def curl(who: Visitor, method: str, url: str, body: Any) -> str:
    """A call of the API, as a command to copy."""
    token = ' -H "authorization: Bearer $STRANDLINE_TOKEN"' if who.name is not None else ""
    return f"curl -X {method} {url}{token} -H 'content-type: application/json' -d '{json.dumps(body)}'"


def empty_state(icon: str, text: str, command: str | None = None) -> ui.column:
    """Shows what to do when there is nothing yet, with a command to copy."""
    with ui.column().classes("items-center full-width").style("padding: 28px 8px; gap: 10px") as column:
        ui.icon(icon, size="36px").classes("sl-soft")
        ui.label(text).classes("text-center")
        if command is not None:
            code(command, "Copy the command")
    return column


def code(text: str, copy: str) -> None:
    """A text to copy, with a button whose label is `copy`."""
    with ui.row().classes("items-start no-wrap full-width").style("max-width: 760px"):
        ui.label(text).classes("sl-code")
        ui.button(icon="content_copy", on_click=lambda: _copy(text)).props(
            f'flat round dense color=secondary aria-label="{copy}"'
        )


def _copy(text: str) -> None:
    ui.clipboard.write(text)
    ui.notify("copied", timeout=1000)
