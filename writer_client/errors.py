"""What a program can do wrong with a writer. What the controller refuses is in `strandline.errors`.

StrandlineError
└── RuleBroken
    ├── NoLog           no_log
    ├── NeverNoted      never_noted
    └── WriterClosed    writer_closed
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from strandline.errors import RuleBroken


@dataclass(kw_only=True, eq=False)
class NoLog(RuleBroken):
    code: ClassVar[str] = "no_log"
    writer: str
    call: str

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} is not bound to a log, so {self.call} needs to be told the position: "
            f"give one, or make the writer with log=…"
        )


@dataclass(kw_only=True, eq=False)
class NeverNoted(RuleBroken):
    """Going idle or closing says that all the writer wrote lies below its last noted position; there is none."""

    code: ClassVar[str] = "never_noted"
    writer: str
    call: str

    @property
    def detail(self) -> str:
        return (
            f"writer {self.writer!r} has written, but never noted a time, so {self.call} would leave out what it "
            f"wrote: note a time first"
        )


@dataclass(kw_only=True, eq=False)
class WriterClosed(RuleBroken):
    code: ClassVar[str] = "writer_closed"
    writer: str

    @property
    def detail(self) -> str:
        return f"writer {self.writer!r} is closed: make a new one, which registers anew"
