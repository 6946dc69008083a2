"""Errors in the use of readers. The controller's refusals are in `strandline.errors`."""

from __future__ import annotations

from strandline.errors import RuleBroken


class ReaderClosed(RuleBroken):
    says = "reader {reader!r} is closed: create a new one, which continues at its group's positions"
    reader: str


class StateOfAnotherGroup(RuleBroken):
    says = (
        "the state is of group {found!r}, which keeps how far it has read, and this reader is of group {group!r}: give "
        "it a state file of its own"
    )
    group: str
    found: str
