"""Why a store cannot be served, each with what its user can do about it."""

from __future__ import annotations

from collections.abc import Sequence

from controller.limits import STREAMS_NAMED, TABLES_SHOWN
from strandline.redaction import redact


class StoreRefused(Exception):
    """The store cannot be served, for a reason that its user can do something about."""


class AlreadyServed(StoreRefused):
    """Another controller has this store; only one may."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return f"another controller is serving {self.store}: stop it first, or take another --database"


class BadDatabaseUrl(StoreRefused):
    """A database was named that is not supported."""

    def __init__(self, url: str) -> None:
        self.url = redact(url)  # it may hold a password, and what is no URL is hidden no other way
        super().__init__(self.url)

    def __str__(self) -> str:
        return (
            f"{self.url!r} is not a database that is supported: sqlite:///path/to/file.db, or a path, "
            f"or postgresql://user@host:port/name"
        )


class DriverMissing(StoreRefused):
    """The package that speaks to the database is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(package, extra)
        self.package = package
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.package} is not installed, which this database needs: pip install 'strandline[{self.extra}]'"


class NoStore(StoreRefused):
    """There is no store yet."""

    def __init__(self, store: str) -> None:
        super().__init__(store)
        self.store = store

    def __str__(self) -> str:
        return f"there is no store at {self.store}: name the one that the controller serves with --database"


class CannotRewind(StoreRefused):
    """The store has marks whose promise the clock would break if it were set back."""

    def __init__(self, store: str, streams: Sequence[str]) -> None:
        super().__init__(store, streams)
        self.store = store
        self.streams = streams

    def __str__(self) -> str:
        named = ", ".join(map(repr, self.streams[:STREAMS_NAMED]))
        more = f" and {len(self.streams) - STREAMS_NAMED} more" if len(self.streams) > STREAMS_NAMED else ""
        return (
            f"the clock of {self.store} cannot be set back: marks of streams in the ingestion time domain are ahead of "
            f"the host's clock, and what is appended from now on would be older than they say ({named}{more}): seal or "
            f"delete these streams first, and go on in new ones"
        )


class StoreAway(StoreRefused):
    """The database could not be opened."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(store, reason)
        self.store = store
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.store} cannot be opened ({self.reason}): check that it runs, and --database"


class NotKnown(StoreRefused):
    """The store was told to commit, and nobody knows what came of it."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(store, reason)
        self.store = store
        self.reason = reason

    def __str__(self) -> str:
        return f"whether {self.store} has changed is not known ({self.reason}): look before you do it again"


class UnusableFile(StoreRefused):
    """A file cannot be what it has to be: a store, or a backup that is to be written."""

    def __init__(self, path: str, reason: str, advice: str) -> None:
        super().__init__(path, reason, advice)
        self.path = path
        self.reason = reason
        self.advice = advice

    def __str__(self) -> str:
        return f"{self.path} cannot be used: {self.reason}; {self.advice}"


class ForeignStore(StoreRefused):
    """The database has tables, and they are not Strandline's."""

    def __init__(self, store: str, tables: Sequence[str]) -> None:
        super().__init__(store, tables)
        self.store = store
        self.tables = tables

    def __str__(self) -> str:
        shown = ", ".join(self.tables[:TABLES_SHOWN]) + (" …" if len(self.tables) > TABLES_SHOWN else "")
        return (
            f"{self.store} is a database of another application (its tables: {shown}): "
            f"name one of Strandline's own, or a new one, with --database"
        )


class WrongSchema(StoreRefused):
    """The store has another schema than this version of the controller needs."""

    def __init__(self, found: str | None, wanted: str) -> None:
        super().__init__(found, wanted)
        self.found = found
        self.wanted = wanted

    def __str__(self) -> str:
        return (
            f"the store's schema is {self.found or 'not Strandline’s'}, this controller needs {self.wanted}: "
            f"run `strandline migrate` with the same --database, and a controller as new as the store"
        )


class IsBackup(StoreRefused):
    """The file is a backup, and not a store to serve."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} is a backup: make a store from it with `strandline restore {self.path} --database NEW`"


class InTheWay(StoreRefused):
    """There is something already where a backup, or a store from a backup, is to be."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what

    def __str__(self) -> str:
        return f"{self.what} is there already, and is not written over: move it away, or name another"


class NoBackup(StoreRefused):
    """A file cannot be used as a backup."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path} is no backup that can be used ({self.reason}): name a file that `strandline backup` wrote"


class ProgramMissing(StoreRefused):
    """A program of PostgreSQL's is not installed."""

    def __init__(self, program: str, install: str) -> None:
        super().__init__(program, install)
        self.program = program
        self.install = install

    def __str__(self) -> str:
        return f"{self.program} is not installed, or not on the PATH: {self.install}"


class ProgramFailed(StoreRefused):
    """A program of PostgreSQL's did not do what it was asked for."""

    def __init__(self, program: str, said: list[str]) -> None:
        super().__init__(program, said)
        self.program = program
        self.said = said

    def __str__(self) -> str:
        return f"{self.program} failed: {' '.join(self.said[-3:]) or 'it did not say why'}"
