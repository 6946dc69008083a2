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

TYPE_OF_JSON: Final[Header] = (b"content-type", b"application/json")
# What every answer has. JSON has no more: with `nosniff` no browser takes it for a page.
ALWAYS: Final[tuple[Header, ...]] = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
# Other origins do not get our addresses. A form has to name its own page, which "no-referrer" would hide.
_REFERRER: Final[Header] = (b"referrer-policy", b"same-origin")
_OF_NO_PAGE: Final[tuple[Header, ...]] = (*ALWAYS, _REFERRER, (_POLICY, NO_PAGE.encode()))


def protected(headers: Iterable[Header]) -> list[Header]:
    """The headers of an answer, with those that protect it. A page that has a policy of its own keeps it."""
    given = list(headers)
    if TYPE_OF_JSON in given:
        given += ALWAYS
    elif any(name == _POLICY for name, _ in given):
        given += (*ALWAYS, _REFERRER)
    else:
        given += _OF_NO_PAGE
    return given
