"""What the end of a writer's `with` block says about its later events."""

from __future__ import annotations

from typing import Literal, TypeAlias, cast, get_args

from strandline.errors import InvalidConfig

Leaving: TypeAlias = Literal["stay", "idle", "close"]


def check_leaving(leaving: str) -> Leaving:
    """Returns it if it is one of the three. Raises InvalidConfig."""
    if leaving not in get_args(Leaving):
        raise InvalidConfig(name="leaving", value=leaving, wanted='"stay", "idle" or "close"')
    return cast(Leaving, leaving)
