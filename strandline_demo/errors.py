"""The errors of the demo, on top of the tree in `strandline.errors`.

StrandlineError
├── Refused
│   └── Invalid
│       └── InvalidKnob              invalid_knob
└── Unavailable
    ├── PartMissing                  part_missing
    ├── PartFailed                   part_failed
    └── PartSilent                   part_silent
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from strandline.errors import Invalid, Unavailable


@dataclass(kw_only=True, eq=False)
class InvalidKnob(Invalid):
    code: ClassVar[str] = "invalid_knob"
    knob: str
    value: Any
    wanted: str

    @property
    def detail(self) -> str:
        return f"--{self.knob} cannot be {self.value}: {self.wanted}"


@dataclass(kw_only=True, eq=False)
class PartMissing(Unavailable):
    """Something that the demo needs is not installed; nothing was started."""

    code: ClassVar[str] = "part_missing"
    package: str

    @property
    def detail(self) -> str:
        return f"the demo needs the package {self.package}, which is not installed: install strandline[demo]"


@dataclass(kw_only=True, eq=False)
class PartFailed(Unavailable):
    """A process of the demo ended when it should not have. `words` is the end of what it said."""

    code: ClassVar[str] = "part_failed"
    part: str
    exit_status: int
    words: str

    @property
    def detail(self) -> str:
        said = f"; it said last:\n{self.words}" if self.words else " and said nothing"
        return f"the part {self.part!r} of the demo ended with status {self.exit_status}{said}"


@dataclass(kw_only=True, eq=False)
class PartSilent(Unavailable):
    """A process of the demo did not do in time what the others wait for."""

    code: ClassVar[str] = "part_silent"
    part: str
    waited_s: int
    awaited: str
    words: str

    @property
    def detail(self) -> str:
        said = f"; it said last:\n{self.words}" if self.words else ""
        return f"the part {self.part!r} of the demo did not {self.awaited} within {self.waited_s} s{said}"
