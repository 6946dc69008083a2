"""What tests of clocks and transactions wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from strandline.client import calls
from writer_client import BackgroundWriter

SOON = 5  # ms


class Clock:
    """The application's clock, as a test sets it."""

    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def wait_for(condition: Callable[[], object], bound_s: float = 30) -> None:
    deadline = time.monotonic() + bound_s
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


def noted_times(wire: Any) -> list[int]:
    return [
        note["time"]
        for request in wire.requests
        if request.path.endswith("/notes")
        for note in request.body.get("notes", [request.body])
    ]


def wait_for_notes(wire: Any) -> None:
    """Periods pass, and the controller goes on hearing from the writer."""
    sent = len(noted_times(wire))
    wait_for(lambda: len(noted_times(wire)) > sent + 2)


def mark_after(controller: Any, stream: str, time: int) -> Any:
    """The first mark later than this, which it waits for."""
    after = 0
    while True:
        page = controller.run(calls.marks(stream, after=after, wait_ms=20_000)).marks
        assert page, f"no mark after {time}"
        for mark in page:
            if mark.time > time:
                return mark
        after = page[-1].seq


def wait_until_idle(controller: Any, stream: str) -> None:
    wait_for(lambda: controller.states(stream).get("idle") == 1)


def wait_until_answered(writer: Any) -> None:
    """What a waiting writer has noted is answered."""
    if isinstance(writer, BackgroundWriter):
        assert writer.wait_until_answered()
