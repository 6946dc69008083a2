"""Tables as wide as the terminal. What is not a terminal gets every character."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from controller import wording
from controller.terminal import screen_columns


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines with aligned columns, cut to the width of the terminal if standard output is one."""
    return wording.table(header, rows, screen_columns())
