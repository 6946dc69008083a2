"""Answers that are shared: with all who ask while one is being made, and with those who ask soon after."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from controller.clock import Clock

MEMO_MS: Final = 1_000  # for which an answer is shared; pages and `watch` ask each second
MEMO_REST: Final = 10  # times as long as making it takes, if that is longer: so it takes at most a tenth of the time
MEMO_LONGEST_MS: Final = 5_000  # for which any answer is shared

T = TypeVar("T")


@dataclass(slots=True)
class _Answer:
    task: asyncio.Task[Any]
    until: float = math.inf  # known once it is made


class Memo:
    """Answers by what was asked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[Hashable, _Answer] = {}  # oldest first

    async def get(self, asked: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to what is asked; raises whatever making it does, and then the next caller makes it again."""
        began = self._clock.now()
        answer = self._answers.get(asked)
        if answer is None or answer.until <= began:
            self._answers.pop(asked, None)
            while self._answers and (oldest := next(iter(self._answers.items())))[1].until <= began:
                del self._answers[oldest[0]]
            answer = self._answers[asked] = _Answer(asyncio.create_task(make(), name="status"))

            def made(task: asyncio.Task[Any], answer: _Answer = answer) -> None:
                failed = task.cancelled() or task.exception() is not None
                took_ms = self._clock.now() - began
                answer.until = began + (0 if failed else max(MEMO_MS, min(MEMO_LONGEST_MS, MEMO_REST * took_ms)))

            answer.task.add_done_callback(made)
        found: T = await asyncio.shield(answer.task)
        return found

    def forget(self) -> None:
        """Makes each answer anew that is asked for next."""
        self._answers.clear()
