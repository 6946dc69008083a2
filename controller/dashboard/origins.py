"""Whether a request comes from a page of the dashboard's own origin."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers

FOREIGN_SITES: Final = frozenset({"cross-site", "same-site"})  # what a browser calls pages of other origins


def is_own(headers: Headers) -> bool:
    """Whether a request comes from a page of the origin that it goes to, or from no page at all. Programs that are no
    browsers send no origin."""
    if headers.get("sec-fetch-site") in FOREIGN_SITES:
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    page = urlsplit(origin.lower())
    default = {"http": ":80", "https": ":443"}.get(page.scheme, "")
    hosts = (headers.get("host", ""), headers.get("x-forwarded-host", "").partition(",")[0].strip())
    return bool(page.netloc) and page.netloc in {host.lower().removesuffix(default) for host in hosts}


def is_secure(scheme: str, headers: Headers) -> bool:
    """Whether the visitor's browser uses TLS. Behind a proxy that ends TLS the page's own origin tells it."""
    return scheme == "https" or headers.get("origin", "").lower().startswith("https://")
