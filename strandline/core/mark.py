"""Marks: the controller's statements, which readers rely on."""

from __future__ import annotations

from dataclasses import dataclass

from strandline.core.cut import Cut
from strandline.limits import TIME_BOUND_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Every event older than `time`, of every writer not named in `excluded`, lies below `cut`.

    `upper` bounds every time that was noted for anything below the cut before the mark was made. No event below the
    cut is newer than `newest`, if that is known. In each (stream, key) `seq` counts from 1, times strictly rise, and
    cuts never go back.
    """

    seq: int
    key: str
    time: int
    upper: int
    cut: Cut
    newest: int | None
    excluded: tuple[str, ...]
    created_at: int

    def __post_init__(self) -> None:
        if self.seq < 1:
            raise ValueError(f"a mark's seq counts from 1, not {self.seq}")
        if not (-TIME_BOUND_MS < self.time <= self.upper < TIME_BOUND_MS):
            raise ValueError(f"a mark needs time <= upper, both within 2^53: {self.time}, {self.upper}")

    @property
    def complete(self) -> bool:
        return not self.excluded
