"""Removes secrets from texts: tokens, and the passwords of database addresses."""

from __future__ import annotations

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


def redact(text: str) -> str:
    """The text with every secret replaced by "…"; the words before it stay."""
    return _SECRET.sub(lambda found: (found[found.lastgroup] if found.lastgroup else "") + HIDDEN, text)
