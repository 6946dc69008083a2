"""Rules of the pure core that its caller broke."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from strandline.errors.base import StrandlineError


class RuleBroken(StrandlineError):
    """A caller of the pure core broke a rule that it documents."""


@dataclass(kw_only=True, eq=False)
class WatermarkWentBack(RuleBroken):
    code: ClassVar[str] = "watermark_went_back"
    input: Hashable
    key: str
    value: int
    previous: int

    @property
    def detail(self) -> str:
        return (
            f"input {self.input!r} gave {self.value} for key {self.key!r} after {self.previous}: "
            f"each of its values must be greater than the one before"
        )


@dataclass(kw_only=True, eq=False)
class InputDone(RuleBroken):
    code: ClassVar[str] = "input_done"
    input: Hashable
    call: str

    @property
    def detail(self) -> str:
        return f"{self.call} on input {self.input!r}, which is done: nothing may follow"


@dataclass(kw_only=True, eq=False)
class UnknownInput(RuleBroken):
    code: ClassVar[str] = "unknown_input"
    input: Hashable
    known: Sequence[Hashable]

    @property
    def detail(self) -> str:
        more = ", …" if len(self.known) > 10 else ""
        return f"there is no input {self.input!r}: known are {', '.join(map(repr, self.known[:10]))}{more}"


@dataclass(kw_only=True, eq=False)
class QueueFull(RuleBroken):
    code: ClassVar[str] = "queue_full"
    capacity: int

    @property
    def detail(self) -> str:
        return f"{self.capacity} items are under way already: complete one before the next"


@dataclass(kw_only=True, eq=False)
class UnknownTicket(RuleBroken):
    code: ClassVar[str] = "unknown_ticket"
    number: int

    @property
    def detail(self) -> str:
        return f"no item is under way with ticket {self.number}: complete each one once, in its queue"
