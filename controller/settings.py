"""What a controller can be told at its start."""

from __future__ import annotations

from dataclasses import dataclass

DATABASE_DEFAULT = "sqlite:///strandline.db"
HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8433


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`database` is a URL, or the path of an SQLite file; port 0 takes any that is free."""

    database: str = DATABASE_DEFAULT
    host: str = HOST_DEFAULT
    port: int = PORT_DEFAULT
    insecure: bool = False
