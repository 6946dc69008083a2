"""Writers whose dates are far ahead of the clock: from when on, by how much, and whether their notes are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from controller.commit.journal import Journal, Topic
from strandline.core.changes import Changes
from strandline.core.config import TimeDomain
from strandline.core.stream import Stream
from strandline.core.time_units import is_epoch
from strandline.core.writer import Phase
from strandline.errors import TimeTooFarAhead
from strandline.wire.status import AHEAD_KEPT, AHEAD_NAMED_MS

UNKNOWN_KEPT_MS: Final = 600_000  # how long a writer is named that noted nothing and was refused
REFUSED_AGAIN_MS: Final = 60_000  # between two notes of a writer that are refused as too far ahead, and stored


class AheadWriter(msgspec.Struct, frozen=True, array_like=True):
    """A writer that is far ahead of the clock since then. If its notes are refused, `time` is that of the last one that
    is stored, and `noted` the time that it had noted: another one there means that this is over."""

    writer: str
    key: str
    since: int
    time: int
    clock: int  # when it had that time
    refused: bool
    noted: int | None = None
    is_known: bool = True  # if not, it has noted nothing yet

    def ahead_ms(self, now: int) -> int:
        """By how much it is ahead; 0 if that is not worth a name any more, as far as the clock tells."""
        if self.refused:
            return self.time - self.clock if self.is_known or now - self.clock < UNKNOWN_KEPT_MS else 0
        return self.time - now if self.time - now > AHEAD_NAMED_MS else 0


def next_ahead(
    before: Sequence[AheadWriter],
    refused: Sequence[AheadWriter],
    changes: Changes,
    stream: Stream,
    journal: Journal,
) -> tuple[AheadWriter, ...]:
    """Who is ahead after a commit. Journals whose times begin to be far ahead of the clock, and whose end to be; a
    refusal has an entry anyway."""
    now, found = stream.clock, dict[tuple[str, str], AheadWriter]()
    for each in before:
        if is_still_ahead(each, stream, now):
            found[each.writer, each.key] = each
        elif not each.refused:
            journal.record(Topic.AHEAD, "ahead_ended", now, {"writer": each.writer, "key": each.key})
    for each in refused:
        known = found.get((each.writer, each.key))
        if is_still_ahead(each, stream, now) and (known is None or known.refused):
            found[each.writer, each.key] = each if known is None else replace(each, since=known.since)
    for name in changes.writers if is_of_events(stream) else ():
        writer = stream.writers[name]
        for key, key_state in writer.key_states.items() if writer.excluded_at is None else ():
            time, whose = key_state.time, (name, key)
            if time is None or not is_far_ahead(time, now):
                continue
            known = found.get(whose)
            if known is not None and not known.refused:
                found[whose] = replace(known, time=time, clock=now)
            elif known is None and _has_room(found, time):
                found[whose] = AheadWriter(*whose, now, time, now, refused=False)
                journal.record(Topic.AHEAD, "ahead", now, {"writer": name, "key": key, "time": time, "clock": now})
    return tuple(found.values())[:AHEAD_KEPT]


def _has_room(found: dict[tuple[str, str], AheadWriter], time: int) -> bool:
    """Whether a writer that begins to be ahead is to be kept. Of more than are, the nearest makes room for one that is
    further ahead by so much that they do not take turns."""
    if len(found) < AHEAD_KEPT:
        return True
    free = [each for each in found.values() if not each.refused]
    nearest = min(free, key=lambda each: each.time, default=None)
    if nearest is None or time - nearest.time <= AHEAD_NAMED_MS:
        return False
    del found[nearest.writer, nearest.key]
    return True


def refused_ahead(
    writer: str, error: TimeTooFarAhead, stream: Stream, known: Sequence[AheadWriter]
) -> AheadWriter | None:
    """What is to be stored of a note that is refused as too far ahead of the clock, if anything: once a minute is
    enough of a writer that goes on. `known` are those that are stored, or will be."""
    clock = error.clock
    if not is_of_events(stream) or not is_far_ahead(error.time, clock):
        return None
    same = [each for each in known if (each.writer, each.key) == (writer, error.key)]
    fresh = [each for each in same if not each.refused or clock - each.clock < REFUSED_AGAIN_MS]
    if any(is_still_ahead(each, stream, clock) for each in fresh):
        return None
    found = stream.writers.get(writer)
    room = AHEAD_KEPT if found is not None else AHEAD_KEPT // 2  # names that nobody has are no end of them
    if not same and len(known) >= room:
        return None
    key_state = None if found is None else found.key_states.get(error.key)
    noted = None if key_state is None else key_state.time
    if noted is not None and is_far_ahead(noted, clock):  # that time goes where it has noted is graver
        return None
    is_known = key_state is not None
    return AheadWriter(writer, error.key, clock, error.time, clock, refused=True, noted=noted, is_known=is_known)


def is_of_events(stream: Stream) -> bool:
    """Whether times are the application's: in the ingestion domain the clock bounds them, and none is ahead."""
    return stream.config.time_domain is TimeDomain.EVENT


def is_far_ahead(time: int, now: int) -> bool:
    """Whether a time is a date that is further ahead of the clock than is named."""
    return time > now + AHEAD_NAMED_MS and is_epoch(time)


def is_still_ahead(each: AheadWriter, stream: Stream, now: int) -> bool:
    """Whether what was stored of a writer holds. One that comes back under the bound by a little goes beyond it again
    with its next note: that is one span."""
    writer = stream.writers.get(each.writer)
    key_state = None if writer is None else writer.key_states.get(each.key)
    if writer is None or key_state is None:  # it noted nothing, and was refused
        return each.refused and now - each.clock < UNKNOWN_KEPT_MS
    if writer.excluded_at is not None:
        return False
    if each.refused:
        return key_state.time == each.noted and not writer.closed and key_state.phase is not Phase.IDLE
    return key_state.time is not None and key_state.time - now > AHEAD_NAMED_MS // 2
