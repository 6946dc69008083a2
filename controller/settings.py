"""What a controller can be told at its start."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.limits import METRICS_KEYS

DATABASE_DEFAULT = "sqlite:///strandline.db"
HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8433
LOG_FORMATS = ("text", "json")
LOG_FORMAT_DEFAULT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`database` is a URL, or the path of an SQLite file; port 0 takes any that is free.

    `allowed_hosts` are names by which it is called beside its own address: "*.example.org" stands for all below one.
    `insecure` allows another address than this machine's own although there are no tokens. With `ssl_certfile`, and
    `ssl_keyfile` where the key is not in the same file, it serves TLS. What may be secret is not in its repr.
    """

    database: str = field(default=DATABASE_DEFAULT, repr=False)
    host: str = HOST_DEFAULT
    port: int = PORT_DEFAULT
    allowed_hosts: tuple[str, ...] = ()
    insecure: bool = False
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_keyfile_password: str | None = field(default=None, repr=False)
    metrics_keys: int = METRICS_KEYS  # pairs of a stream and a key with labels of their own
    log_format: str = LOG_FORMAT_DEFAULT
    access_log: bool = False
