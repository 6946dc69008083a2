"""What a browser may do with an answer: headers that every answer has, and what its pages may load and run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

Header = tuple[bytes, bytes]

_POLICY: Final = b"content-security-policy"
# For an answer that is no page: it may run nothing, and no page may show it in a frame.
NO_PAGE: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# For a page of the dashboard: nothing inline, and nothing of others.
OWN_PAGE: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# For a page that has text, style and forms, and loads nothing.
PLAIN_PAGE: Final = (
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)

_ALWAYS: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    # Other origins do not get our addresses. A form has to name its own page, which "no-referrer" would hide.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
PROTECTIONS: Final[tuple[Header, ...]] = (*_ALWAYS, (_POLICY, NO_PAGE.encode()))
NAMED_PROTECTIONS: Final = {name.decode(): value.decode() for name, value in PROTECTIONS}


def protected(headers: Iterable[Header]) -> list[Header]:
    """The headers of an answer, with those that every answer has. A page that has a policy of its own keeps it."""
    given = list(headers)
    for name, _ in given:
        if name == _POLICY:
            return [*given, *_ALWAYS]
    return [*given, *PROTECTIONS]
