"""Work in steps, all of them without a stop."""

from __future__ import annotations

from typing import TypeVar

from controller.storage.paged_reads import Steps, next_step

Result = TypeVar("Result")


def at_once(steps: Steps[Result]) -> Result:
    """The result of all steps."""
    while (done := next_step(steps)) is None:
        pass
    return done.result
