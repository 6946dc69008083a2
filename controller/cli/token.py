"""Make, list and revoke the tokens that callers show. It works on the store itself, also while a controller serves it:
from the first token on that one lets nobody in without, and a change is in effect within a second.
"""

from __future__ import annotations

import argparse
import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from controller.cli.arguments import add_json, add_optional, name_of
from controller.cli.options import add_flag, add_option
from controller.terminal import Failure, say

if TYPE_CHECKING:
    from controller.storage.session import StoreConnection
    from controller.storage.tokens import StoredToken
    from strandline.access import Grant

HELP = "make, list and revoke the tokens that callers show"
TOKEN_BYTES = 32
DAY_MS = 86_400_000
LONGEST_DAYS = 36_500


def add_options(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="action", required=True)
    create = actions.add_parser("create", help="make a token, and print it this once", description=_create.__doc__)
    create.add_argument("name", type=name_of("token"), help="whose it is: the journal tells it of what it was used for")
    role = add_optional(create, "role", _checked("role"), "writer, reader or admin", "ROLE")
    role.required = "STRANDLINE_ROLE" not in os.environ
    add_option(create, "pattern", _checked("pattern"), "*", "the streams it is for; * stands for any characters")
    bound = "the writers that a writer's token speaks for, as 'till-7*'; without it, every one"
    add_optional(create, "writer", _checked("writers"), bound, "PATTERN")
    add_optional(create, "expires-in", _span, "until when it is good: 12h or 90d from now on; else for good", "SPAN")
    revoke = actions.add_parser("revoke", help="let nobody in with a token any more", description=_revoke.__doc__)
    revoke.add_argument("name", type=name_of("token"), help="which")
    listed = actions.add_parser("list", help="show the tokens that there are", description=_list.__doc__)
    for each, run in ((create, _create), (revoke, _revoke), (listed, _list)):
        _add_database(each)
        add_json(each)
        each.set_defaults(act=run)
    add_flag(listed, "plain-times", "show every time as a number, and none as a date")


def run(options: argparse.Namespace) -> int:
    act: Callable[[argparse.Namespace], None] = options.act
    try:
        from controller.limits import TOKEN_DEADLINE_S
        from controller.storage.diagnosis import StoreSilent
        from controller.storage.worker import within
    except ModuleNotFoundError as missing:
        raise Failure(f"{missing.name} is not installed: pip install 'strandline[controller]'") from None
    try:
        within(TOKEN_DEADLINE_S, lambda: act(options))
    except StoreSilent as silent:
        raise Failure(f"{silent}: check that it runs, and --database") from None
    return 0


def _create(options: argparse.Namespace) -> None:
    """Make a token and print it. Nobody can print it again: the store keeps its SHA-256 alone."""
    from controller.format import indented
    from controller.storage.tokens import add_token, digest_of
    from strandline.access import EVERYTHING, Grant, Role
    from strandline.errors import InvalidConfig
    from strandline.redaction import TOKEN_PREFIX

    now = _now()
    expires_at = None if options.expires_in is None else now + options.expires_in
    writers = EVERYTHING if options.writer is None else options.writer
    try:
        role = Role(options.role)
        grant = Grant(name=options.name, role=role, pattern=options.pattern, writers=writers, expires_at=expires_at)
    except InvalidConfig as error:
        raise Failure(str(error)) from None
    token = TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)
    with _store(options, make=True) as connection:
        add_token(connection, grant, digest_of(token.encode()), now)
    if options.json:
        say(indented({**_grant_json(grant), "created_at": now, "token": token}))
        return
    bound = "" if options.writer is None else f", bound to the writers {grant.writers}"
    sys.stderr.write(f"{grant.name}: {grant.role} of {grant.pattern}{bound}; keep the token, it is not shown again\n")
    say(token)


def _list(options: argparse.Namespace) -> None:
    """Show the tokens: whose they are, what they are for, and when they were used last, to within a minute."""
    from controller.format import NOTHING, Times, indented, table
    from controller.storage.tokens import list_tokens
    from strandline.access import Role

    with _store(options) as connection:
        found = list_tokens(connection)
    now, times = _now(), Times(options.plain_times)
    if options.json:
        say(indented({"tokens": [_token_json(each, now) for each in found]}))
    elif found:
        header = ("name", "role", "pattern", "writers", "state", "created", "expires", "last used")
        rows = [
            (
                each.grant.name,
                str(each.grant.role),
                each.grant.pattern,
                each.grant.writers if each.grant.role is Role.WRITER else NOTHING,
                _state(each, now),
                times.show(each.created_at),
                times.show(each.grant.expires_at),
                times.show(each.last_used_at),
            )
            for each in found
        ]
        say("\n".join(table(header, rows)))
    else:
        say("there is no token: who reaches the controller may call")


def _revoke(options: argparse.Namespace) -> None:
    """Revoke a token: within a second no controller of the store lets anybody in with it. Its name stays taken."""
    from controller.format import indented
    from controller.storage.tokens import revoke_token

    with _store(options) as connection:
        revoked = revoke_token(connection, options.name, _now())
    if options.json:
        say(indented({"name": options.name, "revoked": True}))
    else:
        say(f"{options.name} {'is revoked' if revoked else 'was revoked before'}")


@contextmanager
def _store(options: argparse.Namespace, *, make: bool = False) -> Iterator[StoreConnection]:
    from controller.storage.refusals import StoreRefused
    from controller.storage.tokens import open_tokens

    try:
        with open_tokens(options.database, make=make) as connection:
            yield connection
    except StoreRefused as refused:
        raise Failure(str(refused)) from None


def _add_database(parser: argparse.ArgumentParser) -> None:
    from controller.settings import DATABASE_DEFAULT

    wanted = "the store: a path, sqlite:///path, or postgresql://user@host/name"
    add_option(parser, "database", str, DATABASE_DEFAULT, wanted, "URL")


def _checked(what: str) -> Callable[[str], str]:
    """Reads a role, or a pattern of streams or writers."""

    def read(text: str) -> str:
        from strandline.access import check_pattern, check_role
        from strandline.errors import InvalidConfig

        try:
            return check_role(text) if what == "role" else check_pattern(text, what)
        except InvalidConfig as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _span(text: str) -> int:
    """A span as milliseconds."""
    found = re.fullmatch(r"([0-9]{1,6})([hd])", text)
    milliseconds = int(found[1]) * (DAY_MS if found[2] == "d" else DAY_MS // 24) if found is not None else 0
    if not 0 < milliseconds <= LONGEST_DAYS * DAY_MS:
        raise argparse.ArgumentTypeError(f"{text!r} is no span: hours or days, like 12h or 90d, up to {LONGEST_DAYS}d")
    return milliseconds


def _now() -> int:
    return time.time_ns() // 1_000_000


def _state(token: StoredToken, now: int) -> str:
    if token.revoked_at is not None:
        return "revoked"
    return "expired" if token.grant.expires_at is not None and token.grant.expires_at <= now else "valid"


def _grant_json(grant: Grant) -> dict[str, Any]:
    values = {"name": grant.name, "role": grant.role, "pattern": grant.pattern, "writers": grant.writers}
    return {**values, "expires_at": grant.expires_at}


def _token_json(token: StoredToken, now: int) -> dict[str, Any]:
    times = {"created_at": token.created_at, "revoked_at": token.revoked_at, "last_used_at": token.last_used_at}
    return {**_grant_json(token.grant), "state": _state(token, now), **times}
