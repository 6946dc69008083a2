"""The time zone in which a page shows times: UTC, or the visitor's own, which the browser names in a cookie."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from starlette.requests import HTTPConnection

from controller.format import ZONE

COOKIE: Final = "strandline_zone"
_NAME: Final = re.compile(r"[A-Za-z0-9_+-]{1,30}(?:/[A-Za-z0-9_+-]{1,30}){0,2}")
# Asks for the page anew, in the other zone. The choice is kept for a year.
TO_UTC: Final = f"document.cookie = '{COOKIE}=; path=/; max-age=0; samesite=strict'; location.reload()"
TO_OWN: Final = (
    "const zone = Intl.DateTimeFormat().resolvedOptions().timeZone; "
    f"document.cookie = `{COOKIE}=${{zone}}; path=/; max-age=31536000; samesite=strict`; location.reload()"
)


def zone_of(connection: HTTPConnection) -> tzinfo:
    """The zone that the visitor chose; UTC for one that is not known here."""
    name = connection.cookies.get(COOKIE, "")
    if _NAME.fullmatch(name) is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):  # also for a name that is a folder of zones
        return UTC


@contextmanager
def shown_in_zone(connection: HTTPConnection) -> Iterator[None]:
    """Times are shown in the visitor's zone meanwhile."""
    token = ZONE.set(zone_of(connection))
    try:
        yield
    finally:
        ZONE.reset(token)
