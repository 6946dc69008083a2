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
    """Answers by what was asked, at most so many; of more the oldest are made again when they are asked for."""

    def __init__(
        self,
        clock: Clock,
        *,
        least_ms: int = MEMO_MS,
        rest: int = MEMO_REST,
        longest_ms: float = MEMO_LONGEST_MS,
        most: float = math.inf,
    ) -> None:
        self._clock = clock
        self._least_ms, self._rest, self._longest_ms, self._most = least_ms, rest, longest_ms, most
        self._answers: dict[Hashable, _Answer] = {}  # oldest first

    async def get(self, asked: Hashable, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The answer to what is asked; raises whatever making it does, and then the next caller makes it again."""
        began = self._clock.now()
        answer = self._answers.get(asked)
        if answer is None or answer.until <= began:
            self._answers.pop(asked, None)
            while self._answers and self._may_go(next(iter(self._answers.values())), began):
                del self._answers[next(iter(self._answers))]
            answer = self._answers[asked] = _Answer(asyncio.create_task(make(), name="shared answer"))

            def made(task: asyncio.Task[Any], answer: _Answer = answer) -> None:
                failed = task.cancelled() or task.exception() is not None
                took_ms = self._clock.now() - began
                shared_ms = max(self._least_ms, min(self._longest_ms, self._rest * took_ms))
                answer.until = began + (0 if failed else shared_ms)

            answer.task.add_done_callback(made)
        found: T = await asyncio.shield(answer.task)
        return found

    def _may_go(self, oldest: _Answer, now: int) -> bool:
        return oldest.until <= now or len(self._answers) >= self._most

    def forget(self) -> None:
        """Makes each answer anew that is asked for next."""
        self._answers.clear()
