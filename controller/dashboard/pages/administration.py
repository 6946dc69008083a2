"""The pages for operators of everything: controllers and tokens."""

from __future__ import annotations

from typing import Final

from controller.dashboard.pages.page import Page, View
from controller.dashboard.tables import Button, Cell, Column, Table
from controller.dashboard.words import spoken
from controller.storage.tokens import StoredToken
from controller.wording import NOTHING, Times, moment, span
from strandline.access import Role
from strandline.wire.controllers import ControllerReply, ControllerState

_CONTROLLER_COLOURS: Final = {
    ControllerState.LIVE: "good",
    ControllerState.DRAINING: "warn",
    ControllerState.NO_LEASE: "bad",
    ControllerState.LOST: "bad",
    ControllerState.ENDED: "soft",
}
_TOKEN_COLOURS: Final = {"valid": "good", "expired": "warn", "revoked": "soft"}


async def controllers_page(view: View) -> Page:
    view.who.check_every_stream()
    found = view.controller.controllers()
    alone = "One controller serves this store, alone."
    several = f"As {found.asked} sees them. Each serves the streams and reader groups of its shards."

    def state(each: ControllerReply) -> Cell:
        return Cell(spoken(each.state), colour=f"{_CONTROLLER_COLOURS[each.state]} strong")

    def beat(each: ControllerReply) -> str:
        return NOTHING if each.beat_age_ms is None else f"{span(each.beat_age_ms)} ago"

    def shards(each: ControllerReply) -> int | None:
        return each.shards

    def drain(each: ControllerReply) -> Cell:
        if each.name is None or each.state is not ControllerState.LIVE:
            return Cell("")
        return Cell("", button=Button("Drain", f"/acts/drain?controller={each.name}", f"Drain {each.name}"))

    columns: list[Column[ControllerReply]] = [
        Column("name", "Name", lambda each: each.name or "this one", sort=lambda each: each.name),
        Column("state", "State", state, sort=lambda each: each.state),
        Column("since", "Since", lambda each: moment(each.since, view.now), lambda each: each.since, essential=False),
        Column("shards", "Shards", lambda each: NOTHING if each.shards is None else each.shards, shards, right=True),
        Column("beat", "Last beat", beat, sort=lambda each: each.beat_age_ms, right=True),
        Column("version", "Version", lambda each: each.version, sort=lambda each: each.version, essential=False),
        Column(
            "address", "Address", lambda each: each.address or NOTHING, lambda e: e.address or None, essential=False
        ),
    ]
    if view.who.may_act:
        columns.append(Column("act", "", drain))
    name = lambda each: each.name or "this"  # noqa: E731  # of a row
    table = Table(view.address, "controllers", columns, found.controllers, id=name, text=name)
    shows = {"seen_by": alone if found.asked is None else several, "controllers": table}
    return Page("controllers.html", "Controllers", shows, [table])


async def tokens_page(view: View) -> Page:
    view.who.check_tokens("see the tokens")
    now = view.now

    def state(each: StoredToken) -> Cell:
        found = each.state(now)
        return Cell(found, colour=f"{_TOKEN_COLOURS[found]} strong")

    def expires(each: StoredToken) -> str:
        return "never" if each.grant.expires_at is None else Times().show(each.grant.expires_at)

    def writers(each: StoredToken) -> str:
        return each.grant.writers if each.grant.role is Role.WRITER else NOTHING

    def revoke(each: StoredToken) -> Cell:
        if each.state(now) != "valid":
            return Cell("")
        name = each.grant.name
        return Cell("", button=Button("Revoke", f"/acts/revoke-token?name={name}", f"Revoke {name}"))

    columns: list[Column[StoredToken]] = [
        Column("name", "Name", lambda each: each.grant.name, sort=lambda each: each.grant.name),
        Column("state", "State", state, sort=lambda each: each.state(now)),
        Column("role", "Role", lambda each: str(each.grant.role), sort=lambda each: str(each.grant.role)),
        Column("pattern", "Streams", lambda each: each.grant.pattern, sort=lambda each: each.grant.pattern),
        Column("writers", "Writers", writers, essential=False),
        Column("created", "Created", lambda each: Times().show(each.created_at), lambda e: e.created_at, False, False),
        Column("expires", "Expires", expires, sort=lambda each: each.grant.expires_at, essential=False),
        Column("used", "Last used", lambda e: Times().show(e.last_used_at), lambda e: e.last_used_at, essential=False),
        Column("act", "", revoke),
    ]
    items, name = await view.history.tokens(), lambda each: each.grant.name  # of a row
    table = Table(view.address, "tokens", columns, items, id=name, text=name)
    return Page("tokens.html", "Tokens", {"tokens": table}, [table])
