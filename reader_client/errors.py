"""Errors in the use of readers. The controller's refusals are in `strandline.errors`.

StrandlineError
└── RuleBroken
    └── ReaderClosed    reader_closed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from strandline.errors import RuleBroken


@dataclass(kw_only=True, eq=False)
class ReaderClosed(RuleBroken):
    code: ClassVar[str] = "reader_closed"
    reader: str

    @property
    def detail(self) -> str:
        return f"reader {self.reader!r} is closed: create a new one, which continues at its group's positions"
