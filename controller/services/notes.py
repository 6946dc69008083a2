"""Notes: judged one after the other, durable together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from controller.services.clock import Clock
from controller.services.commits import Committer, Durable
from controller.services.journal import tell_refused
from controller.services.live import Live
from controller.services.streams import Streams
from strandline.aggregate import Holder
from strandline.changes import Answer
from strandline.errors import Refused, StrandlineError
from strandline.note import Note
from strandline.protocol.errors import Undecided
from strandline.segment import SegmentGraph


class Noted(NamedTuple):
    """An answer to a note, and by key who holds time back where the note brought about no mark."""

    answer: Answer
    held_by: dict[str, Holder]
    graph: SegmentGraph  # for the cuts of the marks


class Notes:
    """Takes notes for any stream."""

    def __init__(self, streams: Streams, committer: Committer, clock: Clock) -> None:
        self._streams = streams
        self._committer = committer
        self._clock = clock

    async def take(self, stream: str, note: Note, *, tail: bool = False, by: str | None = None) -> Noted:
        """One note: answered when it is durable; raises what refuses it, with nothing changed.

        `by` is the name of the caller's token, for the journal.
        """
        live = self._streams.at_hand(stream) or await self._streams.get(stream)
        self._committer.admit()
        noted = self._apply(live, note, tail, by)
        await self._streams.touch(live)
        return noted

    async def take_all(
        self, notes: Sequence[tuple[str, Note | StrandlineError]], by: str | None = None
    ) -> list[Noted | StrandlineError]:
        """Many, each with its stream, in order: each is judged after the ones before it, and harms no other.

        What could not even be made into a note stands for itself, and so does one that the store did not keep. Raises
        Overloaded; StoreUnavailable or StoreUndecided where the store kept none.
        """
        self._committer.admit(len(notes))
        results: list[Noted | StrandlineError] = []
        waits: dict[int, Durable] = {}  # by place among the results: notes that waited for a stream are kept later
        for stream, note in notes:
            if isinstance(note, StrandlineError):
                self.journal_refusal(stream, note, by)
                results.append(note)
                continue
            try:
                live = self._streams.at_hand(stream) or await self._streams.get(stream)
                results.append(self._apply(live, note, False, by))
            except StrandlineError as error:
                results.append(error)
            else:
                waits[len(results) - 1] = self._streams.touch(live)
        await _all_kept(waits, results)
        return results

    def journal_refusal(self, stream: str, error: StrandlineError, by: str | None) -> None:
        """Enters into a stream's journal a call that was refused before the stream saw it: a note that is badly made,
        or a call for a writer that its token does not speak for. A stream that is not in memory is not loaded."""
        live = self._streams.at_hand(stream)
        if live is None or not isinstance(error, Refused):
            return
        live.counts.refuse(error.code)
        if live.journal.refuse(error, self._clock.now(), by=by):
            self._committer.keep(live)
            tell_refused("stream", stream, error)

    def _apply(self, live: Live, note: Note, tail: bool, by: str | None) -> Noted:
        now = self._clock.now()
        try:
            answer = live.stream.note(note, now, tail=tail)
        except Refused as error:
            live.counts.refuse(error.code, note.writer)
            if live.journal.refuse(error, now, by=by, writer=note.writer):
                self._committer.keep(live)
                tell_refused("stream", live.name, error, writer=note.writer)
            raise
        live.counts.notes += 1
        if answer.late:
            live.counts.late(note.writer)
        for segment in note.position:
            live.noted_at[segment] = now
        held: dict[str, Holder] = {}
        if not answer.marks:
            for key in note.times:
                holder = live.stream.held_by(key, now)
                if holder is not None:
                    held[key] = holder
        return Noted(answer, held, live.stream.graph)


async def _all_kept(waits: Mapping[int, Durable], results: list[Noted | StrandlineError]) -> None:
    """Waits until all notes are durable, and puts the error in the place of each that will not be; raises it where none
    was kept."""
    errors: dict[Durable, StrandlineError] = {}
    done = set(waits.values())
    for wait in done:
        try:
            await wait
        except StrandlineError as error:
            errors[wait] = error
    if errors and len(errors) == len(done):
        raise next((each for each in errors.values() if isinstance(each, Undecided)), next(iter(errors.values())))
    for place, wait in waits.items():
        if wait in errors:
            results[place] = errors[wait]
