"""The notes of a writer until they are answered:

fresh ──flush of the log──► waiting, with a position ──batch──► under way ──► answered
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import reduce

from strandline.errors import PositionWentBack, TimeWentBack
from strandline.wire.streams import NoteAnswer
from writer_client.notes import Pending, WaitingNotes, merged


class Outbox:
    """See above."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}  # the last noted times, answered or not
        self.last_position: dict[str, int] = {}  # the last positions that the caller gave
        self.fresh: dict[str, int] = {}
        self.flushing = False
        self.flush_at = 0.0  # the next flush is not before this time
        self.put_off: Exception | None = None  # why the last one gave no position: usually an open transaction
        self.waiting = WaitingNotes()
        self.ready = False  # to be sent with the next batch
        self.under_way: list[Pending] = []
        self._newest: Mapping[str, int] = {}  # of the fresh ones
        self._sent = 0  # events sent when they were noted
        self._unpositioned: Pending | None = None  # gets its position from the flush under way
        self._flush_sent = 0  # events sent when that flush began, or, with `newest`, when it was noted
        self._may_be_done: Pending | None = None  # since an answer was lost: the greatest times and positions sent

    def __len__(self) -> int:
        """How many notes are not answered."""
        without_position = int(bool(self.fresh)) + int(self._unpositioned is not None)
        return without_position + len(self.waiting) + len(self.under_way)

    @property
    def positioned(self) -> list[Pending]:
        """Those that have a position."""
        return [*self.waiting, *self.under_way]

    def unattended(self) -> int:
        """How many nobody waits for."""
        return len(self) - sum(bool(each.awaited) for each in self.positioned)

    # -- a position --------------------------------------------------------------------------------------------------

    def add(self, times: Mapping[str, int], newest: Mapping[str, int], sent: int) -> None:
        """Notes times at the position that the next flush returns; `newest` covers the events sent by now."""
        self.last.update(times)
        self.fresh.update(times)
        self._newest, self._sent = newest, sent

    def add_clock(self, key: str, time: int) -> None:
        """The same of a clock, which is not set back."""
        self.fresh[key] = self.last[key] = max(time, self.last.get(key, time))

    def add_at(
        self,
        times: Mapping[str, int],
        position: Mapping[str, int],
        newest: Mapping[str, int],
        awaited: tuple[Future[NoteAnswer], ...] = (),
    ) -> None:
        """Notes times at a position from the caller. They replace times of the same keys that wait for a flush."""
        self.last.update(times)
        self.last_position.update(position)
        self.fresh = {key: time for key, time in self.fresh.items() if key not in times}
        if self._unpositioned is not None:
            left = {key: time for key, time in self._unpositioned.times.items() if key not in times}
            self._unpositioned = replace(self._unpositioned, times=left)
        self.waiting.add(Pending(dict(times), dict(position), dict(newest), awaited=awaited))

    def flush_begins(self, sent: int) -> None:
        """Assigns all fresh times to the flush that begins now; so many events are sent."""
        self._unpositioned = Pending(self.fresh, {}, self._newest, from_log=True)
        self._flush_sent = self._sent if self._newest else sent
        self.fresh, self._newest = {}, {}

    def flush_ends(self, sent: int) -> tuple[Pending, bool]:
        """What was assigned to it, and whether nothing newer lies below its position; so many events are sent now."""
        pending, self._unpositioned, self.flushing = self._unpositioned, None, False
        assert pending is not None
        return pending, self._flush_sent == sent

    def keep_fresh(self, pending: Pending) -> None:
        """The flush gave it no position: the next one does."""
        self.fresh = {**pending.times, **self.fresh}

    def put_off_until(self, until: float, error: Exception) -> None:
        self.put_off, self.flush_at = error, until

    def may_flush(self) -> None:
        self.put_off, self.flush_at = None, 0.0

    def newest_unknown(self) -> None:
        """The log may have newer events than the caller had."""
        self._newest = {}
        if self._unpositioned is not None:
            self._unpositioned = replace(self._unpositioned, newest={})

    # -- an answer ---------------------------------------------------------------------------------------------------

    def take(self) -> list[Pending]:
        """Takes all waiting notes; they are under way then."""
        notes = self.waiting.take()
        if any(each.awaited for each in notes):
            # It is sent again within one call: a repeated note must not be behind another one of the same call.
            notes = [reduce(merged, notes)]
        self.under_way = notes
        return notes

    def keep(self, count: int) -> None:
        """Puts back the last notes, which did not fit into the batch."""
        if count:
            at = len(self.under_way) - count
            self.waiting.put_back(self.under_way[at:])
            del self.under_way[at:]

    def taken(self, pending: Pending) -> None:
        """A note was taken: one that is repeated may be behind it now."""
        if self._may_be_done is not None:
            self._may_be_done = merged(self._may_be_done, pending)

    def unanswered(self, pending: Pending) -> Pending:
        """The answer to a note was lost: it may have been taken. Returns the note to send again."""
        before = self._may_be_done
        self._may_be_done = pending if before is None else merged(before, pending)
        return replace(pending, may_be_done=True)

    def rest_of(self, pending: Pending, error: Exception) -> list[Pending] | None:
        """What remains of a note that is refused only because it, or a later one, was taken earlier and the answer was
        lost. None if it is refused for another reason."""
        reach = self._may_be_done
        if reach is None or not pending.may_be_done:
            return None
        match error:
            case TimeWentBack(key=key, stored_time=stored) if stored <= reach.times.get(key, stored - 1):
                rest = pending.without({key})
                return [] if rest is None else [rest]
            case PositionWentBack(segment=segment, stored_offset=stored) if stored <= reach.position.get(segment, -1):
                return [replace(merged(pending, reach), times=pending.times, asks=pending.asks)]
            case _:
                return None

    def drop(self, times: Mapping[str, int]) -> Sequence[Pending]:
        """Drops all that is not sent, which can no longer be noted; these are the last times then. Returns those that
        had a position."""
        self.fresh, self.last = {}, dict(times)
        return self.waiting.take()

    def go_back_to(self, times: Mapping[str, int]) -> None:
        """Lets the next note go back behind a time that was never taken, to the greatest that may have been."""
        self.last = dict(times)
        self.last_position = {}
        for pending in self.waiting:
            self.last.update(pending.times)
            self.last_position.update(pending.position)
        self.last.update(self._unpositioned.times if self._unpositioned is not None else {})
        self.last.update(self.fresh)
