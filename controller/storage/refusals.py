"""Why a store cannot be served, and what the operator can do about each reason."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from strandline.errors import not_installed
from strandline.redaction import redact

if TYPE_CHECKING:
    from sqlalchemy import URL  # which takes long, and commands show refusals without it

STREAMS_NAMED: Final = 10  # in the message that a store's clock cannot be set back
TABLES_SHOWN: Final = 5  # in the message that a database is not Strandline's


def shown(url: URL) -> str:
    """The URL without its password, also where the password is a parameter."""
    return redact(url.render_as_string(hide_password=True))


class StoreRefused(Exception):
    """The store cannot be used, for a reason that the operator can remove."""


class AlreadyServed(StoreRefused):
    """Another controller serves this store; only one may."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return f"another controller is serving {self.store}: stop it first, or name another store with --database"


class BadDatabaseUrl(StoreRefused):
    """The database URL is not supported."""

    def __init__(self, url: str) -> None:
        self.url = redact(url)  # it may hold a password, even if it cannot be parsed
        super().__init__(self.url)

    def __str__(self) -> str:
        return (
            f"{self.url!r} is not a supported database: use sqlite:///path/to/file.db, the path of a file, "
            f"or postgresql://user@host:port/name"
        )


class DriverMissing(StoreRefused):
    """The Python package for the database is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"this database needs {self.package}, which is {not_installed(self.extra)}"


class NoStore(StoreRefused):
    """There is no store yet."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return f"there is no store at {self.store}: with --database, name the store that the controller serves"


class CannotRewind(StoreRefused):
    """Setting the clock back would break the promise of marks in the store."""

    def __init__(self, store: str, streams: Sequence[str]) -> None:
        super().__init__(store, streams)
        self.store = store
        self.streams = streams

    def __str__(self) -> str:
        named = ", ".join(map(repr, self.streams[:STREAMS_NAMED]))
        more = f" and {len(self.streams) - STREAMS_NAMED} more" if len(self.streams) > STREAMS_NAMED else ""
        return (
            f"the clock of {self.store} cannot be set back: streams in the ingestion time domain have marks ahead of "
            f"the host's clock, and new events would be older than these marks ({named}{more}): seal or "
            f"delete these streams first, and continue in new ones"
        )


class OneController(StoreRefused):
    """More than one controller was to serve a store that takes only one."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return f"{self.store} is an SQLite file, which one controller serves alone: several need PostgreSQL"


class ServedTogether(StoreRefused):
    """One controller was to serve alone a store that controllers have served together."""

    def __str__(self) -> str:
        return "controllers serve this store together: give this one a --name and an --address too"


class StoreAway(StoreRefused):
    """The database could not be opened."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(store, reason)
        self.store = store
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.store} cannot be opened ({self.reason}): check --database, and that the database is there"


class NotKnown(StoreRefused):
    """COMMIT was sent to the store, and its outcome is unknown."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(store, reason)
        self.store = store
        self.reason = reason

    def __str__(self) -> str:
        return f"it is not known whether {self.store} has changed ({self.reason}): check it before you try again"


class UnusableFile(StoreRefused):
    """A file cannot be used as a store, or as the target of a backup."""

    def __init__(self, path: str, reason: str, advice: str) -> None:
        super().__init__(path, reason, advice)
        self.path = path
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.path} cannot be used: {self.reason}; {self.advice}"


class ForeignStore(StoreRefused):
    """The database has the tables of another application."""

    def __init__(self, store: str, tables: Sequence[str]) -> None:
        super().__init__(store, tables)
        self.store = store
        self.tables = tables

    def __str__(self) -> str:
        shown = ", ".join(self.tables[:TABLES_SHOWN]) + (" …" if len(self.tables) > TABLES_SHOWN else "")
        return (
            f"{self.store} is a database of another application (its tables: {shown}): "
            f"with --database, name a Strandline store or a new database"
        )


class WrongSchema(StoreRefused):
    """The store's schema is not the one of this version."""

    def __init__(self, found: str | None, wanted: str) -> None:
        super().__init__(found, wanted)
        self.found = found
        self.wanted = wanted

    def __str__(self) -> str:
        if self.found is not None and self.found > self.wanted:
            return (
                f"the store's schema is {self.found}, and this version knows those up to {self.wanted}: "
                f"use a version as new as the one that migrated the store"
            )
        return (
            f"the store's schema is {self.found or 'not Strandline’s'}, this version needs {self.wanted}: run "
            f"`strandline migrate` with the same --database"
        )


class IsBackup(StoreRefused):
    """The file is a backup, which cannot be served."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is a backup: make a store from it with `strandline restore {self.path} --database NEW`"


class InTheWay(StoreRefused):
    """The target of a backup or of a restore exists already."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} exists already, and is not overwritten: move it away, or name another"


class LeftBehind(StoreRefused):
    """Beside a file that is to be made, a store or a backup, is what SQLite wrote for an earlier one of that name."""

    def __init__(self, path: str, left: str) -> None:
        super().__init__(path, left)
        self.path = path
        self.left = left

    def __str__(self) -> str:
        return (
            f"{self.left} belongs to an earlier {self.path}, and beside a new one SQLite would apply or remove it: "
            f"move it to where that file went, under that file's name, or remove it"
        )


class UnderWay(StoreRefused):
    """Another backup or restore makes the same file."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"another backup or restore is making {self.path}: wait for its end, or name another file"


class NoBackup(StoreRefused):
    """A file cannot be used as a backup."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} is not a usable backup ({self.reason}): name a file that `strandline backup` wrote"


class ProgramMissing(StoreRefused):
    """A client program of PostgreSQL is not installed."""

    def __init__(self, program: str, install: str) -> None:
        super().__init__(program, install)
        self.program = program
        self.install = install

    def __str__(self) -> str:
        return f"{self.program} is not installed, or not on the PATH: {self.install}"


class ProgramFailed(StoreRefused):
    """A client program of PostgreSQL failed."""

    def __init__(self, program: str, lines: list[str]) -> None:
        super().__init__(program, lines)
        self.program = program
        self.lines = lines

    def __str__(self) -> str:
        return f"{self.program} failed: {' '.join(self.lines[-3:]) or 'it gave no reason'}"
