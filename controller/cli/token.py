"""`strandline token`."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from controller.cli.options import confirm, duration, json_option, name_of, option, reading, yes_option
from controller.cli.screen import Output, listing, prints
from controller.cli.store import database_option, store_failures
from controller.operators.wording import NOTHING, Times, indented
from controller.terminal import Failure, remark, say
from strandline.access import EVERYTHING, Grant, Role, check_pattern
from strandline.errors import InvalidConfig

if TYPE_CHECKING:
    from controller.storage.tokens import StoredToken

REFUSED_FROM_NOW: Final = "within a second controllers of this store refuse every caller without a token"
TOKEN_DEADLINE_S: Final = 30  # a command that makes, lists or revokes tokens

Result = TypeVar("Result")

LONGEST_MS: Final = 36_500 * 86_400_000


def in_time(action: Callable[..., Result]) -> Callable[..., Result]:
    """Gives up on a store that does not answer."""

    @wraps(action)
    def run(**options: object) -> Result:
        with store_failures():
            from controller.storage.diagnosis import StoreSilent
            from controller.storage.worker import within

            try:
                return within(TOKEN_DEADLINE_S, lambda: action(**options))
            except StoreSilent as silent:
                raise Failure(f"{silent}: check that it runs, and --database") from None

    return run


@click.group
def command() -> None:
    """Make, list and revoke the tokens that callers show.

    It works on the store itself, also while a controller serves it: from the first token on that one lets nobody in
    without, and a change is in effect within a second.
    """


@command.command
@click.argument("name", type=name_of("token"), help="whose it is: the journal names it with what it was used for")
@option("--role", type=click.Choice([role.value for role in Role]), required=True, help="what the caller may do")
@option(
    "--pattern",
    "--streams",
    type=reading(check_pattern),
    default="*",
    metavar="PATTERN",
    help="the streams it is for; * stands for any characters",
)
@option(
    "--writer",
    "writers",
    type=reading(partial(check_pattern, name="writers")),
    metavar="PATTERN",
    help="the writers that a writer's token speaks for, as 'till-7*'; without it, every one",
)
@option(
    "--expires-in",
    type=duration(LONGEST_MS, least_ms=3_600_000),
    metavar="SPAN",
    help="how long it is good: 12h or 90d from now on; without it, for good",
)
@database_option
@yes_option
@json_option
def create(database: str, yes: bool, **given: Any) -> None:
    """Make a token and print it. Nobody can print it again: the store keeps its SHA-256 alone.

    With the first one, callers without a token are refused from then on: it asks first at a terminal.
    """
    if _is_first(database=database):
        confirm(f"This is the first token: {REFUSED_FROM_NOW}. Make it?", yes=yes)
        _make(database=database, **given)
        remark(f"this is the first token: {REFUSED_FROM_NOW}")
    else:
        _make(database=database, **given)


@in_time
def _is_first(database: str) -> bool:
    """Whether no token was ever made. A store that cannot be used refuses the token itself."""
    from controller.storage.refusals import StoreRefused
    from controller.storage.tokens import has_tokens

    try:
        return not has_tokens(database)
    except StoreRefused:
        return True  # it may be empty


@in_time
def _make(
    name: str, role: str, pattern: str, writers: str | None, expires_in: int | None, database: str, as_json: bool
) -> None:
    from controller.storage.tokens import add_token, digest_of, new_token, open_tokens

    now = _now()
    try:
        grant = Grant(
            name=name,
            role=Role(role),
            pattern=pattern,
            writers=EVERYTHING if writers is None else writers,
            expires_at=None if expires_in is None else now + expires_in,
        )
    except InvalidConfig as error:
        raise Failure(str(error)) from None
    token = new_token()
    with open_tokens(database, make=True) as connection:
        add_token(connection, grant, digest_of(token.encode()), now)
    if as_json:
        say(indented({**_grant_json(grant), "created_at": now, "token": token}))
        return
    bound = "" if writers is None else f", bound to the writers {writers}"
    until = "" if grant.expires_at is None else f", until {Times().show(grant.expires_at)}"
    remark(f"{name}: {role} of {pattern}{bound}{until}; keep the token, it is not shown again")
    say(token)


@command.command("list")
@database_option
@prints
@in_time
def list_(database: str, output: Output) -> None:
    """Show the tokens: whose they are, what they are for, and when they were used last, to within a minute."""
    from controller.storage.tokens import list_tokens, open_tokens

    with open_tokens(database) as connection:
        found = list_tokens(connection)
    now = _now()
    header = ("name", "role", "pattern", "writers", "state", "created", "expires", "last used")
    none = "there is no token: who reaches the controller may call"
    output.show(
        {"tokens": [_token_json(each, now) for each in found]},
        lambda: listing(header, [_row(each, now, output.times) for each in found], none=none),
    )


@command.command
@click.argument("name", type=name_of("token"), help="the token's name")
@database_option
@yes_option
@json_option
def revoke(name: str, database: str, yes: bool, as_json: bool) -> None:
    """Revoke a token: within a second no controller of the store lets anybody in with it. Its name stays taken.

    It asks first at a terminal. A script is not asked: who revokes a token in a hurry must not be stopped.
    """
    confirm(f"Revoke {name}? Nobody gets in with it again, and its name stays taken.", yes=yes)
    revoked = _revoke(name=name, database=database)
    if as_json:
        say(indented({"name": name, "revoked": True}))
    else:
        say(f"{name} {'is revoked' if revoked else 'was revoked before'}")


@in_time
def _revoke(name: str, database: str) -> bool:
    from controller.storage.tokens import open_tokens, revoke_token

    with open_tokens(database) as connection:
        return revoke_token(connection, name, _now())


def _row(token: StoredToken, now: int, times: Times) -> tuple[str, ...]:
    return (
        token.grant.name,
        str(token.grant.role),
        token.grant.pattern,
        token.grant.writers if token.grant.role is Role.WRITER else NOTHING,
        token.state(now),
        times.show(token.created_at),
        times.show(token.grant.expires_at),
        times.show(token.last_used_at),
    )


def _now() -> int:
    return time.time_ns() // 1_000_000


def _grant_json(grant: Grant) -> dict[str, Any]:
    values = {"name": grant.name, "role": grant.role, "pattern": grant.pattern, "writers": grant.writers}
    return {**values, "expires_at": grant.expires_at}


def _token_json(token: StoredToken, now: int) -> dict[str, Any]:
    times = {"created_at": token.created_at, "revoked_at": token.revoked_at, "last_used_at": token.last_used_at}
    return {**_grant_json(token.grant), "state": token.state(now), **times}
