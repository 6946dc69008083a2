"""Who may call what: roles, patterns of names, and the grant of a token.

A token has a pattern for streams, and one for writers if it is a writer's token. A pattern is a name in which each `*`
stands for any characters, or for none: `*`, `orders`, `orders-*`, `*.eu.*`. It must fit the whole name, and case
counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

from strandline.errors import InvalidConfig
from strandline.limits import NAME_CHARACTERS
from strandline.names import NAMES_REMEMBERED, check_name

PATTERN: Final = re.compile(rf"[A-Za-z0-9._*-]{{1,{NAME_CHARACTERS}}}")
EVERYTHING: Final = "*"


class Role(StrEnum):
    """The purpose of a token."""

    WRITER = "writer"  # register, note, idle, close
    READER = "reader"  # marks, windows, reader groups, and the journal
    ADMIN = "admin"  # every call

    def covers(self, needed: Role) -> bool:
        return self is needed or self is Role.ADMIN


def check_role(role: str) -> Role:
    """The role with this name; raises InvalidConfig for another name."""
    if role not in set(Role):
        raise InvalidConfig(name="role", value=role, wanted=f"one of {', '.join(Role)}")
    return Role(role)


def check_pattern(pattern: str, name: str = "pattern") -> str:
    """Returns the pattern; raises InvalidConfig, which calls it `name`, if it is not valid."""
    if PATTERN.fullmatch(pattern) is None:
        wanted = f"a name in which * stands for any characters: at most {NAME_CHARACTERS} of A-Z a-z 0-9 . _ - *"
        raise InvalidConfig(name=name, value=pattern, wanted=wanted)
    return pattern


@lru_cache(maxsize=NAMES_REMEMBERED)  # the same few names come with every note
def fits(pattern: str, name: str) -> bool:
    """Whether a pattern fits a name. The time is at most the product of the two lengths."""
    first, *rest = pattern.split("*")
    if not rest:
        return name == pattern
    *middle, last = rest
    end = len(name) - len(last)
    place = len(first)
    if end < place or not name.startswith(first) or not name.endswith(last):
        return False
    for part in middle:  # the earliest match leaves the most for the parts after it
        found = name.find(part, place, end)
        if found < 0:
            return False
        place = found + len(part)
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a token allows. `pattern` fits its streams, and `writers` the writers for which a writer's token may call.
    From the millisecond `expires_at` on it allows nothing; null: it never expires."""

    name: str
    role: Role
    pattern: str = EVERYTHING
    writers: str = EVERYTHING
    expires_at: int | None = None

    def __post_init__(self) -> None:
        check_name("token", self.name)
        check_role(self.role)
        check_pattern(self.pattern)
        check_pattern(self.writers, "writers")
        if self.writers != EVERYTHING and self.role is not Role.WRITER:
            wanted = f"only a token with the role 'writer' is bound to writers, not one with {str(self.role)!r}"
            raise InvalidConfig(name="writers", value=self.writers, wanted=wanted)

    def allows(self, stream: str) -> bool:
        """Whether the pattern fits the name of this stream."""
        return self.pattern == EVERYTHING or fits(self.pattern, stream)

    @property
    def allows_every_stream(self) -> bool:
        return not self.pattern.strip(EVERYTHING)

    def speaks_for(self, writer: str) -> bool:
        """Whether the token may register this writer, note for it, make it idle and close it."""
        return self.writers == EVERYTHING or fits(self.writers, writer)
