"""The rest of an ingestion stream: all of its reporters are idle, and its time follows the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from strandline.core.aggregate import Aggregate, Holder
from strandline.core.note import DEFAULT_KEY
from strandline.core.writer import Phase, StreamWriter


def is_at_rest(aggregate: Aggregate, writers: Mapping[str, StreamWriter], forget_after_ms: int, now: int) -> bool:
    """Whether every reporter is idle or closed; excluded ones and those that marks no longer name do not count."""
    if not aggregate.enough_have_noted or aggregate.someone_counts:
        return False
    someone = aggregate.remainder.closed
    for writer in writers.values():
        key_state = writer.key_states[DEFAULT_KEY]
        since = writer.lost_since(key_state)
        if writer.excluded_at is not None or (since is not None and now - since >= forget_after_ms):
            continue
        if since is not None or not (writer.closed or key_state.phase is Phase.IDLE):
            return False
        someone = True
    return someone


def holder_of_rest(
    aggregate: Aggregate,
    writers: Mapping[str, StreamWriter],
    forget_after_ms: int,
    now: int,
    silent_ms: Callable[[StreamWriter], int],
) -> Holder | None:
    """The lost reporter that prevents the rest, if all others are idle, and for how long. Of several lost ones, the one
    that is forgotten last."""
    if not aggregate.enough_have_noted or aggregate.someone_counts:
        return None
    holders: list[tuple[int, str]] = []
    idle = False
    for name, writer in writers.items():
        key_state = writer.key_states[DEFAULT_KEY]
        since = writer.lost_since(key_state)
        if since is None:
            if not (writer.closed or key_state.phase is Phase.IDLE):
                return None  # a skipped writer prevents the rest too
            idle = True
        elif writer.excluded_at is None and now - since < forget_after_ms:
            holders.append((since, name))
    if not idle or not holders:
        return None
    since, name = max(holders)
    writer = writers[name]
    key_state = writer.key_states[DEFAULT_KEY]
    last = aggregate.last
    return Holder(
        writer=name,
        state=str(writer.state(key_state, None if last is None else last.time)),
        time=key_state.value,
        last_heard_ms_ago=silent_ms(writer),
        released_in_ms=since + forget_after_ms - now,
    )
