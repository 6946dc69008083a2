"""Tokens as rows. The store has the SHA-256 of a token, never the token.

Rows are added and marked as revoked, never deleted. Each change gives the store's row in `service` another random
stamp, so whoever has tokens in memory sees whether they are those of the store, also on another history: a fail-over or
a restore may have lost a change. A store that ever had a token keeps requiring one.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection, Row, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from controller.storage import upgrade
from controller.storage.heads import new_stamp
from controller.storage.kinds import kind_of, parse_url
from controller.storage.refusals import NoStore, StoreRefused, shown
from controller.storage.schema import service
from controller.storage.schema import token as table
from controller.storage.transaction import refusing, transaction
from strandline.access import EVERYTHING, Grant, Role
from strandline.redaction import TOKEN_PREFIX

TOKENS: Final = 10_000  # that are not revoked

TOKEN_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token as the store has it."""

    grant: Grant
    created_at: int
    revoked_at: int | None
    last_used_at: int | None

    def state(self, now: int) -> str:
        """`valid`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.grant.expires_at is not None and self.grant.expires_at <= now else "valid"


class TokenRefused(StoreRefused):
    """A token cannot be made or revoked. The reason has what to do."""

    says = "{reason}"
    reason: str


def new_token() -> str:
    """A token that nobody has."""
    return TOKEN_PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def digest_of(token: bytes) -> str:
    """The digest that the store has of a token. A token has 256 random bits, so it needs no salt and no stretching."""
    return hashlib.sha256(token).hexdigest()


def changed_tokens(connection: Connection, known: int | None) -> tuple[int | None, dict[str, Grant]] | None:
    """The stamp of the last change of tokens, None if none was ever made, and the grants of those not revoked by
    digest; nothing at all if the stamp is the known one."""
    with connection.begin():
        stamp = _stamp(connection)
        if stamp == known:
            return None
        rows = connection.execute(select(table).where(table.c.revoked_at.is_(None))).all()
    return stamp, {row.digest: _grant(row) for row in rows}


def note_use(connection: Connection, names: Iterable[str], now: int) -> None:
    """Records that these tokens were used at `now`."""
    older = or_(table.c.last_used_at.is_(None), table.c.last_used_at < now)
    with transaction(connection):
        connection.execute(update(table).where(table.c.name.in_(list(names)), older).values(last_used_at=now))


# -- for the dashboard ---------------------------------------------------------------------------------------------


def stored_tokens(connection: Connection) -> list[StoredToken]:
    """All tokens, sorted by name."""
    with connection.begin():
        return list_tokens(connection)


# -- for the command line, while a controller may be serving -----------------------------------------------------


@contextmanager
def open_tokens(url: str, *, make: bool = False) -> Iterator[Connection]:
    """A connection to a store, in one transaction that may write. With `make`, an empty store gets its schema.

    It does not take the lock of the controller that serves. Raises StoreRefused: BadDatabaseUrl, NoStore, WrongSchema,
    DriverMissing, StoreAway and NotKnown.
    """
    parsed = parse_url(url)
    kind = kind_of(parsed)
    if not make and not kind.exists(parsed):
        raise NoStore(store=shown(parsed))
    with ExitStack() as opened, refusing(parsed):
        engine = kind.beside(parsed)
        opened.callback(engine.dispose)
        with engine.connect() as connection, transaction(connection):
            upgrade.check_ours(connection, shown(parsed))
            if make and upgrade.is_empty(connection):
                upgrade.make(connection)
            upgrade.check(connection)
            yield connection


def has_tokens(url: str) -> bool:
    """Whether a token was ever made; False for a store that does not exist. Raises what `open_tokens` raises."""
    parsed = parse_url(url)
    if not kind_of(parsed).exists(parsed):
        return False
    with open_tokens(url) as connection:
        return _stamp(connection) is not None


def list_tokens(connection: Connection) -> list[StoredToken]:
    """All tokens, sorted by name."""
    rows = connection.execute(select(table).order_by(table.c.name)).all()
    return [StoredToken(_grant(row), row.created_at, row.revoked_at, row.last_used_at) for row in rows]


def add_token(connection: Connection, grant: Grant, digest: str, now: int) -> None:
    """Adds a token. Raises TokenRefused if the name is taken, also by a revoked token, or if there are too many."""
    valid = connection.execute(select(func.count()).where(table.c.revoked_at.is_(None))).scalar_one()
    if valid >= TOKENS:
        raise TokenRefused(reason=f"there are {valid} tokens already, and {TOKENS} is the limit: revoke some")
    writers = None if grant.writers == EVERYTHING else grant.writers
    values = {"name": grant.name, "digest": digest, "role": str(grant.role), "pattern": grant.pattern}
    try:
        with connection.begin_nested():
            row = insert(table).values(**values, writers=writers, created_at=now, expires_at=grant.expires_at)
            connection.execute(row)
    except IntegrityError:
        raise TokenRefused(
            reason=f"the name {grant.name!r} is taken, by a token that exists or was revoked: names are never used "
            f"again, since the journal keeps them; choose another one"
        ) from None
    _change_stamp(connection)


def revoke_token(connection: Connection, name: str, now: int) -> bool:
    """Revokes a token; False if it was revoked before. Raises TokenRefused for an unknown name."""
    valid = update(table).where(table.c.name == name, table.c.revoked_at.is_(None))
    done = connection.execute(valid.values(revoked_at=now))
    if done.rowcount:
        _change_stamp(connection)
        return True
    if connection.execute(select(table.c.name).where(table.c.name == name)).one_or_none() is None:
        raise TokenRefused(reason=f"there is no token {name!r}: `strandline token list` shows all tokens")
    return False


def _stamp(connection: Connection) -> int | None:
    stamp: int | None = connection.execute(select(service.c.tokens)).scalar_one()
    return stamp


def _change_stamp(connection: Connection) -> None:
    connection.execute(update(service).values(tokens=new_stamp()))


def _grant(row: Row[tuple[object, ...]]) -> Grant:
    writers = EVERYTHING if row.writers is None else row.writers
    return Grant(name=row.name, role=Role(row.role), pattern=row.pattern, writers=writers, expires_at=row.expires_at)
