"""What a program can do wrong with a reader. What the controller refuses is in `strandline.errors`.

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
        return f"reader {self.reader!r} is closed: make a new one, which goes on where its group stands"
