"""The page of the tokens: what callers may do, until when, and when they were last here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.responses import RedirectResponse
from nicegui import ui

from controller.controller import Controller
from controller.dashboard.actions import Acts
from controller.dashboard.dialogs import ask
from controller.dashboard.frame import TOKENS, Refresh, frame
from controller.dashboard.limits import TOKENS_READ_MS
from controller.dashboard.tables import STATE, Column, PagedTable
from controller.dashboard.visitors import Visitor, to_sign_in, visitor
from controller.dashboard.widgets import heading, not_allowed
from controller.format import NOTHING, Times
from controller.storage.tokens import StoredToken, TokenState
from strandline.access import Role
from strandline.errors import StrandlineError

_REVOKE: Final = """<q-btn v-if="props.row.may_revoke" label="Revoke" flat dense no-caps no-wrap color="negative"
style="overflow-wrap: normal"
:aria-label="'Revoke ' + props.row.name" @click="$emit('act', props.row.name)"></q-btn>"""
_WORD: Final = '<span style="white-space: nowrap">%s</span>'  # beside long names and patterns too
_COLOURS: Final = {"valid": "sl-good", "expired": "sl-warn", "revoked": "sl-soft"}


def add(app: FastAPI) -> None:
    @ui.page(TOKENS)
    async def page(request: Request) -> RedirectResponse | None:
        who = visitor(request)
        if who is None:
            return to_sign_in(request)
        with frame(request, who, "Tokens"):
            try:
                who.check_tokens("see the tokens")
            except StrandlineError as error:
                not_allowed(error)
                return None
            view = TokensPage(app.state.controller, who, Acts(app, who))
            refresh = Refresh(view.update)
            view.build()
        await refresh.first()
        return None


class TokensPage:
    """The page of one visitor."""

    def __init__(self, controller: Controller, who: Visitor, acts: Acts) -> None:
        self._controller = controller
        self._who = who
        self._acts = acts
        self._state: TokenState | None = None
        self._read_at: int | None = None
        self._found: Sequence[StoredToken] = ()

    def build(self) -> None:
        with ui.column().classes("sl-card"):
            heading("Tokens", level=1)
            if self._who.may_manage_tokens:
                create = ui.button("Create a token", icon="add", on_click=self._ask_create)
                create.props("flat no-caps dense").classes("sl-corner")
            self._none = ui.label(
                "Nobody needs a token here. The first one is made where the store is, with `strandline token create`: "
                "from then on nobody gets in without."
            ).classes("sl-soft")
            self._table = PagedTable(
                self._columns(), noun="tokens", row=self._row, text=lambda each: each.grant.name, act=self._ask_revoke
            )

    async def update(self) -> None:
        self._who.check_tokens("see the tokens")
        tokens, now = self._controller.tokens, self._controller.clock.now()
        if self._read_at is None or tokens.state != self._state or now - self._read_at >= TOKENS_READ_MS:
            self._state, self._read_at = tokens.state, now
            self._found = await tokens.stored()
        self._none.set_visibility(not self._found)
        self._table.show(self._found)

    def _columns(self) -> list[Column[StoredToken]]:
        columns: list[Column[StoredToken]] = [
            Column("name", "Name", sort=lambda each: each.grant.name),
            Column("state", "State", sort=self._state_of, html=_WORD % STATE),
            Column("role", "Role", sort=lambda each: str(each.grant.role), html=_WORD % "{{ props.row.role }}"),
            Column("pattern", "Streams", sort=lambda each: each.grant.pattern),
            Column("writers", "Writers", essential=False),
            Column("created", "Created", sort=lambda each: each.created_at, essential=False),
            Column("expires", "Expires", sort=lambda each: each.grant.expires_at, essential=False),
            Column("used", "Last used", sort=lambda each: each.last_used_at, essential=False),
        ]
        return [*columns, Column("act", "Action", html=_REVOKE)] if self._who.may_manage_tokens else columns

    def _state_of(self, each: StoredToken) -> str:
        return each.state(self._controller.clock.now())

    def _row(self, each: StoredToken) -> dict[str, Any]:
        grant, state = each.grant, self._state_of(each)
        return {
            "id": grant.name,
            "name": grant.name,
            "state": state,
            "state_class": _COLOURS[state],
            "role": str(grant.role),
            "pattern": grant.pattern,
            "writers": grant.writers if grant.role is Role.WRITER else NOTHING,
            "created": Times().show(each.created_at),
            "expires": "never" if grant.expires_at is None else Times().show(grant.expires_at),
            "used": Times().show(each.last_used_at),
            "may_revoke": state == "valid",
        }

    async def _ask_create(self) -> None:
        await ask(self._acts.create_token(self._controller.tokens, self._controller.clock.now()))

    async def _ask_revoke(self, name: str) -> None:
        await ask(self._acts.revoke_token(self._controller.tokens, name))
