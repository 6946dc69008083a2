"""Texts that others see: without secrets (tokens, the passwords of database addresses), and on one line."""

from __future__ import annotations

import json
import re
from typing import Final

TOKEN_PREFIX: Final = "slt_"  # every token begins with it, so that a token is recognised in any text
HIDDEN: Final = "…"

_SECRET: Final = re.compile(
    rf"(?P<token>{TOKEN_PREFIX})[A-Za-z0-9_-]{{8,}}"
    r"|(?P<user>://[^\s/:@?#]*:)[^\s'\"]*(?=@)"
    r"|(?P<named>(?:password|passwd|pwd)=)[^\s&'\";]+"
    r"|(?P<header>\bbearer\s+)[^\s'\",;]+",
    re.IGNORECASE,
)


# Of the address of a database, what a parameter has that is none of PostgreSQL's usual ones may be a password.
_DATABASE: Final = re.compile(r"\b(?!https?:)[a-z]\w*(?:\+\w+)?://[^\s?]*\?\S+", re.IGNORECASE)
_PARAMETER: Final = re.compile(
    r"([?&](?!(?:host|hostaddr|port|user|dbname|application_name|connect_timeout|target_session_attrs|service"
    r"|sslmode|sslrootcert|sslcert|sslkey|sslcrl|channel_binding|gssencmode|keepalives\w*)=)[^=&]*=)[^&]+"
)


def redact(text: str) -> str:
    """The text with every secret replaced by "…"; the words before it stay."""
    text = _DATABASE.sub(lambda found: _PARAMETER.sub(rf"\1{HIDDEN}", found[0]), text)
    return _SECRET.sub(lambda found: (found[found.lastgroup] if found.lastgroup else "") + HIDDEN, text)


def visible(text: str) -> str:
    """The text with JSON escapes for unprintable characters: else what others named could forge a line, or hide one."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else json.dumps(each)[1:-1] for each in text)
