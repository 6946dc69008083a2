"""Tokens as rows: of a token the store has the SHA-256 and nothing else that would let anybody call.

Rows are only ever added, and marked as revoked. So two counts tell whether anything changed, and a store in which a
token was made once goes on asking for one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import URL, Connection, Engine, Row, func, insert, or_, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from controller.limits import TOKENS
from controller.storage import upgrade
from controller.storage.database import away, exists, parse_url, shown
from controller.storage.postgresql import sharing_engine
from controller.storage.refusals import NoStore, NotKnown, StoreRefused
from controller.storage.schema import token as table
from controller.storage.sqlite import sqlite_engine
from controller.storage.transaction import CommitUnknown, transaction
from strandline.access import EVERYTHING, Grant, Role


class TokenState(NamedTuple):
    """How many tokens were ever made, and how many of them were revoked."""

    made: int = 0
    revoked: int = 0


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token as the store has it."""

    grant: Grant
    created_at: int
    revoked_at: int | None
    last_used_at: int | None


class TokenRefused(StoreRefused):
    """A token cannot be made or revoked; the sentence says why, and what would be right."""


def digest_of(token: bytes) -> str:
    """What the store has of a token. It has 256 random bits, so there is nothing to salt or to stretch."""
    return hashlib.sha256(token).hexdigest()


def changed_tokens(connection: Connection, known: TokenState | None) -> tuple[TokenState, dict[str, Grant]] | None:
    """The state of the tokens and those that were not revoked, by digest; None where the state is the known one."""
    with connection.begin():
        state = _state(connection)
        if state == known:
            return None
        rows = connection.execute(select(table).where(table.c.revoked_at.is_(None))).all()
    return state, {row.digest: _grant(row) for row in rows}


def note_use(connection: Connection, names: Iterable[str], now: int) -> None:
    """Keeps that these tokens were used by then."""
    older = or_(table.c.last_used_at.is_(None), table.c.last_used_at < now)
    with transaction(connection):
        connection.execute(update(table).where(table.c.name.in_(list(names)), older).values(last_used_at=now))


# -- for the command line, beside a controller that may be serving -----------------------------------------------


@contextmanager
def open_tokens(url: str, *, make: bool = False) -> Iterator[Connection]:
    """A connection to a store, in one transaction that may write. `make`: an empty store gets its schema.

    It takes no lock away from a controller that serves the store. Raises StoreRefused: BadDatabaseUrl, NoStore,
    WrongSchema, DriverMissing, StoreAway, and NotKnown.
    """
    parsed = parse_url(url)
    if not make and not exists(parsed):
        raise NoStore(shown(parsed))
    engine = _engine(parsed)
    try:
        with engine.connect() as connection, transaction(connection):
            upgrade.check_ours(connection, shown(parsed))
            if make and upgrade.is_empty(connection):
                upgrade.make(connection)
            upgrade.check(connection)
            yield connection
    except DBAPIError as error:
        raise away(parsed, error) from error
    except CommitUnknown as error:
        raise NotKnown(shown(parsed), error.reason) from error
    finally:
        engine.dispose()


def has_tokens(url: str) -> bool:
    """Whether a token was ever made; raises what `open_tokens` does, but for a store that is not there."""
    if not exists(parse_url(url)):
        return False
    with open_tokens(url) as connection:
        return _state(connection).made > 0


def list_tokens(connection: Connection) -> list[StoredToken]:
    """All of them, by name."""
    rows = connection.execute(select(table).order_by(table.c.name)).all()
    return [StoredToken(_grant(row), row.created_at, row.revoked_at, row.last_used_at) for row in rows]


def add_token(connection: Connection, grant: Grant, digest: str, now: int) -> None:
    """Raises TokenRefused where the name is taken, also by a token that was revoked, or where there are too many."""
    made, revoked = _state(connection)
    if made - revoked >= TOKENS:
        raise TokenRefused(f"there are {made - revoked} tokens already, and no more than {TOKENS} can be: revoke some")
    writers = None if grant.writers == EVERYTHING else grant.writers
    values = {"name": grant.name, "digest": digest, "role": str(grant.role), "pattern": grant.pattern}
    try:
        with connection.begin_nested():
            row = insert(table).values(**values, writers=writers, created_at=now, expires_at=grant.expires_at)
            connection.execute(row)
    except IntegrityError:
        raise TokenRefused(
            f"there is a token {grant.name!r} already, or was: a name says for good whose call it was; take another one"
        ) from None


def revoke_token(connection: Connection, name: str, now: int) -> bool:
    """Revokes a token; False where that was done before. Raises TokenRefused for a name that is not there."""
    valid = update(table).where(table.c.name == name, table.c.revoked_at.is_(None))
    done = connection.execute(valid.values(revoked_at=now))
    if done.rowcount:
        return True
    if connection.execute(select(table.c.name).where(table.c.name == name)).one_or_none() is None:
        raise TokenRefused(f"there is no token {name!r}: `strandline token list` shows those that there are")
    return False


def _state(connection: Connection) -> TokenState:
    return TokenState(*connection.execute(select(func.count(), func.count(table.c.revoked_at))).one())


def _grant(row: Row[tuple[object, ...]]) -> Grant:
    writers = EVERYTHING if row.writers is None else row.writers
    return Grant(name=row.name, role=Role(row.role), pattern=row.pattern, writers=writers, expires_at=row.expires_at)


def _engine(url: URL) -> Engine:
    if url.get_backend_name() == "sqlite":
        return sqlite_engine(url, writing_at_once=True)
    return sharing_engine(url)
