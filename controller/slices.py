"""Long work in slices, so that other tasks run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Final, Generic, TypeAlias, TypeVar

SLICE_MS: Final = 2  # of work before others get their turn


Result = TypeVar("Result")

# Work that stops after each step and goes on when it is asked to; its result comes with the last one.
Steps: TypeAlias = Generator[None, None, Result]


@dataclass(frozen=True, slots=True)
class Done(Generic[Result]):
    """The result of steps that are all done."""

    result: Result


def next_step(steps: Steps[Result]) -> Done[Result] | None:
    """Takes one step; returns the result if it was the last."""
    try:
        next(steps)
    except StopIteration as done:
        return Done(done.value)
    return None


class Slices:
    """Measures work, and pauses it when it has lasted long enough."""

    def __init__(self, stopwatch: Callable[[], float]) -> None:
        """`stopwatch` returns seconds from any starting point."""
        self._stopwatch = stopwatch
        self._began = stopwatch()
        self._worked_s = 0.0

    async def turn(self) -> None:
        """Lets other tasks run, if it is time. Call it after each small piece of work."""
        now = self._stopwatch()
        if (now - self._began) * 1000 >= SLICE_MS:
            await self._pause(now)

    async def drive(self, steps: Steps[Result]) -> Result:
        """Takes all steps, and yields to other tasks between them where it is time."""
        while (done := next_step(steps)) is None:
            await self.turn()
        return done.result

    async def _pause(self, now: float) -> None:
        self._worked_s += now - self._began
        await asyncio.sleep(0)
        self._began = self._stopwatch()

    @property
    def worked_ms(self) -> float:
        """How long the work itself took."""
        return (self._worked_s + self._stopwatch() - self._began) * 1000
