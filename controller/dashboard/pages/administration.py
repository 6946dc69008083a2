"""The pages for operators of everything: controllers and tokens."""

from __future__ import annotations

from functools import partial
from typing import Final

from controller.dashboard.pages.page import Page, View
from controller.dashboard.tables import Cell, Column, Table
from controller.operators.wording import NOTHING, Times, controller_state, moment
from controller.storage.tokens import StoredToken
from strandline.access import Role
from strandline.wire.controllers import ControllerReply, ControllerState

_CONTROLLER_COLOURS: Final = {
    ControllerState.SERVING: "good",
    ControllerState.AWAY: "bad",
    ControllerState.ENDED: "soft",
}
_TOKEN_COMMANDS: Final = (
    "strandline token create NAME --role reader --pattern '*' --expires-in 90d\nstrandline token revoke NAME"
)
_TOKEN_COLOURS: Final = {"valid": "good", "expired": "warn", "revoked": "soft"}


async def controllers_page(view: View) -> Page:
    view.who.check_every_stream()
    found = await view.controller.controllers()
    when = partial(moment, now=view.now)

    def state(each: ControllerReply) -> Cell:
        return Cell(controller_state(each, found.at), colour=f"{_CONTROLLER_COLOURS[each.state]} strong")

    columns: list[Column[ControllerReply]] = [
        Column("name", "Controller", lambda each: each.name),
        Column("state", "State", lambda each: each.state, cell=state),
        Column("since", "Since", lambda each: each.since, when, essential=False),
        Column("seen", "Last seen", lambda each: each.seen_at, when),
        Column("version", "Version", lambda each: each.version, essential=False),
    ]
    table = Table(view.address, "controllers", columns, found.controllers, id=lambda each: each.name)
    return Page("controllers.html", "Controllers", {"controllers": table})


async def tokens_page(view: View) -> Page:
    view.who.check_tokens()
    now = view.now

    def state(each: StoredToken) -> Cell:
        found = each.state(now)
        return Cell(found, colour=f"{_TOKEN_COLOURS[found]} strong")

    def expires(each: StoredToken) -> str:
        return "never" if each.grant.expires_at is None else Times().show(each.grant.expires_at)

    def writers(each: StoredToken) -> str:
        return each.grant.writers if each.grant.role is Role.WRITER else NOTHING

    columns: list[Column[StoredToken]] = [
        Column("name", "Name", lambda each: each.grant.name),
        Column("state", "State", lambda each: each.state(now), cell=state),
        Column("role", "Role", lambda each: str(each.grant.role)),
        Column("pattern", "Streams", lambda each: each.grant.pattern),
        Column("writers", "Writers", None, cell=writers, essential=False),
        Column("created", "Created", lambda each: each.created_at, Times().show, essential=False),
        Column("expires", "Expires", lambda each: each.grant.expires_at, cell=expires, essential=False),
        Column("used", "Last used", lambda each: each.last_used_at, Times().show, essential=False),
    ]
    table = Table(view.address, "tokens", columns, await view.history.tokens(), id=lambda each: each.grant.name)
    return Page("tokens.html", "Tokens", {"tokens": table, "commands": _TOKEN_COMMANDS})
