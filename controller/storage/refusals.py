"""Why a store cannot be served, and what the operator can do about each reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from strandline.errors import NOT_INSTALLED, Declared
from strandline.redaction import redact

if TYPE_CHECKING:
    from sqlalchemy import URL  # which takes long, and commands show refusals without it

TABLES_SHOWN: Final = 5  # in the message that a database is not Strandline's


def shown(url: URL) -> str:
    """The URL without its password, also where the password is a parameter."""
    return redact(url.render_as_string(hide_password=True))


class StoreRefused(Declared):
    """The store cannot be used, for a reason that the operator can remove."""


class AlreadyServed(StoreRefused):
    """Another controller serves this store; only one may."""

    says = "another controller is serving {store}: stop it first, or name another store with --database"
    store: str


class BadDatabaseUrl(StoreRefused):
    """The database URL is not supported."""

    says = (
        "{url!r} is not a supported database: use sqlite:///path/to/file.db, the path of a file, or "
        "postgresql://user@host:port/name, in UTF-8"
    )
    url: str

    def __post_init__(self) -> None:
        self.url = redact(self.url)  # it may hold a password, even if it cannot be parsed


class DriverMissing(StoreRefused):
    """The Python package for the database is not installed."""

    says = "this database needs {package}, which is " + NOT_INSTALLED
    package: str
    extra: str


class NoStore(StoreRefused):
    """There is no store yet."""

    says = "there is no store at {store}: with --database, name the store that the controller serves"
    store: str


class StoreAway(StoreRefused):
    """The database could not be opened."""

    says = "{store} cannot be opened ({reason}): check --database, and that the database is there"
    store: str
    reason: str


class NotKnown(StoreRefused):
    """COMMIT was sent to the store, and its outcome is unknown."""

    says = "it is not known whether {store} has changed ({reason}): check it before you try again"
    store: str
    reason: str


class UnusableFile(StoreRefused):
    """A file cannot be used as a store, or as the target of a backup."""

    says = "{path} cannot be used: {reason}; {advice}"
    path: str
    reason: str
    advice: str


class ForeignStore(StoreRefused):
    """The database has the tables of another application."""

    store: str
    tables: Sequence[str]

    @property
    def detail(self) -> str:
        named = ", ".join(self.tables[:TABLES_SHOWN]) + (" …" if len(self.tables) > TABLES_SHOWN else "")
        return (
            f"{self.store} is a database of another application (its tables: {named}): "
            f"with --database, name a Strandline store or a new database"
        )


class WrongSchema(StoreRefused):
    """The store's schema is not the one of this version."""

    found: str | None
    wanted: str

    @property
    def detail(self) -> str:
        if self.found is not None and self.found > self.wanted:
            return (
                f"the store's schema is {self.found}, and this version can read those up to {self.wanted}: "
                f"use a version as new as the one that migrated the store"
            )
        return (
            f"the store's schema is {self.found or 'not Strandline’s'}, this version needs {self.wanted}: run "
            f"`strandline migrate` with the same --database"
        )


class IsBackup(StoreRefused):
    """The file is a backup, which cannot be served."""

    says = "{path} is a backup: make a store from it with `strandline restore {path} --database NEW`"
    path: str


class InTheWay(StoreRefused):
    """The target of a backup or of a restore exists already."""

    says = "{what} exists already, and is not overwritten: move it away, or name another"
    what: str


class LeftBehind(StoreRefused):
    """Beside a file that is to be made, a store or a backup, is what SQLite wrote for an earlier one of that name."""

    says = (
        "{left} belongs to an earlier {path}, and beside a new one SQLite would apply or remove it: move it to where "
        "that file went, under that file's name, or remove it"
    )
    path: str
    left: str


class UnderWay(StoreRefused):
    """Another backup or restore makes the same file."""

    says = "another backup or restore is making {path}: wait for its end, or name another file"
    path: str


class NoBackup(StoreRefused):
    """A file cannot be used as a backup."""

    says = "{path} is not a usable backup ({reason}): name a file that `strandline backup` wrote"
    path: str
    reason: str


class ProgramMissing(StoreRefused):
    """A client program of PostgreSQL is not installed."""

    says = "{program} is not installed, or not on the PATH: {install}"
    program: str
    install: str


class ProgramFailed(StoreRefused):
    """A client program of PostgreSQL failed."""

    program: str
    lines: Sequence[str]

    @property
    def detail(self) -> str:
        return f"{self.program} failed: {' '.join(self.lines[-3:]) or 'it gave no reason'}"
