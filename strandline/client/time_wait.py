"""Waits until everything older than a time is there: a job of calls and pauses, for blocking and for asyncio use."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, TypeAlias

from strandline.client.calls import Call
from strandline.client.loop import Remote
from strandline.client.retry import Pause
from strandline.core.checks import check_whole
from strandline.errors import StrandlineError, TimeNotReached, Unavailable, Undecided
from strandline.wire.streams import MarksAt

WAIT_UNTIL_DEFAULT_MS: Final = 3_600_000  # how long a caller waits until everything older than a time is there
WAIT_UNTIL_BOUND_MS: Final = 7 * 86_400_000  # the longest of these waits

WAIT_STEP_MS: Final = 10_000  # one request of a wait until a time is there
WAIT_PAUSE_MS: Final = 500  # after one that ended early, or failed

OnWait: TypeAlias = Callable[[MarksAt | StrandlineError], None]


def wait_until_there(
    ask: Callable[[int], Call[MarksAt]],
    *,
    stream: str,
    key: str,
    time: int,
    timeout_ms: int,
    allow_incomplete: bool,
    on_wait: OnWait | None,
    now_ms: Callable[[], float],
) -> Generator[Remote | Pause, Any, MarksAt]:
    """Asks until everything older than a time is there, of every writer unless `allow_incomplete`.

    `ask` gets the milliseconds that the controller may wait. `on_wait` gets each answer that is not enough, and each
    error of a controller that is away. Such an error is raised only if no call was answered before, or at the end.
    Raises TimeNotReached after `timeout_ms`, or at once if the stream was sealed without some writer.
    """
    check_whole("timeout_ms", timeout_ms, least=0, most=WAIT_UNTIL_BOUND_MS)
    began = now_ms()
    was_answered = False
    while True:
        asked = now_ms()
        # The first call does not wait, so that the caller soon hears what is waited for.
        wait_ms = round(max(0, min(WAIT_STEP_MS, began + timeout_ms - asked))) if was_answered else 0
        try:
            found: MarksAt = yield Remote(ask(wait_ms))
        except (Unavailable, Undecided) as error:
            if not was_answered or now_ms() - began >= timeout_ms:
                raise
            if on_wait is not None:
                on_wait(error)
            yield Pause(WAIT_PAUSE_MS)
            continue
        was_answered = True
        if found.complete or (found.there and allow_incomplete):
            return found
        waited_ms = round(now_ms() - began)
        if waited_ms >= timeout_ms or found.sealed:
            raise TimeNotReached(
                stream=stream,
                key=key,
                time=time,
                reached=found.reached,
                waited_ms=waited_ms,
                holder=found.held_by.writer if found.held_by is not None else None,
                excluded=found.excluded if found.there else (),
                sealed=found.sealed,
            )
        if on_wait is not None:
            on_wait(found)
        if now_ms() - asked < wait_ms:
            yield Pause(WAIT_PAUSE_MS)  # a controller that is about to stop answers at once
