"""What is stored is not what was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from strandline.errors.base import StrandlineError


@dataclass(kw_only=True, eq=False)
class StoreCorrupt(StrandlineError):
    """A row of the store is not what was written, or is missing: it belongs to a stream or a reader group. What depends
    on it is refused, all else is served. Waiting mends nothing."""

    code: ClassVar[str] = "store_corrupt"
    stream: str | None = None
    group: str | None = None
    table: str | None = None
    row: str | None = None
    reason: str

    @property
    def detail(self) -> str:
        whose = f"stream {self.stream!r}" if self.stream is not None else "the store"
        whose = f"reader group {self.group!r}" if self.group is not None else whose
        where = f" in the table {self.table!r}" if self.table is not None else ""
        which = f", the row with {self.row}" if self.row is not None else ""
        return (
            f"{whose} is damaged{where}{which}: {self.reason}. Nothing that depends on it is served: "
            f"`strandline check` names all that is damaged, and a backup brings it back"
        )
