"""The settings of a controller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Final, Self

from strandline.errors import InvalidConfig

START_DEADLINE_S: Final = 60  # opening the store and creating its schema
METRICS_KEYS: Final = 1_000  # pairs of a stream and a key with labels of their own; the others are summed up

DATABASE_DEFAULT = "sqlite:///strandline.db"
HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8433
LOG_FORMATS = ("text", "json")
LOG_FORMAT_DEFAULT = "text"
BOOLEANS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """`database` is a URL, or the path of an SQLite file; port 0 takes any free port.

    `allowed_hosts` are names by which it may be called besides its own address; "*.example.org" allows all names below
    that one. `insecure` allows an address other than loopback without tokens. With `ssl_certfile`, and `ssl_keyfile` if
    the key is in another file, it serves TLS. Fields that may be secret are not in its repr.
    """

    database: str = field(default=DATABASE_DEFAULT, repr=False)
    host: str = HOST_DEFAULT
    port: int = PORT_DEFAULT
    allowed_hosts: tuple[str, ...] = ()
    insecure: bool = False
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_keyfile_password: str | None = field(default=None, repr=False)
    workers: int = 1  # processes at the port
    metrics_keys: int = METRICS_KEYS  # pairs of a stream and a key with labels of their own
    log_format: str = LOG_FORMAT_DEFAULT
    access_log: bool = False
    grafana_url: str | None = None  # of a stream's dashboard, with `{stream}` for its name: pages have a link to it

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> Self:
        """The settings in `STRANDLINE_…`, as `strandline serve` reads them. Raises InvalidConfig."""
        found: dict[str, object] = {}
        for each in fields(cls):
            option = "allowed_host" if each.name == "allowed_hosts" else each.name
            variable = f"STRANDLINE_{option.upper()}"
            text = variables.get(variable)
            if text is None:
                continue
            if each.name == "allowed_hosts":
                found[each.name] = tuple(host.strip() for host in text.split(",") if host.strip())
            elif isinstance(each.default, bool):
                if text.lower() not in BOOLEANS:
                    raise InvalidConfig(name=variable, value=text, wanted="true or false")
                found[each.name] = BOOLEANS[text.lower()]
            elif isinstance(each.default, int):
                if not (text.isascii() and text.isdecimal()):
                    raise InvalidConfig(name=variable, value=text, wanted="a whole number")
                found[each.name] = int(text)
            else:
                found[each.name] = text
        return cls(**found)  # type: ignore[arg-type]  # each is of its field's type
