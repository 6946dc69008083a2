"""Host names of a server: parses `Host`, knows which names a server answers to, and whether a page is its own.

A page in a browser can send requests to any address, but it cannot choose the headers `Host` and `Origin`. So they
distinguish a page of the server from a foreign one, even if the foreign name points at this server (DNS rebinding).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

from strandline.errors import InvalidConfig

HOST_CHARACTERS: Final = 260  # of a host with its port; a name has at most 253

EVERY_HOST: Final = "*"
_LOCALHOST: Final = "localhost"
_PORTS: Final = {"http": "80", "https": "443"}
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*\.?")
_AUTHORITY: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\[\]:]*)(?::(?P<port>[0-9]{0,5}))?")


@dataclass(frozen=True, slots=True)
class Authority:
    """A host, as a name in lower case or an address in its shortest form, and the port, "" if none is named."""

    host: str
    port: str = ""


def parse_authority(text: str) -> Authority | None:
    """Parses the value of `Host`: a name or an address, with or without a port; None for anything else."""
    found = _AUTHORITY.fullmatch(text) if len(text) <= HOST_CHARACTERS else None
    host = _normal(found["host"]) if found is not None else None
    return None if found is None or host is None else Authority(host, found["port"] or "")


def _normal(host: str) -> str | None:
    """A name or an address in its normal form, for comparison."""
    if host.startswith("["):
        return _address(host[1:-1])
    if _NAME.fullmatch(host) is None:
        return None
    return _address(host) or host.lower().removesuffix(".")


def _address(text: str) -> str | None:
    """An address in its shortest form; an IPv4 address mapped into IPv6 as IPv4; None for a name."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return str(mapped or found)


def is_loopback(host: str) -> bool:
    """Whether a host is a loopback name or address."""
    address = _address(host)
    if address is not None:
        return ipaddress.ip_address(address).is_loopback
    return host == _LOCALHOST or host.endswith(f".{_LOCALHOST}")


def same_host(one: str, other: str) -> bool:
    """Whether two hosts are the same name or the same address."""
    return (_address(one) or one) == (_address(other) or other)


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The names and addresses that a server answers to; `*.example.org` is every name below that one, `*` is any."""

    names: frozenset[str] = frozenset()
    domains: tuple[str, ...] = ()
    every: bool = False

    @classmethod
    def of(cls, given: Iterable[str]) -> Self:
        """Parses names, addresses and patterns; raises InvalidConfig for anything else."""
        names, domains, every = set(), [], False
        for each in given:
            bare = f"[{each}]" if ":" in each and not each.startswith("[") else each
            host = _normal(bare.removeprefix("*.")) if len(bare) <= HOST_CHARACTERS else None
            if each == EVERY_HOST:
                every = True
            elif host is None or (bare.startswith("*.") and _address(host) is not None):
                wanted = 'a name or an address without a port, "*.example.org" for all names below one, or "*" for all'
                raise InvalidConfig(name="allowed_host", value=each, wanted=wanted)
            elif bare.startswith("*."):
                domains.append(f".{host}")
            else:
                names.add(host)
        return cls(frozenset(names), tuple(domains), every)

    def allows(self, host: str) -> bool:
        """Whether the server answers to a host, as `parse_authority` gives it."""
        return self.every or host in self.names or host.endswith(self.domains)


def is_own_page(origin: str, hosts: Iterable[str], *, scheme: str) -> bool:
    """Whether `Origin` names a page of the server to which a request with one of these `hosts` was sent.

    Over https only a page loaded over https counts. Over http both count, because a proxy in front may have ended TLS.
    """
    page_scheme, separator, rest = origin.partition("://")
    page = parse_authority(rest)
    if not separator or page is None or page_scheme not in _PORTS or (scheme == "https") > (page_scheme == "https"):
        return False
    default = _PORTS[page_scheme]
    own = (parse_authority(host) for host in hosts)
    return any(each is not None and _with_port(each, default) == _with_port(page, default) for each in own)


def _with_port(authority: Authority, default: str) -> tuple[str, str]:
    return authority.host, authority.port or default
