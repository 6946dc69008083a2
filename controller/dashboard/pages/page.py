"""What all pages share: who looks at what, and what a template shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from fastapi import FastAPI

from controller.dashboard.history import History
from controller.dashboard.tables import Address, Cell, Column, Table
from controller.dashboard.visitors import Visitor
from controller.dashboard.words import Word, group_link, group_state, stream_link
from controller.lifecycle import Controller
from controller.operators.overview import GroupsFound
from controller.operators.status_reader import StatusReader
from controller.operators.unread_text import why_unread
from strandline.errors import StreamLoading
from strandline.wire.status import GroupStatus


class Tile(NamedTuple):
    """A number or a few words with a name, and small print, parts of which may be links."""

    name: str
    text: str
    colour: str = ""
    more: str = ""
    links: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Page:
    """A page as its template shows it. `trouble` is what is wrong with its streams, for the title."""

    template: str
    title: str
    shows: Mapping[str, Any]
    trouble: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What pages are made from: a visitor who looks at a controller, and what the address asks for."""

    app: FastAPI
    who: Visitor
    address: Address
    base: str  # the address of the controller as the visitor's browser has it
    history: History
    now: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "now", self.controller.clock.now())

    @property
    def controller(self) -> Controller:
        controller: Controller = self.app.state.controller
        return controller

    @property
    def status(self) -> StatusReader:
        return self.controller.status

    def curl(self, method: str, path: str, body: Any) -> str:
        """A call of the API, as a command to copy."""
        token = ' -H "authorization: Bearer $STRANDLINE_TOKEN"' if self.who.name is not None else ""
        return f"curl -X {method} {self.base}{path}{token} -H 'content-type: application/json' -d '{json.dumps(body)}'"


def word_cell(word: Word, more: str = "", more_colour: str = "soft") -> Cell:
    """A word in its colour, with small print."""
    return Cell(word.text, colour=f"{word.colour} strong", more=more, more_colour=more_colour)


def backlog_cell(status: GroupStatus) -> Cell:
    return word_cell(group_state(status))


class _Unknown(NamedTuple):
    """A stream or a reader group without a status."""

    name: str
    link: str
    what: str
    code: str


def unknown_table(view: View, unread: Mapping[str, str], groups: GroupsFound) -> Table[_Unknown]:
    """What has no status, streams first. A stream that is only not loaded yet will have one in a moment."""
    items = [
        _Unknown(name, stream_link(name), "stream", code)
        for name, code in sorted(unread.items())
        if code != StreamLoading.code
    ]
    items += [
        _Unknown(name, group_link(name), "reader group", each.code) for name, each in sorted(groups.unread.items())
    ]
    columns: list[Column[_Unknown]] = [
        Column("name", "Name", lambda each: each.name, link=lambda each: each.link),
        Column("what", "What", lambda each: each.what, essential=False),
        Column("why", "Why", lambda each: each.code, why_unread),
    ]
    return Table(
        view.address, "unknown", columns, items, id=lambda each: f"{each.what[:1]}-{each.name}",
        text=lambda each: f"{each.name} {each.what} {each.code}", noun="names",
    )  # fmt: skip
