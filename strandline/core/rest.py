"""The rest of an ingestion stream: all of its reporters are idle, and its time follows the clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from strandline.core.aggregate import Aggregate, Holder
from strandline.core.note import DEFAULT_KEY
from strandline.core.writer import StreamWriter, WriterState

CALLING: Final = (WriterState.JOINED, WriterState.ACTIVE, WriterState.BEHIND)
LEFT_BY_THEMSELVES: Final = (WriterState.IDLE, WriterState.CLOSED)


def is_at_rest(aggregate: Aggregate, forget_after_ms: int, now: int) -> bool:
    """Whether every reporter is idle or closed; excluded ones and those that marks no longer name do not count."""
    if _nobody_counts(aggregate) and _lost_since(aggregate, forget_after_ms, now) is None:
        return aggregate.remainder.closed or aggregate.census.count(*LEFT_BY_THEMSELVES) > 0
    return False


def holder_of_rest(
    aggregate: Aggregate, forget_after_ms: int, now: int, silent_ms: Callable[[StreamWriter], int]
) -> Holder | None:
    """The lost reporter that prevents the rest, if all others are idle, and for how long. Of several lost ones, the one
    that is forgotten last."""
    if not _nobody_counts(aggregate) or not aggregate.census.count(*LEFT_BY_THEMSELVES):
        return None
    since, writer = _lost_since(aggregate, forget_after_ms, now), aggregate.census.last(WriterState.TIMED_OUT)
    if since is None or writer is None:
        return None
    return Holder(
        writer=writer.name,
        state=WriterState.TIMED_OUT.value,
        time=writer.key_states[DEFAULT_KEY].value,
        last_heard_ms_ago=silent_ms(writer),
        released_in_ms=since + forget_after_ms - now,
    )


def _nobody_counts(aggregate: Aggregate) -> bool:
    return aggregate.enough_have_noted and not aggregate.census.count(*CALLING)


def _lost_since(aggregate: Aggregate, forget_after_ms: int, now: int) -> int | None:
    """When the last reporter that timed out did, if it is not forgotten yet."""
    writer = aggregate.census.last(WriterState.TIMED_OUT)
    since = None if writer is None else writer.key_states[DEFAULT_KEY].lost_at
    return None if since is None or now - since >= forget_after_ms else since
