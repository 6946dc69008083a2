"""The blocks of older marks that are in memory, of all streams, within a bound."""

from __future__ import annotations

from collections import OrderedDict

from controller.limits import PAST_BLOCK_BYTES, PAST_MARKS_BYTES
from strandline.core.past_marks import PastMarks


class PastShelf:
    """Knows which older marks were used last. Beyond the bound it empties those that were not used for longest."""

    def __init__(self, bound_bytes: int = PAST_MARKS_BYTES) -> None:
        self._bound = bound_bytes
        self._sizes: OrderedDict[PastMarks, int] = OrderedDict()
        self.size_bytes = 0

    def used(self, past: PastMarks) -> None:
        """Counts these marks as used now."""
        size = past.size_bytes + len(past) * PAST_BLOCK_BYTES
        self.size_bytes += size - self._sizes.get(past, 0)
        self._sizes[past] = size
        self._sizes.move_to_end(past)
        while self.size_bytes > self._bound:
            oldest = next(iter(self._sizes))
            if oldest is past:  # it alone is too much
                past.thin()
                self.used(past)
                return
            self.size_bytes -= self._sizes.pop(oldest)
            oldest.clear()
