"""Calls in threads of their own, which can be abandoned: one that hangs ends with the process."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import TypeVar

from controller.storage.diagnosis import StoreSilent

Result = TypeVar("Result")


def in_thread(name: str, call: Callable[[], Result]) -> Future[Result]:
    """Makes one call in a thread of its own. Unlike that of an executor, it does not keep the process alive."""
    future: Future[Result] = Future()

    def make() -> None:
        try:
            result = call()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)

    threading.Thread(target=make, name=name, daemon=True).start()
    return future


def within(seconds: float, call: Callable[[], Result]) -> Result:
    """Makes one call and waits for it, for commands; raises StoreSilent if it takes longer."""
    made = in_thread("store", call)
    if not wait([made], seconds).done:
        raise StoreSilent(seconds=seconds)
    return made.result()
