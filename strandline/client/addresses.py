"""A controller's addresses: what a valid list of them is, and which of them a request goes to.

check_addresses("http://a:8433, http://b:8433")      returns ("http://a:8433", "http://b:8433")
check_addresses(["http://a:8433", "http://b:8433"])  returns the same

An address stays first until it fails, and comes last for a while then: a late answer from one that other calls have
left does not bring them back, or calls would alternate between two. http beside https is refused, since the token goes
wherever the request goes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import SplitResult, urlsplit
from zlib import crc32

from strandline.errors import InvalidConfig

AWAY_S: Final = 30  # how long an address comes last after it failed

# Commas elsewhere do not separate: a part of a refused password could be shown.
SEPARATOR = re.compile(r",(?=\s*\w+://)")
HOST = re.compile(r"[\w.:%-]+")
PORTS = {"http": 80, "https": 443}
WANTED = (
    'a URL with http or https, a host, and no user, query, fragment or comma, like "http://127.0.0.1:8433", '
    "or several of these in a list, or as one text with commas between them"
)


def check_addresses(controller: str | Sequence[str]) -> tuple[str, ...]:
    """Returns the addresses of a controller, each without a slash at its end.

    Raises InvalidConfig for no address, for a malformed one, for a repeated one, and for http together with https.
    """
    listed: object = SEPARATOR.split(controller) if isinstance(controller, str) else controller
    if not isinstance(listed, Sequence) or not listed:
        raise _refused(controller)
    addresses: dict[tuple[str, str | None, int, str], str] = {}
    for each in listed:
        address, parts = _check_address(each)
        same = parts.scheme, parts.hostname, parts.port or PORTS[parts.scheme], parts.path
        if same in addresses:
            raise _refused(each, "name each address once")
        addresses[same] = address
    found = tuple(addresses.values())
    if len({scheme for scheme, *_ in addresses}) > 1:
        raise _refused(",".join(found), "use https for every address, or else a token would be sent unencrypted")
    return found


def _check_address(given: str) -> tuple[str, SplitResult]:
    try:
        address = given.strip().rstrip("/")
        parts = urlsplit(address)
        valid = parts.scheme in PORTS and parts.port != 0
    except (AttributeError, ValueError):  # no text, or no URL
        raise _refused(given) from None
    more = parts.query or parts.fragment or "@" in parts.netloc or "," in address
    if not valid or more or not HOST.fullmatch(parts.hostname or ""):
        raise _refused(given)
    return address, parts


def _refused(given: object, wanted: str = WANTED) -> InvalidConfig:
    """The error for an address, which shows no password."""
    shown = f"…@{given.rpartition('@')[2]}" if isinstance(given, str) and "@" in given else given
    return InvalidConfig(name="controller", value=shown, wanted=wanted)


class AddressChoice:
    """Chooses among addresses. Calls about one stream or group go to one address, which follows from the name: what
    that controller has in memory is as new as the store, as long as nobody writes at another one.

    An address that fails comes last for AWAY_S. Threads may share it: every order is a valid one.
    """

    def __init__(self, addresses: Sequence[str], now: Callable[[], float]) -> None:
        """`now` tells seconds from any starting point."""
        self._addresses = tuple(addresses)
        self._now = now
        self._away: dict[str, float] = {}  # when addresses failed, in the order in which they did

    def in_order(self, subject: str = "") -> tuple[str, ...]:
        """Returns all addresses in the order in which an attempt tries them, for calls about a stream or a group."""
        first = crc32(subject.encode()) % len(self._addresses) if subject else 0
        ordered = self._addresses[first:] + self._addresses[:first]
        if not self._away:
            return ordered
        since = self._now() - AWAY_S
        away = [each for each, at in list(self._away.items()) if at > since]
        return (*(each for each in ordered if each not in away), *away)

    def leave(self, address: str) -> None:
        """Later attempts begin at other addresses."""
        self._away.pop(address, None)
        self._away[address] = self._now()
