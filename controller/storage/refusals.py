"""Why a store cannot be served, each with what its user can do about it."""

from __future__ import annotations

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


class StoreAway(StoreRefused):
    """The database could not be opened."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(store, reason)
        self.store = store
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.store} cannot be opened ({self.reason}): check that it runs, and --database"


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
