"""An event loop whose time passes only while everybody sleeps, and then at once."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from typing import Any, Final

# The tasks of the process that is at work, None outside of any: what a task begins belongs to the same process.
TASKS: Final[ContextVar[dict[asyncio.Task[Any], None] | None]] = ContextVar("tasks", default=None)

MOST_TURNS: Final = 20_000  # of the loop at one moment


class _Sleep(selectors.DefaultSelector):
    """Waits for nobody: there is neither a file nor another thread."""

    passed_s = 0.0
    _turns = 0  # of the loop, since time passed last

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing will happen")
        self._turns = 0 if timeout > 0 else self._turns + 1
        if self._turns > MOST_TURNS:
            raise RuntimeError("somebody works without an end, and no time passes")
        self.passed_s += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._sleep = _Sleep()
        super().__init__(self._sleep)
        self.set_task_factory(_make_task)

    def time(self) -> float:
        return self._sleep.passed_s


def _make_task(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any], **more: Any
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **more)
    tasks = TASKS.get()
    if tasks is not None:
        tasks[task] = None
        task.add_done_callback(tasks.pop)
    return task
