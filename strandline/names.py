"""Checks the names of streams, writers, groups, readers and segments."""

import re
from collections.abc import Hashable
from functools import lru_cache
from typing import Final

from strandline.errors import InvalidName
from strandline.limits import NAME_CHARACTERS

NAMES_REMEMBERED: Final = 65_536  # checked names in a cache

NAME: Final = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_CHARACTERS - 1}}}")


@lru_cache(maxsize=NAMES_REMEMBERED)  # the same few names come with every note
def is_name(name: Hashable) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def check_name(what: str, name: str) -> str:
    """Returns the name; raises InvalidName unless it has 1 to 249 of A-Z a-z 0-9 . _ - and begins with a letter or
    digit."""
    if not is_name(name):
        raise InvalidName(what=what, name=name)
    return name
